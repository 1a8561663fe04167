//! Thread groups with their imbalance, and the threads.

use transect_analyze::{GroupRow, ThreadRow, Totals};

use super::bar::split_bar;
use super::escape::escape;
use super::page::Page;
use super::shorten::Kind;
use super::style::Role;
use super::table::{Cell, Column, LAST_RESORT, Table};
use super::units::{count, duration, optional_duration, optional_percent, share};
use super::{Limit, share_cell};

const BAR: usize = 10;

/// Busiest against mean thread from which a group counts as unbalanced, and busiest against idlest group; the
/// summary's own threshold.
const UNBALANCED: f64 = 4.0;

/// Prints the groups.
pub(crate) fn groups(page: &mut Page, rows: &[GroupRow], totals: &Totals, limit: Limit) {
    page.section("Thread groups", "█ busy ░ waiting; IMBALANCE is the busiest thread against the mean of its group");
    let several = rows.iter().any(|r| r.executable != rows[0].executable);
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("BUSY").rank(3),
        Column::number("BUSY TIME"),
        Column::number("WAITING").rank(LAST_RESORT),
        Column::number("THREADS").rank(LAST_RESORT),
        Column::number("IMBALANCE").rank(2),
        Column::number("CALLS").rank(5),
        Column::name("PROGRAM", Kind::Text, 8).rank(2),
        Column::name("GROUP", Kind::Text, 12),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        let imbalance = match row.imbalance {
            Some(ratio) if row.threads > 1 => {
                let role = if ratio >= UNBALANCED { Role::Warning } else { Role::Plain };
                Cell::new(role, format!("{ratio:.1}×"))
            }
            _ => Cell::new(Role::Dim, "–"),
        };
        table.row([
            share_cell(share(row.attributed_ns, totals.attributed_ns)),
            busy_bar(row.busy_ns, row.wall_ns),
            optional_duration(row.busy_ns).into(),
            optional_duration(row.wait_ns).into(),
            count(row.threads).into(),
            imbalance,
            count(row.calls).into(),
            Cell::new(Role::Dim, if several { escape(&row.executable) } else { "".into() }),
            Cell::new(Role::Name, escape(&row.group)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view threads --top N");
}

/// Prints the threads.
pub(crate) fn threads(page: &mut Page, rows: &[ThreadRow], limit: Limit) {
    page.section("Threads", "");
    if rows.is_empty() {
        return page.empty("no thread matches");
    }
    let several = rows.iter().any(|r| r.process != rows[0].process);
    let mut table = Table::new(&[
        Column::number("BUSY"),
        Column::text("").rank(4),
        Column::number("BUSY TIME"),
        Column::number("WAITING").rank(LAST_RESORT),
        Column::number("ON CPU").rank(2),
        Column::number("RUNNABLE").rank(4),
        Column::number("CALLS").rank(3),
        Column::number("PID").rank(6),
        Column::number("TID").rank(2),
        Column::name("GROUP", Kind::Text, 8),
        Column::name("NAME", Kind::Text, 12),
        Column::name("START ROUTINE", Kind::Function, 16).rank(5),
    ]);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        table.row([
            optional_percent(row.busy_ns.and_then(|busy_ns| share(busy_ns, row.wall_ns))).into(),
            busy_bar(row.busy_ns, row.wall_ns),
            optional_duration(row.busy_ns).into(),
            optional_duration(row.wait_ns).into(),
            seen(row.on_cpu_ns).into(),
            seen(row.runnable_ns).into(),
            row.calls.map_or_else(String::new, count).into(),
            if several { row.process.to_string() } else { String::new() }.into(),
            row.tid.to_string().into(),
            Cell::new(Role::Name, escape(&row.group)),
            escape(&row.name).into_owned().into(),
            Cell::new(Role::Dim, escape(&row.start_routine)),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--top N");
}

/// Empty where it was not recorded; the table leaves out a column without any.
fn seen(ns: Option<i64>) -> String {
    ns.map_or_else(String::new, duration)
}

/// Empty where it is not known.
fn busy_bar(busy_ns: Option<i64>, wall_ns: i64) -> Cell {
    let Some(busy_ns) = busy_ns else { return Cell::default() };
    let (solid, shaded) = split_bar(share(busy_ns, wall_ns).unwrap_or(0.0), BAR);
    Cell::new(Role::Bar, solid).then(Role::Wait, shaded)
}
