//! Functions by self and total time.

use transect_analyze::HotView;

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::share_cell;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::{optional_percent, share};
use super::{amount, explanation, measured, nothing, spread};

/// Prints the functions.
pub(crate) fn hot(page: &mut Page, view: &HotView, limit: Limit) {
    let words = format!(
        "{}; SELF in the function and what the kernel did for it, TOTAL with what it called",
        explanation(&view.scope)
    );
    page.section(&format!("Functions by {}", measured(view.scope.measure)), &words);
    if view.rows.is_empty() {
        return page.empty(nothing(&view.scope));
    }
    let mut table = Table::new(&[
        Column::number("SELF"),
        Column::number("±").rank(3),
        Column::number("TOTAL"),
        Column::number("SELF TIME").rank(4),
        Column::number("IN KERNEL").rank(5),
        Column::name("FUNCTION", Kind::Function, 20),
        Column::name("COMPONENT", Kind::Component, 12).rank(6),
        Column::name("LINE", Kind::File, 14).rank(2),
    ]);
    let (shown, left) = limit.apply(&view.rows);
    for row in shown {
        let line = row.file.as_ref().zip(row.line).map(|(file, line)| format!("{}:{line}", escape(file)));
        let name = |name: &Option<String>| match name {
            Some(name) => Cell::new(Role::Plain, escape(name)),
            None => Cell::new(Role::Dim, "–"),
        };
        let kernel = Some(row.kernel).filter(|kernel| *kernel > 0).and_then(|kernel| share(kernel, row.own));
        table.row([
            share_cell(Some(row.self_share * 100.0)),
            Cell::new(Role::Dim, spread(&view.scope, row.own, (row.self_low, row.self_high))),
            optional_percent(Some(row.total_share * 100.0)).into(),
            amount(&view.scope, row.own).into(),
            Cell::new(Role::Dim, kernel.map(|kernel| optional_percent(Some(kernel))).unwrap_or_default()),
            name(&row.function),
            name(&row.component),
            Cell::new(Role::Dim, line.unwrap_or_default()),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--top N, --where FILTER");
}
