//! Component view (Scaler, ASE '24, section 3.5): what each component spends itself, in the components it calls, and
//! waiting.

use transect_analyze::{ComponentRow, Totals};

use super::bar::bar;
use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, Table};
use super::units::{count, duration, optional_duration, optional_percent};
use super::{Limit, share_cell};

/// Columns of the bar.
const BAR: usize = 12;

/// Prints at most `limit` components and, below each, at most `others` of the components it calls.
pub(crate) fn components(page: &mut Page, rows: &[ComponentRow], totals: &Totals, limit: Limit, others: usize) {
    let explanation = if totals.timed {
        "its own time and how much of it on a CPU, → time in what it calls (callees included), waiting"
    } else {
        "call counts; this recording took no times"
    };
    page.section("Components", explanation);
    if rows.is_empty() {
        return page.empty("no component matches");
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(4),
        Column::number("TIME"),
        Column::number("ON CPU").rank(3),
        Column::number("CALLS").rank(2),
        Column::name("COMPONENT", Kind::Component, 20),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        table.row([
            share_cell(row.self_percent),
            Cell::new(Role::Bar, bar(row.self_percent.unwrap_or(0.0), BAR)),
            optional_duration(row.self_ns).into(),
            row.on_cpu_ns.map(duration).unwrap_or_default().into(),
            count(row.calls_in).into(),
            Cell::new(Role::Name, escape(&row.component)),
        ]);
        for other in row.others.iter().take(others) {
            table.row([
                Cell::new(Role::Dim, optional_percent(other.percent)),
                Cell::new(Role::Dim, bar(other.percent.unwrap_or(0.0), BAR)),
                Cell::new(Role::Dim, optional_duration(other.total_ns)),
                Cell::default(),
                Cell::new(Role::Dim, count(other.calls)),
                Cell::new(Role::Dim, "  → ").then(Role::Plain, escape(&other.component)),
            ]);
        }
        if row.others.len() > others {
            let more = format!("  … {} more", row.others.len() - others);
            let empty = || Cell::default();
            table.row([empty(), empty(), empty(), empty(), empty(), Cell::new(Role::Dim, more)]);
        }
        if row.wait_ns.is_some_and(|ns| ns > 0) {
            table.row([
                Cell::new(Role::Wait, optional_percent(row.wait_percent)),
                Cell::new(Role::Wait, bar(row.wait_percent.unwrap_or(0.0), BAR)),
                Cell::new(Role::Wait, optional_duration(row.wait_ns)),
                Cell::default(),
                Cell::default(),
                Cell::new(Role::Wait, "  waits"),
            ]);
        }
    }
    page.table(&table);
    page.left_out(left, "--view components --top N");
}
