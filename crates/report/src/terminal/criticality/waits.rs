//! What threads waited for, who held it and who ended the wait.

use transect_analyze::{CriticalWaitRow, CriticalityView, OtherThreadRow};
use transect_profile_model::WaitKind;

use super::elapsed_ns;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, LAST_RESORT, Table};
use crate::terminal::units::{count, duration, share};
use crate::terminal::{Limit, share_cell};

/// Prints the waits, most critical first.
pub(super) fn waits(page: &mut Page, view: &CriticalityView, limit: Limit) {
    page.section(
        "What is waited for",
        "CRITICAL: while all waited, or while the holder (else the waker) ran at low parallelism",
    );
    if view.waits.is_empty() {
        return page.empty("no thread waited");
    }
    let mut table = Table::new(&[
        Column::number("CRITICAL"),
        Column::number("SHARE").rank(6),
        Column::number("WAITED").rank(2),
        Column::number("COUNT").rank(5),
        Column::text("KIND"),
        Column::name("OBJECT", Kind::File, 14).rank(LAST_RESORT),
        Column::name("WAITER: IN", Kind::Text, 20),
        Column::name("HOLDER: IN", Kind::Text, 20),
        Column::name("WOKEN BY: IN", Kind::Text, 20).rank(2),
    ]);
    let (shown, left) = limit.apply(&view.waits);
    for row in shown {
        table.row([
            Cell::new(Role::Wait, duration(row.critical_ns)),
            share_cell(share(row.critical_ns, elapsed_ns(view))),
            duration(row.ns).into(),
            count(row.count).into(),
            kind(row.kind),
            Cell::new(Role::Dim, escape(object(&row.object))),
            who(&row.group, place(row)),
            party(row.holder.as_ref()),
            party(row.waker.as_ref()),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

/// The symbol of `0x7f12 (symbol)`: the address says less, and is in the JSON.
pub(super) fn object(object: &str) -> &str {
    let symbol = object.strip_prefix("0x").and_then(|rest| rest.split_once(" (")?.1.strip_suffix(')'));
    symbol.filter(|symbol| !symbol.is_empty()).unwrap_or(object)
}

fn kind(kind: WaitKind) -> Cell {
    let role = if kind == WaitKind::Spin { Role::Warning } else { Role::Plain };
    Cell::new(role, kind.as_str())
}

/// Names of the C library, the thread library and the kernel start like this: they say what the kind says already.
const MACHINERY: [&str; 14] = [
    "pthread_",
    "__",
    "futex_",
    "sem_",
    "std::condition_variable",
    "std::mutex",
    "std::unique_lock",
    "std::lock_guard",
    "std::sys",
    "syscall",
    "entry_SYSCALL",
    "do_",
    "schedule",
    "x64_sys_",
];

/// The innermost function of the stack that is not part of the machinery of waiting.
fn place(row: &CriticalWaitRow) -> &str {
    let own = |function: &&String| !MACHINERY.iter().any(|start| function.starts_with(start));
    row.stack.iter().rev().find(own).or(row.stack.last()).map_or("", String::as_str)
}

fn party(party: Option<&OtherThreadRow>) -> Cell {
    party.map_or_else(|| Cell::new(Role::Dim, "–"), |party| who(&party.thread, &party.function))
}

fn who(name: &str, function: &str) -> Cell {
    let cell = Cell::new(Role::Name, escape(name));
    if function.is_empty() {
        cell
    } else {
        cell.then(Role::Dim, ": ").then(Role::Plain, escape(function)).of(Kind::Function)
    }
}

#[cfg(test)]
mod tests {
    use super::object;

    #[test]
    fn objects_are_named_by_their_symbol() {
        assert_eq!(object("0x55880f1870c0 (queue_lock)"), "queue_lock");
        for other in ["0x55880f1870c0", "/tmp/0x5 (1)", "0x5 ()", "", "queue_lock+0x8"] {
            assert_eq!(object(other), other);
        }
    }
}
