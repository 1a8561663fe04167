//! Criticality per thread group and thread (figure 4 of the paper).

use transect_analyze::{CriticalGroupRow, CriticalThreadRow, CriticalityView};

use super::elapsed_ns;
use crate::terminal::bar::bar;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, LAST_RESORT, Table};
use crate::terminal::units::{count, duration, share};
use crate::terminal::{Limit, share_cell};

const BAR: usize = 20;
/// Most critical thread against the mean of its group from which a group counts as unbalanced.
const UNBALANCED: f64 = 2.0;

/// Prints groups, and below each its most critical threads.
pub(super) fn threads(page: &mut Page, view: &CriticalityView, limit: Limit) {
    page.section(
        "Criticality of threads",
        "bars: share of busy + waiting; PEAK: the most critical thread against the mean of its group",
    );
    if view.threads.is_empty() {
        return page.empty("no thread was seen");
    }
    let several = view.threads.iter().any(|row| row.process != view.threads[0].process);
    let corrected = view.threads.iter().any(|row| row.corrected_ns != row.criticality_ns);
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(4),
        Column::number("CRITICALITY"),
        Column::number("NO SPIN").rank(3),
        Column::number("RUNNING").rank(LAST_RESORT),
        Column::number("RUNNABLE").rank(3),
        Column::number("BLOCKED").rank(2),
        Column::number("PEAK").rank(3),
        Column::number("PID").rank(6),
        Column::number("TID").rank(5),
        Column::name("GROUP, THREAD", Kind::Text, 14),
    ]);
    let fewer = |rows: usize| (limit.0 / view.groups.len().clamp(1, 4)).max(2).min(rows);
    let (groups, left) = limit.apply(&view.groups);
    for group in groups {
        table.row(group_cells(group, view, corrected));
        let members: Vec<_> = view.threads.iter().filter(|thread| thread.group == group.group).collect();
        if members.len() < 2 {
            continue;
        }
        for thread in &members[..fewer(members.len())] {
            table.row(thread_cells(thread, view, several, corrected));
        }
        let rest = members.len() - fewer(members.len());
        if rest > 0 {
            let mut cells: [Cell; 11] = Default::default();
            cells[10] = Cell::new(Role::Dim, format!("  … {} more", count(rest as i64)));
            table.row(cells);
        }
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

fn group_cells(group: &CriticalGroupRow, view: &CriticalityView, corrected: bool) -> [Cell; 11] {
    let part = share(group.criticality_ns, elapsed_ns(view));
    let mean = group.criticality_ns as f64 / group.threads.max(1) as f64;
    let peak = if group.threads > 1 && mean > 0.0 { Some(group.max_criticality_ns as f64 / mean) } else { None };
    let role = if peak.is_some_and(|peak| peak >= UNBALANCED) { Role::Warning } else { Role::Plain };
    let threads = if group.threads > 1 { format!(" ({} threads)", count(group.threads)) } else { String::new() };
    [
        share_cell(part),
        Cell::new(Role::Bar, bar(part.unwrap_or(0.0), BAR)),
        duration(group.criticality_ns).into(),
        if corrected { duration(group.corrected_ns) } else { String::new() }.into(),
        duration(group.running_ns).into(),
        duration(group.runnable_ns).into(),
        duration(group.blocked_ns).into(),
        Cell::new(role, peak.map(|peak| format!("{peak:.1}×")).unwrap_or_default()),
        Cell::default(),
        Cell::default(),
        Cell::new(Role::Name, escape(&group.group)).then(Role::Dim, threads),
    ]
}

fn thread_cells(thread: &CriticalThreadRow, view: &CriticalityView, several: bool, corrected: bool) -> [Cell; 11] {
    let part = share(thread.criticality_ns, elapsed_ns(view));
    let dim = |text: String| Cell::new(Role::Dim, text);
    [
        dim(crate::terminal::units::optional_percent(part)),
        dim(bar(part.unwrap_or(0.0), BAR)),
        dim(duration(thread.criticality_ns)),
        dim(if corrected { duration(thread.corrected_ns) } else { String::new() }),
        dim(duration(thread.running_ns)),
        dim(duration(thread.runnable_ns)),
        dim(duration(thread.blocked_ns)),
        Cell::default(),
        dim(if several { thread.process.to_string() } else { String::new() }),
        dim(thread.tid.to_string()),
        Cell::new(Role::Plain, "  ").then(Role::Plain, escape(&thread.name)),
    ]
}
