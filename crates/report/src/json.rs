//! The views as JSON: rows exactly as `transect-analyze` computed them, under stable keys.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter};
use serde_json::{Value, json};
use transect_analyze::CutReading;

use crate::terminal::is_hazard;
use crate::{Content, ReportError, Rows};

/// Writes one object: all keys (`meta`, `summary`, `components`, `flows`, `threads`, `waits`, `locks`, `latency`,
/// `criticality`, `walk`, `features`, `regions`, `loss`) without a view, that view's key with one (`features`: both
/// `features` and `regions`; with flows recorded too `feature_apis` and `feature_components`); of a cut the key `cut`, of a view read from
/// cuts its own (`hot`, `tree`, `annotate`, `system_calls`, `timeline`).
///
/// Characters that steer terminals are written as `\uXXXX`: the parsed strings are the same, and the text is safe to
/// look at.
///
/// # Errors
/// [`ReportError::Write`] if `out` fails, [`ReportError::Encode`] if a row does not serialize.
pub fn render(content: &Content, out: &mut dyn Write) -> Result<(), ReportError> {
    match (&content.rows, content.rows.view()) {
        (Rows::Overview(full), _) => write(full, out),
        // Two keys.
        (Rows::Features(view), _) => write(view, out),
        (Rows::Cut { view, .. }, _) => write(&json!({ "cut": view }), out),
        (Rows::Reading { view, .. }, _) => write(&reading(view), out),
        (_, Some(view)) => write(&json!({ view.json_key(): rows(content)? }), out),
        (_, None) => write(&json!({}), out),
    }
}

/// The rows under the view's key.
pub(crate) fn rows(content: &Content) -> Result<Value, ReportError> {
    fn value(rows: impl Serialize) -> Result<Value, ReportError> {
        serde_json::to_value(rows).map_err(|e| ReportError::Encode(e.to_string()))
    }
    match &content.rows {
        Rows::Overview(full) => value(full),
        Rows::Summary(rows) => value(rows),
        Rows::Components(rows) => value(rows),
        Rows::Apis(view) => value(view.rows()),
        Rows::Callers { rows, .. } => value(rows),
        Rows::Flows(rows) => value(rows),
        Rows::Threads(view) => value(&view.threads),
        Rows::Waits(rows) => value(rows),
        Rows::Locks(rows) => value(rows),
        Rows::Latency(rows) => value(rows),
        Rows::Criticality(view) => value(view),
        Rows::Walk(view) => value(view),
        Rows::Features(view) => value(view),
        Rows::Meta => value(&content.meta),
        Rows::Loss(rows) => value(rows),
        Rows::Cut { view, .. } => value(view),
        Rows::Reading { view, .. } => Ok(reading(view)),
    }
}

fn reading(view: &CutReading) -> Value {
    match view {
        CutReading::Hot(view) => json!({ "hot": view }),
        CutReading::Tree(view) => json!({ "tree": view }),
        CutReading::Annotate(view) => json!({ "annotate": view }),
        CutReading::SystemCalls(rows) => json!({ "system_calls": rows }),
        CutReading::Timeline(view) => json!({ "timeline": view }),
    }
}

fn write(object: &impl Serialize, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, TerminalSafe(PrettyFormatter::new()));
    object.serialize(&mut serializer).map_err(|e| match e.io_error_kind() {
        Some(kind) => ReportError::Write(io::Error::new(kind, e)),
        None => ReportError::Encode(e.to_string()),
    })?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Pretty JSON whose strings hold no character that a terminal obeys.
struct TerminalSafe<'a>(PrettyFormatter<'a>);

impl Formatter for TerminalSafe<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, hazard)) = rest.char_indices().find(|&(_, c)| is_hazard(c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in hazard.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + hazard.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_and_steer_nothing() {
        let evil = "a\u{1b}[31m\u{9b}2J\u{202e}\"\\\n\u{e0041}é";
        let mut out = Vec::new();
        write(&json!({ "name": evil }), &mut out).unwrap();
        let text = String::from_utf8(out.clone()).unwrap();
        assert!(!text.chars().any(|c| is_hazard(c) && c != '\n'), "{text:?}");
        let back: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(back["name"], evil);
        assert!(text.contains('é'));
    }
}
