//! Where threads wait, and for what.

use transect_analyze::{Totals, WaitRow};

use super::escape::escape;
use super::page::Page;
use super::style::Role;
use super::table::{Cell, Column, Table};
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
        Column::number("COUNT"),
        Column::number("MEAN").rank(2),
        Column::name("GROUP", 8),
        Column::name("CALLER", 8).rank(1),
        Column::name("API", 12),
        Column::name("FOR", 12),
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
