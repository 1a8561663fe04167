//! Where threads wait, and for what.

use transect_analyze::{Totals, WaitRow};

use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{count, duration, share};
use super::{Limit, share_cell};

/// Prints the waits, longest first.
pub(crate) fn waits(page: &mut Page, rows: &[WaitRow], totals: &Totals, limit: Limit) {
    page.section("Waiting", "share of all threads' lifetime");
    if rows.is_empty() {
        return page.empty("no thread waited in a known blocking API");
    }
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::number("TIME"),
        Column::number("COUNT").rank(LAST_RESORT),
        Column::number("MEAN").rank(3),
        Column::name("GROUP", Kind::Text, 8),
        Column::name("CALLER", Kind::Component, 13).rank(2),
        Column::name("API", Kind::Function, 16),
        Column::name("FOR", Kind::Text, 16),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        table.row([
            share_cell(share(row.ns, totals.lifetime_ns)),
            Cell::new(Role::Wait, duration(row.ns)),
            count(row.count).into(),
            if row.count > 0 { duration(row.ns / row.count) } else { String::new() }.into(),
            Cell::new(Role::Name, escape(&row.group)),
            Cell::new(Role::Dim, escape(&row.caller)),
            escape(&row.api).into_owned().into(),
            Cell::new(Role::Dim, escape(&row.object)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view waits --top N");
}
