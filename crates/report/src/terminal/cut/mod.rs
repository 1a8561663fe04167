//! A cut: its rows as a table, or as a tree in the order of its dimensions; and the views that are read from cuts.

pub(crate) mod annotate;
mod call_tree;
mod disassembly;
mod hot;
mod system_calls;
pub(crate) mod timeline;

use transect_analyze::{CutDimension, CutKey, CutMeasure, CutReading, CutRow, CutScope, CutView};

use super::Limit;
use super::escape::escape;
use super::page::Page;
use super::share_cell;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{bytes, count, duration, share};
use crate::Sources;

/// Rows of a tree below this share of the whole are left out.
const LEAST_OF_TREE: f64 = 0.005;

/// Prints a view that is read from cuts.
pub(crate) fn reading(page: &mut Page, view: &CutReading, sources: &Sources, limit: Limit) {
    match view {
        CutReading::Hot(view) => hot::hot(page, view, limit),
        CutReading::Tree(view) => call_tree::call_tree(page, view, limit),
        CutReading::Annotate(view) => annotate::annotate(page, view, sources),
        CutReading::SystemCalls(rows) => system_calls::system_calls(page, rows, limit),
        CutReading::Timeline(view) => timeline::timeline(page, view, limit),
    }
}

/// Prints a cut.
pub(crate) fn cut(page: &mut Page, view: &CutView, limit: Limit, tree: bool) {
    let by: Vec<String> = view.by.iter().map(ToString::to_string).collect();
    let by = if by.is_empty() { String::new() } else { format!("by {}; ", by.join(", ")) };
    page.section(title(view.scope.measure), &(by + &explanation(&view.scope)));
    if view.rows.is_empty() {
        return page.empty(nothing(&view.scope));
    }
    match tree && view.by.len() > 1 {
        true => nested(page, view, limit),
        false => table(page, view, limit),
    }
}

/// Why there are no rows.
pub fn nothing(scope: &CutScope) -> &'static str {
    match scope.filter {
        Some(_) => "nothing meets the filter",
        None => "nothing was recorded of it",
    }
}

/// What the shares are of.
pub fn explanation(scope: &CutScope) -> String {
    let mut words = format!("share of {}", amount(scope, scope.total));
    if scope.total != scope.whole {
        let part = share(scope.total, scope.whole).map(super::units::percent);
        words += &format!(", which is {} of all {}", part.unwrap_or_default(), amount(scope, scope.whole));
    }
    if scope.from_ns.is_some() || scope.to_ns.is_some() {
        let at = |ns: Option<i64>, open: &str| ns.map_or_else(|| open.to_owned(), duration);
        words += &format!("; from {} to {}", at(scope.from_ns, "the start"), at(scope.to_ns, "the end"));
    }
    if let Some(filter) = &scope.filter {
        words += &format!("; where {}", escape(filter));
    }
    words
}

/// What a measure is, as a title.
pub fn title(measure: CutMeasure) -> &'static str {
    match measure {
        CutMeasure::Time => "Threads' time",
        CutMeasure::OnCpu => "Time on a CPU",
        CutMeasure::Runnable => "Time runnable without a CPU",
        CutMeasure::Blocked => "Time blocked",
        CutMeasure::Critical => "Critical time",
        CutMeasure::Samples => "Samples",
        CutMeasure::Calls => "Calls between components",
        CutMeasure::Bytes => "Bytes moved by calls",
    }
}

/// The measure within a title.
pub fn measured(measure: CutMeasure) -> String {
    let title = title(measure);
    title[..1].to_lowercase() + &title[1..]
}

/// A sum with its unit.
pub fn amount(scope: &CutScope, value: i64) -> String {
    match scope.measure {
        CutMeasure::Samples | CutMeasure::Calls => count(value),
        CutMeasure::Bytes => bytes(value),
        _ => duration(value),
    }
}

/// Half of the interval's width, in points of the share; nothing where it is exact. No share is further off than the whole.
pub fn spread(scope: &CutScope, value: i64, (low, high): (i64, i64)) -> String {
    if low == value && high == value || scope.total == 0 {
        return String::new();
    }
    let half = (value - low).max(high - value);
    format!("±{:.1}", (half as f64 * 100.0 / scope.total as f64).min(100.0))
}

/// The head of a column of amounts.
pub fn head(measure: CutMeasure) -> &'static str {
    match measure {
        CutMeasure::Samples => "SAMPLES",
        CutMeasure::Calls => "CALLS",
        CutMeasure::Bytes => "BYTES",
        _ => "TIME",
    }
}

fn table(page: &mut Page, view: &CutView, limit: Limit) {
    let head = head(view.scope.measure);
    let mut columns =
        vec![Column::number("SHARE"), Column::number("±").rank(3), Column::number(head).rank(LAST_RESORT)];
    columns.extend(view.by.iter().map(|&dimension| column(dimension)));
    let mut table = Table::new(&columns);
    let rows = in_order(view);
    let (shown, left) = limit.apply(&rows);
    for row in shown {
        let mut cells = vec![
            share_cell(Some(row.share * 100.0)),
            Cell::new(Role::Dim, spread(&view.scope, row.value, (row.low, row.high))),
            amount(&view.scope, row.value).into(),
        ];
        cells.extend(row.keys.iter().map(|key| Cell::new(role(key), text(key))));
        table.cells(cells);
    }
    page.table(&table);
    page.left_out(left, "--top N, --where FILTER");
}

/// Rows in the order in which a table shows them.
pub fn in_order(view: &CutView) -> Vec<&CutRow> {
    let mut rows: Vec<&CutRow> = view.rows.iter().collect();
    if let Some(CutDimension::Time(_)) = view.by.first() {
        // A course over time has no largest rows.
        rows.sort_by(|a, b| a.keys[0].cmp(&b.keys[0]).then_with(|| b.value.cmp(&a.value)));
    }
    rows
}

fn column(dimension: CutDimension) -> Column {
    use CutDimension as D;
    match dimension {
        D::Service => Column::name("SERVICE", Kind::Text, 8),
        D::Version => Column::name("VERSION", Kind::Text, 8),
        D::Host => Column::name("HOST", Kind::Text, 8),
        D::Run => Column::name("RUN", Kind::Text, 8),
        D::Process => Column::name("PROCESS", Kind::Text, 10),
        D::Thread => Column::name("THREAD", Kind::Text, 10),
        D::ThreadGroup => Column::name("GROUP", Kind::Text, 8),
        D::Feature => Column::name("FEATURE", Kind::Text, 12),
        D::Component => Column::name("COMPONENT", Kind::Component, 13),
        D::Api => Column::name("API", Kind::Function, 14),
        D::Caller => Column::name("CALLER", Kind::Component, 13),
        D::Function => Column::name("FUNCTION", Kind::Function, 16),
        D::Line => Column::name("LINE", Kind::Text, 14),
        D::KernelFunction => Column::name("KERNEL FUNCTION", Kind::Function, 14),
        D::SystemCall => Column::name("SYSTEM CALL", Kind::Text, 10),
        D::State => Column::text("STATE"),
        D::Wait => Column::text("WAIT"),
        D::Object => Column::name("OBJECT", Kind::Text, 16),
        D::Holder => Column::name("HOLDER", Kind::Text, 10),
        D::Waker => Column::name("WAKER", Kind::Text, 10),
        D::Stack => Column::name("STACK", Kind::Text, 24),
        D::Time(_) => Column::number("FROM"),
    }
}

/// How names of a dimension are shortened.
pub fn kind(dimension: CutDimension) -> Kind {
    column(dimension).shape.map_or(Kind::Text, |(kind, _)| kind)
}

fn role(key: &CutKey) -> Role {
    if *key == CutKey::None { Role::Dim } else { Role::Plain }
}

/// A key as people read it, with nothing in it that does harm to a terminal.
pub fn text(key: &CutKey) -> String {
    match key {
        CutKey::None => "–".to_owned(),
        CutKey::Name(name) => escape(name).into_owned(),
        CutKey::Time(ns) => duration(*ns),
    }
}

/// A key with its sum over the rows that begin with it.
struct Node<'a> {
    key: &'a CutKey,
    value: i64,
    below: Vec<Node<'a>>,
}

/// Nodes of the dimension at `depth`, largest first; steps of time in their order.
fn nodes<'a>(rows: &[&'a CutRow], depth: usize) -> Vec<Node<'a>> {
    let mut sorted: Vec<&CutRow> = rows.to_vec();
    sorted.sort_by(|a, b| a.keys[depth].cmp(&b.keys[depth]));
    let same = sorted.chunk_by(|a, b| a.keys[depth] == b.keys[depth]);
    let node = |rows: &[&'a CutRow]| Node {
        key: &rows[0].keys[depth],
        value: rows.iter().map(|row| row.value).sum(),
        below: if depth + 1 < rows[0].keys.len() { nodes(rows, depth + 1) } else { Vec::new() },
    };
    let mut nodes: Vec<Node<'a>> = same.map(node).collect();
    if nodes.iter().all(|node| !matches!(node.key, CutKey::Time(_))) {
        nodes.sort_by_key(|node| std::cmp::Reverse(node.value));
    }
    nodes
}

fn nested(page: &mut Page, view: &CutView, limit: Limit) {
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number(head(view.scope.measure)).rank(LAST_RESORT),
        Column::name("", Kind::Text, 24),
    ]);
    let rows: Vec<&CutRow> = view.rows.iter().collect();
    let least = (view.scope.total as f64 * LEAST_OF_TREE) as i64;
    let (nodes, mut lines) = (nodes(&rows, 0), Vec::new());
    flatten(&nodes, 0, least, &mut lines);
    let (shown, left) = limit.apply(&lines);
    for (depth, node) in shown {
        let indent = "  ".repeat(*depth);
        table.row([
            share_cell(share(node.value, view.scope.total)),
            amount(&view.scope, node.value).into(),
            Cell::new(Role::Dim, indent).then(role(node.key), text(node.key)).of(kind(view.by[*depth])),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--top N, --where FILTER");
}

fn flatten<'a, 'b>(nodes: &'b [Node<'a>], depth: usize, least: i64, lines: &mut Vec<(usize, &'b Node<'a>)>) {
    for node in nodes.iter().filter(|node| node.value >= least) {
        lines.push((depth, node));
        flatten(&node.below, depth + 1, least, lines);
    }
}
