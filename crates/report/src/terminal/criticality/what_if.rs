//! What a speed-up of each path would save.

use transect_analyze::{CriticalityView, WhatIfRow, WhatIfScope};
use transect_profile_model::WaitKind;

use super::waits::object;
use crate::terminal::Limit;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, LAST_RESORT, Table};
use crate::terminal::units::{duration, percent};

/// Prints one row a path, one column a speed-up.
pub(super) fn what_if(page: &mut Page, view: &CriticalityView, limit: Limit) {
    if view.what_if.is_empty() {
        return;
    }
    page.section("What if it were faster", "predicted saving of the whole run, from–to");
    if view.contention.much {
        let part = percent(view.contention.of_run * 100.0);
        let rough = format!(
            "A rough guess: for {part} of the run threads could have run, and other programs, or the host, had the CPUs. It \
             holds beside the same load alone; record again on an idle machine."
        );
        page.wrapped(2, Role::Warning, &rough);
    }
    let mut paths: Vec<Vec<&WhatIfRow>> = Vec::new();
    let same =
        |a: &WhatIfRow, b: &WhatIfRow| (a.scope, a.kind, &a.path, &a.object) == (b.scope, b.kind, &b.path, &b.object);
    for row in &view.what_if {
        match paths.iter_mut().find(|rows| same(rows[0], row)) {
            Some(rows) => rows.push(row),
            None => paths.push(vec![row]),
        }
    }
    let mut table = Table::new(&[
        Column::number("1.1×").rank(2),
        Column::number("2×"),
        Column::number("∞"),
        Column::number("∞, TIME").rank(3),
        Column::text("WHAT").rank(LAST_RESORT),
        Column::name("OF", Kind::Callers, 24),
    ]);
    let (shown, left) = limit.apply(&paths);
    for rows in shown {
        let at = |wanted: f64| rows.iter().find(|row| row.speedup == wanted || (row.speedup - wanted).abs() < 1e-9);
        let saving = |wanted: f64| at(wanted).map_or_else(|| "–".to_owned(), |row| range(row));
        let most = at(f64::INFINITY);
        let role = if most.is_some_and(|row| row.saving_high >= 0.1) { Role::Large } else { Role::Plain };
        table.row([
            saving(1.1).into(),
            saving(2.0).into(),
            Cell::new(role, saving(f64::INFINITY)),
            Cell::new(Role::Dim, most.map(|row| times(row)).unwrap_or_default()),
            Cell::new(Role::Dim, scope(rows[0])),
            name(rows[0]),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

/// What of the path is made faster.
fn scope(row: &WhatIfRow) -> &'static str {
    match (row.scope, row.kind) {
        (WhatIfScope::Own, _) => "with libraries",
        (WhatIfScope::Inclusive, _) => "with callees",
        (WhatIfScope::Wait, Some(WaitKind::RunQueue)) => "CPUs",
        (WhatIfScope::Wait, kind) => kind.map_or("wait", WaitKind::as_str),
    }
}

fn name(row: &WhatIfRow) -> Cell {
    let cell = Cell::new(Role::Name, escape(&row.path));
    if row.object.is_empty() {
        return cell;
    }
    cell.then(Role::Dim, "  ").then(Role::Dim, escape(object(&row.object))).of(Kind::File)
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
