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
        Table::new(&[Column::number("COUNT"), Column::text("WHAT"), Column::name("WHY, WHERE", Kind::Text, 16)]);
    let (shown, left) = limit.apply(rows);
    for kind in by_reason(shown) {
        table.row([
            count(kind.iter().map(|row| row.count).sum()).into(),
            Cell::new(Role::Warning, escape(&kind[0].what)),
            escape(&kind[0].reason).into_owned().into(),
        ]);
        for row in kind {
            let place = Cell::new(Role::Dim, "  ").then(Role::Dim, escape(&row.place)).of(Kind::File);
            table.row([Cell::new(Role::Dim, count(row.count)), Cell::default(), place]);
        }
    }
    page.table(&table);
    page.left_out(left, "--view loss --top N");
}

/// The rows of the same kind and reason together, in the order of their first.
fn by_reason(rows: &[LossRow]) -> Vec<Vec<&LossRow>> {
    let mut kinds: Vec<Vec<&LossRow>> = Vec::new();
    for row in rows {
        match kinds.iter_mut().find(|kind| kind[0].what == row.what && kind[0].reason == row.reason) {
            Some(kind) => kind.push(row),
            None => kinds.push(vec![row]),
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_kind_stand_apart_by_reason() {
        let row = |what: &str, reason: &str, count| LossRow {
            what: what.into(),
            place: String::new(),
            count,
            reason: reason.into(),
        };
        let rows =
            [row("slots", "taken", 1), row("calls", "full", 2), row("slots", "full", 3), row("slots", "taken", 4)];
        let counts: Vec<Vec<i64>> =
            by_reason(&rows).iter().map(|kind| kind.iter().map(|row| row.count).collect()).collect();
        assert_eq!(counts, [vec![1, 4], vec![2], vec![3]]);
    }
}
