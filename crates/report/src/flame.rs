//! A cut as a flame graph (Gregg, "The Flame Graph", CACM 2016), drawn by inferno.

use std::io::Write;

use inferno::flamegraph::{Options, from_lines};
use transect_analyze::{CutKey, CutView};

use crate::ReportError;

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
                // Stacks are joined already.
                CutKey::Name(name) => name.clone(),
                CutKey::None => format!("[no {dimension}]"),
                CutKey::Time(ns) => format!("{:.3} s", *ns as f64 / 1e9),
            });
            format!("{} {}", frames.collect::<Vec<_>>().join(";").replace(['\n', '\r'], " "), row.value)
        })
        .collect();
    if lines.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = view.scope.unit.to_owned();
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| ReportError::Encode(error.to_string()))?;
    out.write_all(&svg)?;
    out.flush()?;
    Ok(())
}
