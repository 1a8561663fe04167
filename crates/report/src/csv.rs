//! One view as comma-separated values: the rows' JSON keys as columns, times in ns, safe to open in a spreadsheet.

use std::io::Write;

use serde_json::{Map, Value};
use transect_analyze::{CutKey, CutRow, CutView, View};
use transect_profile_export::{ExportError, csv};
use transect_profile_model::Metric;

use crate::{Content, ReportError, Rows, json};

/// Columns of each view.
fn columns(view: View, metric: Metric) -> Result<&'static [&'static str], ReportError> {
    Ok(match view {
        View::Summary => {
            &["finding", "evidence", "view", "next", "kind", "percent", "saves_percent", "confidence", "where"]
        }
        View::Components => &[
            "component",
            "path",
            "build_id",
            "self_ns",
            "on_cpu_ns",
            "runnable_ns",
            "blocked_ns",
            "wait_ns",
            "calls_in",
            "calls_out",
            "others",
            "self_attributed_ns",
            "wait_attributed_ns",
            "self_percent",
            "wait_percent",
            "self_raw_percent",
            "wait_raw_percent",
            "executable",
            "synthetic",
        ],
        View::Apis | View::Callers | View::Flows => &csv::FLOW_COLUMNS,
        View::Threads => &[
            "process",
            "tid",
            "name",
            "group",
            "start_routine",
            "wall_ns",
            "busy_ns",
            "wait_ns",
            "calls",
            "on_cpu_ns",
            "runnable_ns",
            "blocked_ns",
            "attributed_ns",
            "executable",
            "start_ns",
        ],
        View::Waits => &["group", "api", "object", "count", "ns", "caller"],
        View::Locks => &["object", "path", "acquisitions", "contended", "wait_ns", "hold_ns", "process"],
        View::Latency => csv::latency_columns(metric),
        View::Criticality => &csv::CRITICAL_PATH_COLUMNS,
        View::Walk => &csv::WALK_COLUMNS,
        View::Features => &csv::FEATURE_COLUMNS,
        View::Loss => &["what", "where", "count", "reason"],
        View::Meta => return Err(ReportError::NoTable(view)),
    })
}

/// Writes the rows of a view: a header line, then one record a row. Lists, such as `others` of a component
/// and `stack` of a critical path, are one cell of JSON. The rows of the criticality view are its call paths, those
/// of the walk the frames of its chains; the features view is several tables in one, told apart by the column `row`.
///
/// # Errors
/// [`ReportError::NoView`] for the overview, [`ReportError::NoTable`] for `meta`, [`ReportError::Write`] if `out`
/// fails.
pub fn render(content: &Content, out: &mut dyn Write) -> Result<(), ReportError> {
    if let Rows::Cut { view, .. } = &content.rows {
        return cut(view, out);
    }
    let metric = content.meta.latency.as_ref().map(|session| session.metric).unwrap_or_default();
    let columns = columns(content.rows.view().ok_or(ReportError::NoView)?, metric)?;
    let rows = match json::rows(content)? {
        Value::Array(rows) => rows,
        Value::Object(view) if view.contains_key("regions") => csv::feature_rows(view),
        // Of the criticality view, its call paths; of the walk, the frames of its chains.
        Value::Object(mut view) => match (view.remove("paths"), view.remove("chains")) {
            (Some(Value::Array(rows)), _) => rows,
            (_, Some(Value::Array(chains))) => csv::walk_rows(chains),
            _ => vec![Value::Object(view)],
        },
        Value::Null => Vec::new(),
        other => vec![other],
    };
    write(columns, &rows, out)
}

/// A cut: a column for each dimension, then the sum.
fn cut(view: &CutView, out: &mut dyn Write) -> Result<(), ReportError> {
    let by: Vec<String> = view.by.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = by.iter().map(String::as_str).chain(["value", "low", "high", "share"]).collect();
    let key = |key: &CutKey| match key {
        CutKey::None => Value::Null,
        CutKey::Name(name) => Value::from(name.as_str()),
        CutKey::Time(ns) => Value::from(*ns),
    };
    let row = |row: &CutRow| -> Map<String, Value> {
        let keys = by.iter().cloned().zip(row.keys.iter().map(key));
        let sums = [("value", row.value), ("low", row.low), ("high", row.high)];
        let sums = sums.map(|(column, sum)| (column.to_owned(), Value::from(sum)));
        keys.chain(sums).chain([("share".to_owned(), Value::from(row.share))]).collect()
    };
    let rows: Vec<Map<String, Value>> = view.rows.iter().map(row).collect();
    write(&columns, &rows, out)
}

fn write(columns: &[&str], rows: &[impl serde::Serialize], out: &mut dyn Write) -> Result<(), ReportError> {
    csv::write_rows(columns, rows, out).map_err(|e| match e {
        ExportError::Write(e) => ReportError::Write(e),
        other => ReportError::Encode(other.to_string()),
    })?;
    out.flush()?;
    Ok(())
}
