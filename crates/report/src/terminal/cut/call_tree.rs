//! The tree of calls.

use transect_analyze::{CallNode, CallTree};

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::share_cell;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, LAST_RESORT, Table};
use super::super::units::{percent, share};
use super::{LEAST_OF_TREE, amount, explanation, head, measured, nothing};

/// Prints the tree, largest branches first.
pub(crate) fn call_tree(page: &mut Page, view: &CallTree, limit: Limit) {
    let words = format!("{}; SELF in the function alone", explanation(&view.scope));
    page.section(&format!("Calls by {}", measured(view.scope.measure)), &words);
    if view.roots.is_empty() {
        return page.empty(nothing(&view.scope));
    }
    let mut table = Table::new(&[
        Column::number("TOTAL"),
        Column::number("SELF").rank(2),
        Column::number(head(view.scope.measure)).rank(LAST_RESORT),
        Column::name("", Kind::Function, 24),
    ]);
    let mut lines = Vec::new();
    let least = (view.scope.total as f64 * LEAST_OF_TREE) as i64;
    flatten(&view.roots, 0, least, &mut lines);
    let (shown, left) = limit.apply(&lines);
    for &(depth, node) in shown {
        let (role, name) = match &node.function {
            Some(name) if node.kernel => (Role::Wait, format!("{} [kernel]", escape(name))),
            Some(name) => (Role::Plain, escape(name).into_owned()),
            None => (Role::Dim, "–".to_owned()),
        };
        let own = Some(node.own).filter(|own| *own > 0).and_then(|own| share(own, view.scope.total));
        table.row([
            share_cell(share(node.total, view.scope.total)),
            own.map_or_else(Cell::default, |own| share_cell(Some(own))),
            amount(&view.scope, node.total).into(),
            Cell::new(Role::Dim, guides(depth)).then(role, name),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--top N, --where FILTER");
    page.left_out(
        count(&view.roots) - lines.len(),
        &format!("below {} of all: --format csv", percent(LEAST_OF_TREE * 100.0)),
    );
}

fn count(nodes: &[CallNode]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

/// Deep stacks keep their names: from some depth on, the number stands for the indentation.
fn guides(depth: usize) -> String {
    const DEEPEST: usize = 24;
    match depth.checked_sub(DEEPEST) {
        Some(more) if more > 0 => format!("{}+{more} ", " ".repeat(DEEPEST)),
        _ => " ".repeat(depth),
    }
}

fn flatten<'a>(nodes: &'a [CallNode], depth: usize, least: i64, lines: &mut Vec<(usize, &'a CallNode)>) {
    for node in nodes.iter().filter(|node| node.total >= least) {
        lines.push((depth, node));
        flatten(&node.children, depth + 1, least, lines);
    }
}
