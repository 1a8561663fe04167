//! One view as comma-separated values: the rows' JSON keys as columns, times in ns, safe to open in a spreadsheet.

use std::io::Write;

use serde_json::{Map, Value};
use transect_analyze::{
    AnnotateView, CallNode, CutKey, CutReading, CutRow, CutView, Disassembly, StateTimes, ThreadLane, View,
};
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
        View::Locks => &[
            "object",
            "path",
            "acquisitions",
            "contended",
            "wait_ns",
            "hold_ns",
            "hold_ns_low",
            "hold_ns_high",
            "process",
        ],
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
    match &content.rows {
        Rows::Cut { view, .. } => return cut(view, out),
        Rows::Reading { view, .. } => return reading(view, out),
        _ => {}
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

const STATES: [&str; 3] = ["on_cpu_ns", "runnable_ns", "blocked_ns"];
/// Columns of a system call behind those of its states.
const SYSTEM_CALL_ENDS: [&str; 4] = ["exact", "total_ns_low", "total_ns_high", "blocked_estimated"];

/// A view read from cuts: its rows; of the tree, a row a node with the names from the root on.
/// Columns of a function's instructions before its states.
const INSTRUCTION_COLUMNS: [&str; 11] = [
    "component",
    "symbol",
    "address",
    "mnemonic",
    "operands",
    "target",
    "file",
    "line",
    "samples",
    "self_ns",
    "total_ns",
];

fn reading(view: &CutReading, out: &mut dyn Write) -> Result<(), ReportError> {
    match view {
        CutReading::Hot(view) => write(
            &[
                "function",
                "component",
                "file",
                "line",
                "self",
                "self_low",
                "self_high",
                "kernel",
                "total",
                "self_share",
                "total_share",
            ],
            &view.rows,
            out,
        ),
        CutReading::Tree(view) => {
            let mut rows = Vec::new();
            nodes(&view.roots, &mut Vec::new(), &mut rows);
            write(&["stack", "kernel", "total", "self"], &rows, out)
        }
        CutReading::Annotate(AnnotateView { disassembly: Some(Disassembly { instructions, .. }), .. }) => {
            write(&[&INSTRUCTION_COLUMNS[..], &STATES, &["hottest"]].concat(), instructions, out)
        }
        CutReading::Annotate(view) => {
            write(&[&["file", "line", "self_ns", "total_ns"][..], &STATES].concat(), &view.lines, out)
        }
        CutReading::SystemCalls(rows) => {
            write(&[&["system_call", "calls", "total_ns"][..], &STATES, &SYSTEM_CALL_ENDS].concat(), rows, out)
        }
        CutReading::Timeline(view) => {
            let step = |thread: &str, at: usize, times: &StateTimes| {
                let begin = view.from_ns + view.step_ns * at as i64;
                let times = [times.on_cpu_ns, times.runnable_ns, times.blocked_ns].map(Value::from);
                let keys = [("thread".to_owned(), Value::from(thread)), ("from_ns".to_owned(), Value::from(begin))];
                let times = STATES.iter().map(|state| (*state).to_owned()).zip(times);
                keys.into_iter().chain(times).collect::<Map<_, _>>()
            };
            let lane = |lane: &ThreadLane| {
                let steps = lane.steps.iter().enumerate();
                steps.map(|(at, times)| step(&lane.thread, at, times)).collect::<Vec<_>>()
            };
            let rows: Vec<Map<String, Value>> = view.threads.iter().flat_map(lane).collect();
            write(&[&["thread", "from_ns"][..], &STATES].concat(), &rows, out)
        }
    }
}

/// Rows of a tree's nodes, parents first.
fn nodes(of: &[CallNode], path: &mut Vec<String>, rows: &mut Vec<Map<String, Value>>) {
    for node in of {
        path.push(node.function.clone().unwrap_or_else(|| "[no stack]".to_owned()));
        let cells = [
            ("stack", Value::from(path.join(";"))),
            ("kernel", Value::from(node.kernel)),
            ("total", Value::from(node.total)),
            ("self", Value::from(node.own)),
        ];
        rows.push(cells.map(|(column, cell)| (column.to_owned(), cell)).into_iter().collect());
        nodes(&node.children, path, rows);
        path.pop();
    }
}

fn write(columns: &[&str], rows: &[impl serde::Serialize], out: &mut dyn Write) -> Result<(), ReportError> {
    csv::write_rows(columns, rows, out).map_err(|e| match e {
        ExportError::Write(e) => ReportError::Write(e),
        other => ReportError::Encode(other.to_string()),
    })?;
    out.flush()?;
    Ok(())
}
