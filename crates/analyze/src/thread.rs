use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::Profile;

use crate::matching::chosen_components;
use crate::names::{executable_of, file_name};
use crate::{Names, Selection, SortKey, totals};

/// One thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadRow {
    /// Process id.
    pub process: i32,
    /// Kernel thread id.
    pub tid: i32,
    /// Name at its end.
    pub name: String,
    /// Thread group: same start routine, split by name stem; `main` for main threads.
    pub group: String,
    /// Symbol of the start routine, demangled; empty where unknown.
    pub start_routine: String,
    /// Lifetime, ns.
    pub wall_ns: i64,
    /// Lifetime less waiting, ns.
    pub busy_ns: i64,
    /// Time inside APIs that wait, lock or do input and output, ns.
    pub wait_ns: i64,
    /// Calls entered.
    pub calls: i64,
    /// Lifetime, each instant divided by the number of active threads, ns.
    pub attributed_ns: i64,
    /// Executable of the process (display name).
    pub executable: String,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
}

/// One thread group of one executable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRow {
    /// Group name as in [`ThreadRow::group`].
    pub group: String,
    /// Executable of the processes that the threads belong to (display name).
    pub executable: String,
    /// Number of threads.
    pub threads: i64,
    /// Sum of lifetimes, ns.
    pub wall_ns: i64,
    /// Sum of busy times, ns.
    pub busy_ns: i64,
    /// Sum of waiting, ns.
    pub wait_ns: i64,
    /// Sum of calls.
    pub calls: i64,
    /// Sum of attributed lifetimes, ns.
    pub attributed_ns: i64,
    /// Busy time of the mean thread, ns.
    pub mean_busy_ns: i64,
    /// Busy time of the busiest thread, ns.
    pub max_busy_ns: i64,
    /// `max_busy_ns / mean_busy_ns`: 1.0 is perfect balance; `None` where nothing was busy.
    pub imbalance: Option<f64>,
    /// Mean thread of this group against the mean thread of the executable's least busy group, ≥ 1.0; `None` where
    /// that one was idle.
    pub busy_ratio: Option<f64>,
}

/// Threads and their groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadsView {
    /// Single threads, busiest first.
    pub threads: Vec<ThreadRow>,
    /// Groups, busiest first.
    pub groups: Vec<GroupRow>,
}

/// Threads and groups. `selection.component` keeps the threads of that executable; `top` and `min_percent` apply to
/// single threads, groups are always complete.
pub fn threads(profile: &Profile, selection: &Selection) -> ThreadsView {
    let names = Names::new(profile);
    let chosen = chosen_components(profile, &names, selection.component.as_deref());
    let executables: Vec<_> = profile.processes.iter().map(|process| executable_of(profile, process)).collect();
    let mut rows: Vec<ThreadRow> = Vec::with_capacity(profile.threads.len());
    for thread in &profile.threads {
        let process = &profile.processes[thread.process as usize];
        let executable = executables[thread.process as usize];
        if chosen.as_ref().is_some_and(|chosen| !executable.is_some_and(|id| chosen[id as usize])) {
            continue;
        }
        rows.push(ThreadRow {
            process: process.pid,
            tid: thread.tid,
            name: thread.name.clone(),
            group: thread.group.clone(),
            start_routine: thread.start_routine.clone(),
            wall_ns: thread.wall_ns,
            busy_ns: thread.busy_ns,
            wait_ns: thread.wait_ns,
            calls: thread.calls,
            attributed_ns: thread.attributed_ns,
            executable: executable.map_or(file_name(&process.executable), |id| names.get(id)).to_owned(),
            start_ns: thread.start_ns,
        });
    }
    let groups = group(&rows);
    sort(&mut rows, selection.sort);
    if let Some(least) = selection.min_percent {
        let totals = totals(profile);
        rows.retain(|row| totals.weight(Some(row.attributed_ns), Some(row.wall_ns), row.calls) >= least);
    }
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    ThreadsView { threads: rows, groups }
}

fn sort(rows: &mut [ThreadRow], key: Option<SortKey>) {
    let value = |row: &ThreadRow| match key {
        None | Some(SortKey::SelfTime) => row.busy_ns,
        Some(SortKey::Total | SortKey::Mean | SortKey::P99 | SortKey::Max) => row.wall_ns,
        Some(SortKey::Attributed) => row.attributed_ns,
        Some(SortKey::Wait) => row.wait_ns,
        Some(SortKey::Calls | SortKey::Bytes) => row.calls,
        Some(SortKey::Name) => 0,
    };
    rows.sort_by(|a, b| {
        let name = if key == Some(SortKey::Name) { a.name.cmp(&b.name) } else { std::cmp::Ordering::Equal };
        name.then(value(b).cmp(&value(a))).then((a.process, a.tid).cmp(&(b.process, b.tid)))
    });
}

fn group(rows: &[ThreadRow]) -> Vec<GroupRow> {
    let mut index: FxHashMap<(&str, &str), usize> = FxHashMap::default();
    let mut groups: Vec<GroupRow> = Vec::new();
    for row in rows {
        let position = *index.entry((&row.executable, &row.group)).or_insert_with(|| {
            groups.push(GroupRow::new(row));
            groups.len() - 1
        });
        groups[position].add(row);
    }
    for group in &mut groups {
        group.mean_busy_ns = group.busy_ns / group.threads;
        group.imbalance =
            (group.busy_ns > 0).then(|| group.max_busy_ns as f64 * group.threads as f64 / group.busy_ns as f64);
    }
    let mut least: FxHashMap<String, i64> = FxHashMap::default();
    for group in &groups {
        let least = least.entry(group.executable.clone()).or_insert(i64::MAX);
        *least = group.mean_busy_ns.min(*least);
    }
    for group in &mut groups {
        let least = least[&group.executable];
        group.busy_ratio = (least > 0).then(|| group.mean_busy_ns as f64 / least as f64);
    }
    groups.sort_by(|a, b| {
        b.busy_ns.cmp(&a.busy_ns).then_with(|| (&a.executable, &a.group).cmp(&(&b.executable, &b.group)))
    });
    groups
}

impl GroupRow {
    fn new(row: &ThreadRow) -> Self {
        Self {
            group: row.group.clone(),
            executable: row.executable.clone(),
            threads: 0,
            wall_ns: 0,
            busy_ns: 0,
            wait_ns: 0,
            calls: 0,
            attributed_ns: 0,
            mean_busy_ns: 0,
            max_busy_ns: 0,
            imbalance: None,
            busy_ratio: None,
        }
    }

    fn add(&mut self, row: &ThreadRow) {
        self.threads += 1;
        self.wall_ns += row.wall_ns;
        self.busy_ns += row.busy_ns;
        self.wait_ns += row.wait_ns;
        self.calls += row.calls;
        self.attributed_ns += row.attributed_ns;
        self.max_busy_ns = self.max_busy_ns.max(row.busy_ns);
    }
}
