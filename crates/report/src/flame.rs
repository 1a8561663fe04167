//! A cut as a flame graph (Gregg, "The Flame Graph", CACM 2016), drawn by inferno.

use std::io::Write;

use inferno::flamegraph::{Options, from_lines};
use transect_analyze::{CutDimension, CutKey, CutView};

use crate::ReportError;
use crate::terminal::escape;

/// Draws a cut whose last dimension is the stack; those before it are the frames below.
///
/// # Errors
/// [`ReportError::Empty`] if it has no rows, [`ReportError::Encode`] or [`ReportError::Write`] if it can't be drawn or written.
pub fn render(view: &CutView, title: &str, out: &mut dyn Write) -> Result<(), ReportError> {
    let lines: Vec<String> = view
        .rows
        .iter()
        .filter(|row| row.value > 0)
        .map(|row| {
            let frames = row.keys.iter().zip(&view.by).map(|(key, dimension)| match key {
                // Its frames are joined already.
                CutKey::Name(stack) if *dimension == CutDimension::Stack => escape(stack).into_owned(),
                CutKey::Name(name) => escape(name).replace(';', ":"),
                CutKey::None => format!("[no {dimension}]"),
                CutKey::Time(ns) => format!("{:.3} s", *ns as f64 / 1e9),
            });
            format!("{} {}", frames.collect::<Vec<_>>().join(";"), row.value)
        })
        .collect();
    if lines.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut options = Options::default();
    options.title = escape(title).into_owned();
    options.count_name = view.scope.unit.to_owned();
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| ReportError::Encode(error.to_string()))?;
    out.write_all(&svg)?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use transect_analyze::{CutMeasure, CutRow, CutScope};

    use super::*;

    #[test]
    fn names_are_neither_markup_nor_frames_of_their_own() {
        let name = |text: &str| CutKey::Name(text.to_owned());
        let row = CutRow {
            keys: vec![name("/tmp/a;b\u{1b}[31m<x>.txt"), name("main;write_all;fsync")],
            value: 7,
            low: 7,
            high: 7,
            share: 1.0,
        };
        let scope = CutScope {
            measure: CutMeasure::Blocked,
            unit: CutMeasure::Blocked.unit(),
            filter: None,
            from_ns: None,
            to_ns: None,
            total: 7,
            whole: 7,
        };
        let view = CutView { by: vec![CutDimension::Object, CutDimension::Stack], scope, rows: vec![row] };
        let mut svg = Vec::new();
        render(&view, "prog \u{7}", &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(!svg.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')));
        assert!(!svg.contains("<x>") && svg.contains("/tmp/a:b"));
        // The whole, the object and three functions.
        assert_eq!(svg.matches("<title>").count(), 5);
        assert!(matches!(render(&CutView { rows: Vec::new(), ..view }, "", &mut Vec::new()), Err(ReportError::Empty)));
    }
}
