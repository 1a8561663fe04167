//! Comma-separated values (RFC 4180), safe to open in a spreadsheet.
//!
//! A cell that a spreadsheet would take for a formula is prefixed with `'`, as the Open Worldwide Application Security
//! Project advises (<https://owasp.org/www-community/attacks/CSV_Injection>): symbol names are foreign input. For the same
//! reason characters that steer a terminal are spelled out: who looks at a table uses `cat`.

use std::borrow::Cow;
use std::io::Write;

use serde::Serialize;
use serde_json::Value;
use transect_analyze::Selection;
use transect_profile_model::{Metric, Profile};

use crate::{ExportError, Format, escape, is_hazard};

/// Columns of flow rows, in order. Every column is in every file: one that a profile has no value for is empty.
pub const FLOW_COLUMNS: [&str; 30] = [
    "caller",
    "callee",
    "api",
    "symbol",
    "version",
    "class",
    "wait",
    "calls",
    "timed_calls",
    "abandoned_calls",
    "total_ns",
    "self_ns",
    "on_cpu_ns",
    "runnable_ns",
    "blocked_ns",
    "attributed_ns",
    "criticality_ns",
    "total_ns_low",
    "total_ns_high",
    "self_ns_low",
    "self_ns_high",
    "p50_ns",
    "p99_ns",
    "max_ns",
    "bytes",
    "dlsym",
    "thread",
    "tid",
    "process",
    "feature",
];

/// Columns of latency rows, in order: amounts of time are named as such, counts are not.
pub fn latency_columns(metric: Metric) -> &'static [&'static str] {
    if metric.is_time() { &LATENCY_TIMES } else { &LATENCY_COUNTS }
}

const LATENCY_TIMES: [&str; 20] = [
    "function",
    "component",
    "calls_seen",
    "samples",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "max_ns",
    "calls_estimated",
    "total_ns",
    "symbol",
    "file",
    "line",
    "address",
    "calls_low",
    "calls_high",
    "total_low_ns",
    "total_high_ns",
    "process",
];

const LATENCY_COUNTS: [&str; 20] = [
    "function",
    "component",
    "calls_seen",
    "samples",
    "mean",
    "p50",
    "p90",
    "p99",
    "max",
    "calls_estimated",
    "total",
    "symbol",
    "file",
    "line",
    "address",
    "calls_low",
    "calls_high",
    "total_low",
    "total_high",
    "process",
];

/// Columns of critical paths, in order.
pub const CRITICAL_PATH_COLUMNS: [&str; 16] = [
    "state",
    "criticality_ns",
    "corrected_ns",
    "spin_ns",
    "low_parallelism_ns",
    "kernel_ns",
    "samples",
    "place",
    "kind",
    "object",
    "group",
    "complete",
    "stack",
    "components",
    "lines",
    "parallelism",
];

/// Columns of features and regions, in order: `row` is `feature` or `region`.
pub const FEATURE_COLUMNS: [&str; 35] = [
    "row",
    "features",
    "inclusive_ns",
    "exclusive_ns",
    "decided_ns",
    "cpu_ns",
    "events_ns",
    "entries",
    "threads",
    "samples",
    "method",
    "exclusive_ns_low",
    "exclusive_ns_high",
    "inclusive_ns_low",
    "inclusive_ns_high",
    "id",
    "component",
    "number",
    "kind",
    "function",
    "file",
    "line",
    "end_line",
    "parent",
    "sites",
    "irregular",
    "dependences",
    "verdicts",
    "callee",
    "api",
    "class",
    "calls",
    "total_ns",
    "self_ns",
    "wait_ns",
];

/// The rows of all tables of the features view, each with its kind.
pub fn feature_rows(mut view: serde_json::Map<String, Value>) -> Vec<Value> {
    let mut rows = Vec::new();
    for (key, kind) in
        [("features", "feature"), ("regions", "region"), ("feature_apis", "api"), ("feature_components", "component")]
    {
        let Some(Value::Array(of_kind)) = view.remove(key) else { continue };
        for mut row in of_kind {
            if let Value::Object(row) = &mut row {
                row.insert("row".to_owned(), kind.into());
            }
            rows.push(row);
        }
    }
    rows
}

/// Columns of the frames of a walk's chains, in order: those of the chain, then those of the frame.
pub const WALK_COLUMNS: [&str; 29] = [
    "chain",
    "thread_group",
    "process",
    "executable",
    "threads",
    "total",
    "ends",
    "waiting_for",
    "conclusion",
    "next",
    "depth",
    "function",
    "component",
    "space",
    "inlined",
    "share",
    "share_low",
    "share_high",
    "method",
    "on_ns",
    "runnable_ns",
    "blocked_ns",
    "file",
    "line",
    "disputed",
    "woken_by",
    "samples",
    "node",
    "frames",
];

/// The frames of a walk's chains as rows, each with its chain's fields; a chain without frames is one row.
pub fn walk_rows(chains: Vec<Value>) -> Vec<Value> {
    let mut rows = Vec::new();
    for (number, chain) in chains.into_iter().enumerate() {
        let Value::Object(mut chain) = chain else { continue };
        let frames = match chain.remove("frames") {
            Some(Value::Array(frames)) => frames,
            _ => Vec::new(),
        };
        // Rows of other threads' stacks.
        chain.remove("continues");
        chain.insert("chain".to_owned(), number.into());
        chain.insert("frames".to_owned(), frames.len().into());
        if frames.is_empty() {
            rows.push(Value::Object(chain));
            continue;
        }
        for (depth, frame) in frames.into_iter().enumerate() {
            let mut row = chain.clone();
            row.insert("depth".to_owned(), depth.into());
            // `share` and `woken_by` are the frame's: those of the chain are its last frame's.
            if let Value::Object(frame) = frame {
                row.extend(frame);
            }
            rows.push(Value::Object(row));
        }
    }
    rows
}

pub(crate) fn write_critical_paths(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let paths = transect_analyze::criticality(profile, &Selection::default()).map(|view| view.paths);
    write_rows(&CRITICAL_PATH_COLUMNS, &paths.unwrap_or_default(), out)
}

pub(crate) fn write_walk(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let chains = transect_analyze::walk(profile, &Selection::default()).map(|view| view.chains).unwrap_or_default();
    let chains = match serde_json::to_value(chains).map_err(|e| ExportError::json(Format::Csv, e))? {
        Value::Array(chains) => chains,
        _ => Vec::new(),
    };
    write_rows(&WALK_COLUMNS, &walk_rows(chains), out)
}

pub(crate) fn write_features(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let view = transect_analyze::features(profile, &Selection::default());
    let rows = match serde_json::to_value(view).map_err(|e| ExportError::json(Format::Csv, e))? {
        Value::Object(view) => feature_rows(view),
        _ => Vec::new(),
    };
    write_rows(&FEATURE_COLUMNS, &rows, out)
}

pub(crate) fn write_latency(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    write_rows(
        latency_columns(transect_analyze::latency_metric(profile)),
        &transect_analyze::latency(profile, &Selection::default()),
        out,
    )
}

pub(crate) fn write_flows(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    write_rows(&FLOW_COLUMNS, &transect_analyze::flows(profile, &Selection::default()), out)
}

/// Writes a header line of `columns` and one record a row: the row's fields of these names, empty where a field is
/// absent or null, compact JSON where it is a list. Strings pass through [`cell`].
///
/// # Errors
/// [`ExportError::Write`] if `out` fails, [`ExportError::Encode`] if a row does not serialize.
pub fn write_rows<R: Serialize>(columns: &[&str], rows: &[R], out: &mut dyn Write) -> Result<(), ExportError> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    let fail = |e: csv::Error| match e.into_kind() {
        csv::ErrorKind::Io(e) => ExportError::Write(e),
        kind => ExportError::Encode { format: Format::Csv, reason: format!("{kind:?}") },
    };
    writer.write_record(columns).map_err(fail)?;
    for row in rows {
        let row = serde_json::to_value(row).map_err(|e| ExportError::json(Format::Csv, e))?;
        writer.write_record(columns.iter().map(|column| text(row.get(column)))).map_err(fail)?;
    }
    writer.flush()?;
    Ok(())
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => cell(text).into_owned(),
        Some(other) => plain_json(&other.to_string()),
    }
}

/// JSON in which characters that steer a terminal are spelled out as JSON does it; they stand in strings only.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hazard(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| plain.push_str(&format!("\\u{unit:04x}"))),
            false => plain.push(c),
        }
    }
    plain
}

/// `text` as a cell: prefixed with `'` if its first character is one of `=`, `+`, `-`, `@`, tab, carriage return
/// (or the full-width forms that spreadsheets fold into them); controls spelled out.
pub fn cell(text: &str) -> Cow<'_, str> {
    match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠') => {
            Cow::Owned(format!("'{}", escape(text)))
        }
        _ => escape(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text() {
        for bad in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"] {
            assert_eq!(cell(bad), format!("'{bad}"));
        }
        assert_eq!((cell("\t=1"), cell("\r=1")), ("'\\t=1".into(), "'\\r=1".into()));
        assert_eq!(cell("\u{1b}[2Jname\n"), "\\u{1b}[2Jname\\n");
        assert_eq!(cell("operator=(T const&)"), "operator=(T const&)");
        assert_eq!(cell(""), "");
    }

    #[test]
    fn frames_of_a_walk_are_rows_with_their_own_shares() {
        let chain = serde_json::json!({
            "thread_group": "main", "share": 0.4, "woken_by": "disk",
            "frames": [{ "function": "outer", "share": 0.9, "woken_by": null }, { "function": "inner", "share": 0.4 }],
        });
        let mut out = Vec::new();
        let columns = ["chain", "thread_group", "depth", "function", "share", "woken_by", "frames"];
        write_rows(&columns, &walk_rows(vec![chain, serde_json::json!({ "share": 1, "frames": [] })]), &mut out)
            .unwrap();
        let rows = "0,main,0,outer,0.9,,2\r\n0,main,1,inner,0.4,disk,2\r\n1,,,,1,,0\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{}\r\n{rows}", columns.join(",")));
    }

    #[test]
    fn lists_have_no_controls_and_stay_json() {
        let list = serde_json::json!(["a\u{1b}[2J", "\u{9b}2J\u{7f}", "\u{e0001}"]);
        let written = text(Some(&list));
        assert!(!written.contains(is_hazard), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), list);
    }

    #[test]
    fn absent_fields_are_empty_and_quotes_are_doubled() {
        #[derive(Serialize)]
        struct Row {
            name: &'static str,
            bytes: Option<i64>,
        }
        let mut out = Vec::new();
        write_rows(&["name", "bytes", "tid"], &[Row { name: "a \"b\", c", bytes: None }], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name,bytes,tid\r\n\"a \"\"b\"\", c\",,\r\n");
    }
}
