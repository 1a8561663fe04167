//! Exact times in system calls.

use transect_analyze::WalkView;

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, Table};
use super::super::units::{count, duration};

/// Prints the longest.
pub(super) fn system_calls(page: &mut Page, view: &WalkView, limit: Limit) {
    if view.system_calls.is_empty() {
        return;
    }
    // It may be noticed only when the program has ended.
    let until = view
        .session
        .system_calls_until_ns
        .map(|until| duration(until.min(view.session.end_ns) - view.session.start_ns));
    let how = match until {
        None => "every call is counted; of fast ones some are timed, drawn at random".to_owned(),
        Some(until) => format!("of the first {until}; they come so fast that counting all would cost too much"),
    };
    page.section("System calls", &how);
    let mut table = Table::new(&[
        Column::number("TIME"),
        Column::number("ON CPU").rank(3),
        Column::number("RUNNABLE").rank(4),
        Column::number("BLOCKED").rank(2),
        Column::number("CALLS"),
        Column::number("MEAN").rank(5),
        Column::name("CALL", Kind::Text, 12),
        Column::name("GROUP", Kind::Text, 8),
        Column::number("PROCESS").rank(6),
    ]);
    let (shown, left) = limit.apply(&view.system_calls);
    for call in shown {
        let time = |ns: i64| Cell::from(if ns > 0 { duration(ns) } else { String::new() });
        table.row([
            duration(call.wall_ns).into(),
            time(call.on_ns),
            time(call.runnable_ns),
            time(call.blocked_ns),
            count(call.calls).into(),
            time(call.wall_ns / call.calls.max(1)),
            Cell::new(Role::Name, escape(&call.name)),
            Cell::new(Role::Dim, escape(&call.thread_group)),
            Cell::new(Role::Dim, call.process.to_string()),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view walk --top N, or --format json");
}
