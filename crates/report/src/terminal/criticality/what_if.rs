//! What a speed-up of each path would save.

use transect_analyze::{CriticalityView, WhatIfRow};

use crate::terminal::Limit;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, Table};
use crate::terminal::units::duration;

/// Prints one row a path, one column a speed-up.
pub(super) fn what_if(page: &mut Page, view: &CriticalityView, limit: Limit) {
    if view.what_if.is_empty() {
        return;
    }
    page.section("What if it were faster", "predicted saving of the whole run, from–to");
    let mut paths: Vec<(&str, Vec<&WhatIfRow>)> = Vec::new();
    for row in &view.what_if {
        match paths.iter_mut().find(|(path, _)| *path == row.path) {
            Some((_, rows)) => rows.push(row),
            None => paths.push((&row.path, vec![row])),
        }
    }
    let mut table = Table::new(&[
        Column::number("1.1×").rank(2),
        Column::number("2×"),
        Column::number("∞"),
        Column::number("∞, TIME").rank(3),
        Column::name("PATH", Kind::Callers, 24),
    ]);
    let (shown, left) = limit.apply(&paths);
    for (path, rows) in shown {
        let at = |wanted: f64| rows.iter().find(|row| row.speedup == wanted || (row.speedup - wanted).abs() < 1e-9);
        let saving = |wanted: f64| at(wanted).map_or_else(|| "–".to_owned(), |row| range(row));
        let most = at(f64::INFINITY);
        let role = if most.is_some_and(|row| row.saving_high >= 0.1) { Role::Large } else { Role::Plain };
        table.row([
            saving(1.1).into(),
            saving(2.0).into(),
            Cell::new(role, saving(f64::INFINITY)),
            Cell::new(Role::Dim, most.map(|row| times(row)).unwrap_or_default()),
            Cell::new(Role::Name, escape(path)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

/// `3.1–4.0 %`; one number where both are the same.
fn range(row: &WhatIfRow) -> String {
    let digits = |share: f64| format!("{:.1}", share * 100.0);
    let (low, high) = (digits(row.saving_low), digits(row.saving_high));
    if low == high { format!("{low} %") } else { format!("{low}–{high} %") }
}

fn times(row: &WhatIfRow) -> String {
    let (low, high) = (duration(row.saving_low_ns), duration(row.saving_high_ns));
    if low == high { low } else { format!("{low} – {high}") }
}
