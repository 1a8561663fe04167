//! Critical call paths with their lines, as figure 7 of "GAPP: A Fast Profiler for Detecting Serialization Bottlenecks
//! in Parallel Linux Applications" (ICPE '20) shows them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use transect_analyze::{CriticalPathRow, CriticalityView, LineRow, PathState};
use transect_profile_model::{Origin, WaitKind};

use super::elapsed_ns;
use crate::terminal::bar::bar;
use crate::terminal::escape::escape;
use crate::terminal::page::Page;
use crate::terminal::shorten::Kind;
use crate::terminal::style::Role;
use crate::terminal::table::{Cell, Column, LAST_RESORT, Table};
use crate::terminal::units::{count, duration, percent, share};
use crate::terminal::{Limit, share_cell};

const BAR: usize = 8;

/// Frames below `main` and below the start routine of a thread: the same in every path.
const ROOTS: [&str; 10] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "start_thread",
    "thread_start",
];

/// Prints the paths that ran while others waited, each with its lines.
pub(super) fn running(page: &mut Page, view: &CriticalityView, limit: Limit, most_lines: usize) {
    let rows = merged(view, PathState::Running);
    page.section(
        "Critical call paths",
        "run time, each instant divided by the number of active threads; SHARE of busy + waiting",
    );
    if rows.is_empty() {
        return page.empty("no sample and no stack was taken while parallelism was low");
    }
    let spins = rows.iter().any(|row| row.spin_ns > 0);
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(5),
        Column::number("TIME"),
        Column::number("SPINNING").rank(4),
        Column::number("STACKS").rank(LAST_RESORT),
        Column::name("GROUP", Kind::Text, 8).rank(3),
        Column::name("FUNCTION ← CALLERS", Kind::Callers, 30),
    ]);
    let (shown, left) = limit.apply(&rows);
    for row in shown {
        let part = share(row.criticality_ns, elapsed_ns(view));
        let samples = if row.is_unattributed() { String::new() } else { count(row.samples) };
        let spinning = if spins { share(row.spin_ns, row.criticality_ns).filter(|&s| s > 0.0) } else { None };
        table.row([
            share_cell(part),
            Cell::new(Role::Bar, bar(part.unwrap_or(0.0), BAR)),
            duration(row.criticality_ns).into(),
            Cell::new(Role::Warning, spinning.map(percent).unwrap_or_default()),
            samples.into(),
            Cell::new(Role::Dim, escape(&row.group)),
            path_cell(row),
        ]);
        let shown = row.lines.len().min(most_lines);
        for line in &row.lines[..shown] {
            table.row(line_cells(count(line.samples), &place(line, leaf(row))));
        }
        let rest = row.lines[shown..].iter().map(|line| line.samples).sum::<i64>();
        if rest > 0 {
            table.row(line_cells(count(rest), &format!("… {} more", row.lines.len() - shown)));
        }
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

fn line_cells(samples: String, place: &str) -> [Cell; 7] {
    [
        Cell::default(),
        Cell::default(),
        Cell::default(),
        Cell::default(),
        Cell::new(Role::Dim, samples),
        Cell::default(),
        Cell::new(Role::Dim, "    ").then(Role::Dim, place).of(Kind::File),
    ]
}

/// Prints the paths that all threads waited for.
pub(super) fn waiting(page: &mut Page, view: &CriticalityView, limit: Limit) {
    let rows = merged(view, PathState::Waiting);
    if rows.is_empty() {
        return;
    }
    page.section("Critical waits", "time in which every thread waited, by the wait that ended it");
    let mut table = Table::new(&[
        Column::number("SHARE"),
        Column::text("").rank(5),
        Column::number("TIME"),
        Column::number("WAITS").rank(LAST_RESORT),
        Column::text("FOR"),
        Column::name("GROUP", Kind::Text, 8).rank(3),
        Column::name("FUNCTION ← CALLERS", Kind::Callers, 30),
    ]);
    let (shown, left) = limit.apply(&rows);
    for row in shown {
        let part = share(row.criticality_ns, elapsed_ns(view));
        table.row([
            share_cell(part),
            Cell::new(Role::Wait, bar(part.unwrap_or(0.0), BAR)),
            Cell::new(Role::Wait, duration(row.criticality_ns)),
            count(row.samples).into(),
            row.kind.map_or("", |kind| kind.as_str()).to_owned().into(),
            Cell::new(Role::Dim, escape(&row.group)),
            path_cell(row),
        ]);
    }
    page.table(&table);
    page.left_out(left, "--view criticality --top N");
}

/// What is shown of a path: frames, thread group, what was waited for.
type Looks<'a> = (String, &'a str, Option<WaitKind>);

/// Paths of a state that differ in nothing that is shown are one row: the frames below `main` may be known or not. Rows
/// of samples that gained nothing are for programs.
fn merged(view: &CriticalityView, state: PathState) -> Vec<CriticalPathRow> {
    let mut index: HashMap<Looks<'_>, usize> = HashMap::new();
    let mut rows: Vec<CriticalPathRow> = Vec::new();
    for path in view.paths.iter().filter(|path| path.state == state && path.criticality_ns > 0) {
        let key = (callers_of(path, path.complete), path.group.as_str(), path.kind);
        match index.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(rows.len());
                rows.push(path.clone());
            }
            Entry::Occupied(entry) => add(&mut rows[*entry.get()], path),
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.criticality_ns));
    rows
}

fn add(row: &mut CriticalPathRow, path: &CriticalPathRow) {
    row.criticality_ns = row.criticality_ns.saturating_add(path.criticality_ns);
    row.spin_ns = row.spin_ns.saturating_add(path.spin_ns);
    row.samples = row.samples.saturating_add(path.samples);
    for line in &path.lines {
        let place = |line: &LineRow| (line.file.clone(), line.line, line.function.clone(), line.origin);
        match row.lines.iter_mut().find(|known| place(known) == place(line)) {
            Some(known) => known.samples = known.samples.saturating_add(line.samples),
            None => row.lines.push(line.clone()),
        }
    }
    row.lines.sort_by_key(|line| std::cmp::Reverse(line.samples));
}

/// `leaf ← caller ← its caller`, without the frames that every path starts with; recursion once, with its depth. Functions
/// without a name have that of their component.
fn callers_of(row: &CriticalPathRow, complete: bool) -> String {
    let root = row.stack.iter().position(|function| !ROOTS.contains(&function.as_str())).unwrap_or(0);
    let components = row.components.iter().map(String::as_str).chain(std::iter::repeat(""));
    let mut frames: Vec<((&str, &str), usize)> = Vec::new();
    for frame in row.stack.iter().map(String::as_str).zip(components).skip(root).collect::<Vec<_>>().into_iter().rev() {
        match frames.last_mut() {
            Some((last, times)) if *last == frame => *times += 1,
            _ => frames.push((frame, 1)),
        }
    }
    let names = frames.into_iter().map(|((function, component), times)| {
        let mut name = escape(function);
        if function.starts_with("sub_") && !component.is_empty() {
            name = Cow::Owned(format!("{name} ({})", escape(component)));
        }
        if times == 1 { name } else { Cow::Owned(format!("{name} ×{times}")) }
    });
    let mut text = names.collect::<Vec<_>>().join(" ← ");
    if text.is_empty() {
        text.push_str("(no stack)");
    } else if !complete {
        text.push_str(" ← ?");
    }
    text
}

fn path_cell(row: &CriticalPathRow) -> Cell {
    if row.is_unattributed() {
        return Cell::new(Role::Dim, "[unattributed]: no sample and no stack covers it");
    }
    Cell::new(Role::Name, callers_of(row, row.complete))
}

fn leaf(row: &CriticalPathRow) -> &str {
    row.stack.last().map_or("", String::as_str)
}

/// `deflate.c:412`, with the function if it is not the path's own: an inlined one.
fn place(line: &LineRow, leaf: &str) -> String {
    let file = escape(line.file.rsplit('/').next().unwrap_or(&line.file)).into_owned();
    let mut place = match (file.as_str(), line.line) {
        ("", _) => escape(&line.function).into_owned(),
        (file, number) if number > 0 => format!("{file}:{number}"),
        (file, _) => file.to_owned(),
    };
    if !file.is_empty() && line.function != leaf && !line.function.is_empty() {
        place.push_str(&format!(" {}", escape(&line.function)));
    }
    if line.origin == Origin::StackTop {
        place.push_str(" (where it stopped)");
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_look_the_same_are_one_row() {
        let line = |number| LineRow {
            function: "work".into(),
            file: "w.c".into(),
            line: number,
            samples: 2,
            criticality_ns: 1,
            origin: Origin::Sample,
        };
        let path = |stack: &[&str], ns, lines| CriticalPathRow {
            stack: stack.iter().map(|&function| function.to_owned()).collect(),
            complete: true,
            criticality_ns: ns,
            samples: 2,
            lines,
            ..CriticalPathRow::default()
        };
        let view = CriticalityView {
            paths: vec![
                path(&["main", "idle"], 50, vec![]),
                path(&["clone3", "start_thread", "work"], 40, vec![line(1)]),
                path(&["start_thread", "work"], 30, vec![line(1), line(2)]),
                path(&["main", "never"], 0, vec![line(3)]),
                path(&["clone3"], 1, vec![]),
            ],
            ..CriticalityView::default()
        };
        let rows = merged(&view, PathState::Running);
        let shown: Vec<_> = rows.iter().map(|row| (callers_of(row, true), row.criticality_ns)).collect();
        assert_eq!(shown, [("work".to_owned(), 70), ("idle ← main".to_owned(), 50), ("clone3".to_owned(), 1)]);
        assert_eq!(rows[0].lines.iter().map(|line| (line.line, line.samples)).collect::<Vec<_>>(), [(1, 4), (2, 2)]);
        assert!(merged(&view, PathState::Waiting).is_empty());
    }
}
