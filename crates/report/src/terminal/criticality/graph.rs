//! Who waits for whom: the heaviest edges, and the knots.

use transect_analyze::WaitGraph;

use super::waits::object;
use crate::terminal::Limit;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, Table};
use crate::terminal::units::{count, duration};

/// Kinds named in a row.
const KINDS: usize = 3;

/// Prints edges and knots.
pub(super) fn graph(page: &mut Page, graph: &WaitGraph, limit: Limit) {
    if graph.edges.is_empty() {
        return;
    }
    page.section("Who waits for whom", "CASCADED: what is left at the end of chains of waits");
    let name = |at: usize| graph.nodes.get(at).map_or("?".into(), |node| escape(&node.name));
    for (number, knot) in graph.knots.iter().enumerate().filter(|(_, knot)| knot.len() > 1) {
        let names = knot.iter().map(|&at| name(at)).collect::<Vec<_>>().join(" ⇄ ");
        let ns: i64 = graph
            .edges
            .iter()
            .filter(|edge| knot.contains(&edge.from) && knot.contains(&edge.to))
            .map(|edge| edge.ns)
            .sum();
        let text = format!("knot {}: {names} wait for each other, {} in all", number + 1, duration(ns));
        page.wrapped(2, Role::Warning, &text);
    }
    let mut table = Table::new(&[
        Column::number("WAITED"),
        Column::number("CASCADED").rank(2),
        Column::number("COUNT").rank(4),
        Column::text("KNOT").rank(3),
        Column::name("WHO", Kind::Text, 10),
        Column::name("WAITS FOR", Kind::Text, 12),
        Column::name("BECAUSE OF", Kind::Text, 14),
        Column::name("OBJECTS", Kind::Text, 14).rank(3),
    ]);
    let (shown, left) = limit.apply(&graph.edges);
    for edge in shown {
        let knot =
            graph.knots.iter().position(|knot| knot.len() > 1 && knot.contains(&edge.from) && knot.contains(&edge.to));
        let kinds = edge.kinds.iter().take(KINDS).map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        let objects = edge.objects.iter().map(|name| escape(object(name))).collect::<Vec<_>>().join(", ");
        table.row([
            Cell::new(Role::Wait, duration(edge.ns)),
            duration(edge.cascaded_ns).into(),
            count(edge.count).into(),
            Cell::new(Role::Warning, knot.map(|n| (n + 1).to_string()).unwrap_or_default()),
            Cell::new(Role::Name, name(edge.from)),
            Cell::new(Role::Dim, "→ ").then(Role::Name, name(edge.to)),
            kinds.into(),
            Cell::new(Role::Dim, objects),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}
