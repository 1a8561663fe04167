//! What the recording did not see.

use transect_analyze::LossRow;

use super::Limit;
use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, Table};
use super::units::count;

/// Prints the losses.
pub(crate) fn loss(page: &mut Page, rows: &[LossRow], limit: Limit) {
    page.section("Not seen", "what the recording knows to be missing from every number above");
    if rows.is_empty() {
        return page.empty("nothing was lost");
    }
    let mut table =
        Table::new(&[Column::number("COUNT"), Column::text("WHAT"), Column::name("WHERE, WHY", Kind::Text, 16)]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        table.row([
            count(row.count).into(),
            Cell::new(Role::Warning, escape(&row.what)),
            Cell::new(Role::Name, escape(&row.place)),
        ]);
        if !row.reason.is_empty() {
            let reason = Cell::new(Role::Dim, "  ").then(Role::Plain, escape(&row.reason));
            table.row([Cell::default(), Cell::default(), reason]);
        }
    }
    page.table(&table);
    page.left_out(left, "--view loss --top N");
}
