//! Time of each system call.

use transect_analyze::SystemCallRow;

use super::super::Limit;
use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::Kind;
use super::super::style::Role;
use super::super::table::{Cell, Column, LAST_RESORT, Table};
use super::super::units::{count, duration};

/// Prints the system calls.
pub(crate) fn system_calls(page: &mut Page, rows: &[SystemCallRow], limit: Limit) {
    let exact = rows.iter().all(|row| row.exact);
    let estimated = rows.iter().any(|row| row.blocked_estimated);
    let how = match exact {
        true if rows.is_empty() => "time of all threads in each",
        true => "time of all threads in each, exact",
        false if estimated => {
            "time of all threads in each, estimated: blocked by looks at threads that wait, on a CPU by samples and stops; \
             calls were not counted; short ones may be missing"
        }
        false => "time of all threads in each: blocked exact, on a CPU by samples; calls were not counted",
    };
    page.section("System calls", how);
    if rows.is_empty() {
        return page.empty("no time was seen in any");
    }
    let mut columns = vec![
        Column::number(if estimated { "TIME, ESTIMATED" } else { "TIME" }),
        Column::number("BLOCKED").rank(LAST_RESORT),
        Column::number("ON CPU").rank(2),
        Column::number("RUNNABLE").rank(3),
        Column::number("CALLS").rank(LAST_RESORT),
        Column::number("MEAN").rank(4),
        Column::name("SYSTEM CALL", Kind::Text, 12),
    ];
    if estimated {
        columns.insert(1, Column::number("95 % INTERVAL").rank(LAST_RESORT));
    }
    let mut table = Table::new(&columns);
    let (shown, left) = limit.apply(rows);
    for row in shown {
        let mean = row.calls.filter(|calls| *calls > 0).map(|calls| row.total_ns / calls);
        let wait = |ns: i64| Cell::new(Role::Wait, duration(ns));
        let total: Cell = duration(row.total_ns).into();
        let cells = [
            wait(row.states.blocked_ns),
            duration(row.states.on_cpu_ns).into(),
            Cell::new(Role::Dim, duration(row.states.runnable_ns)),
            row.calls.map(count).unwrap_or_default().into(),
            mean.map(duration).unwrap_or_default().into(),
            Cell::new(Role::Plain, escape(&row.system_call)),
        ];
        let [blocked, on_cpu, runnable, calls, mean, name] = cells;
        if estimated {
            let interval = format!("{} – {}", duration(row.total_ns_low), duration(row.total_ns_high));
            table.row([total, Cell::new(Role::Dim, interval), blocked, on_cpu, runnable, calls, mean, name]);
        } else {
            table.row([total, blocked, on_cpu, runnable, calls, mean, name]);
        }
    }
    page.table(&table);
    page.left_out(left, "--top N");
}
