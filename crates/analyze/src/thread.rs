use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{ProcessId, Profile, Task, Timing};

use crate::matching::chosen_components;
use crate::names::{executable_of, file_name};
use crate::{Names, Selection, SortKey, totals};

/// One thread, whichever collectors saw it. A thread that ran several programs one after the other is one row, with the
/// names of the last.
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
    /// Lifetime less waiting, ns; `None` where neither times of calls nor the scheduler tell.
    pub busy_ns: Option<i64>,
    /// Time blocked, ns; without the scheduler's events time inside APIs that wait, lock or do input and output. `None` with
    /// `busy_ns`.
    pub wait_ns: Option<i64>,
    /// Calls entered; `None` where no calls were recorded.
    pub calls: Option<i64>,
    /// Time on a CPU, ns; this and the next two are `None` where the scheduler's events were not recorded.
    pub on_cpu_ns: Option<i64>,
    /// Time active but without a CPU, ns.
    pub runnable_ns: Option<i64>,
    /// Time blocked, ns.
    pub blocked_ns: Option<i64>,
    /// Lifetime, each instant divided by the number of active threads, ns.
    pub attributed_ns: i64,
    /// Executable of the process (display name).
    pub executable: String,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
}

impl ThreadRow {
    fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.wall_ns)
    }
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
    /// Sum of busy times, ns; this and what follows from it is `None` where it is not known of a thread.
    pub busy_ns: Option<i64>,
    /// Sum of waiting, ns.
    pub wait_ns: Option<i64>,
    /// Sum of calls.
    pub calls: i64,
    /// Sum of attributed lifetimes, ns.
    pub attributed_ns: i64,
    /// Busy time of the mean thread, ns.
    pub mean_busy_ns: Option<i64>,
    /// Busy time of the busiest thread, ns.
    pub max_busy_ns: Option<i64>,
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
    let is_chosen = |process: ProcessId| {
        let executable = executables.get(process as usize).copied().flatten();
        chosen.as_ref().is_none_or(|chosen| executable.is_some_and(|id| chosen[id as usize]))
    };
    let executable = |process: ProcessId| {
        let known = executables.get(process as usize).copied().flatten();
        known.map_or_else(|| file_name(&profile.processes[process as usize].executable), |id| names.get(id)).to_owned()
    };
    let mut rows = with_calls(profile, is_chosen, executable);
    add_scheduled(&mut rows, profile, is_chosen, executable);
    let groups = group(&rows);
    sort(&mut rows, selection.sort);
    if let Some(least) = selection.min_percent {
        let totals = totals(profile);
        rows.retain(|row| totals.weight(Some(row.attributed_ns), Some(row.wall_ns), row.calls.unwrap_or(0)) >= least);
    }
    rows.truncate(selection.top.unwrap_or(usize::MAX));
    ThreadsView { threads: rows, groups }
}

/// Number of threads that any collector saw, and those of them whose calls were not recorded though others' were.
pub(crate) fn outside(profile: &Profile) -> (i64, Vec<Outside>) {
    let rows = with_calls(profile, |_| true, |_| String::new());
    let per_wait = per_waiting_ns(profile);
    let alone = tasks_of(&rows, profile).into_iter().filter(|(_, same)| same.is_none());
    let outside: Vec<Outside> = alone.map(|(task, _)| Outside::new(task, per_wait)).collect();
    let number = (rows.len() + outside.len()) as i64;
    (number, if rows.is_empty() { Vec::new() } else { outside })
}

/// A thread that the scheduler's events alone tell of: one of a static program that another one has started, for instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outside {
    pub process: ProcessId,
    /// Lifetime less waiting, ns; and that as it is attributed.
    pub busy_ns: i64,
    pub busy_attributed_ns: i64,
    /// Time blocked, ns; and that as it is attributed.
    pub wait_ns: i64,
    pub wait_attributed_ns: i64,
}

impl Outside {
    fn new(task: &Task, per_wait: f64) -> Self {
        let life_ns = (task.end_ns - task.start_ns).max(0);
        let wait_ns = task.blocked_ns.clamp(0, life_ns);
        Self {
            process: task.process,
            busy_ns: life_ns - wait_ns,
            busy_attributed_ns: task.criticality_ns,
            wait_ns,
            wait_attributed_ns: (wait_ns as f64 * per_wait) as i64,
        }
    }
}

/// What an instant of a thread that waits is attributed, on average over the recording: lifetimes are divided by the number of
/// active threads, waits among them. Where no calls were recorded none are: criticality has only what was active.
fn per_waiting_ns(profile: &Profile) -> f64 {
    let (all, divided) = profile.sched.parallelism.iter().fold((0.0, 0.0), |(all, divided), level| {
        let ns = level.ns.max(0) as f64;
        (all + ns, divided + ns / f64::from(level.n.max(1)))
    });
    match (profile.threads.is_empty(), all > 0.0) {
        (true, _) => 0.0,
        (false, true) => divided / all,
        (false, false) => 1.0,
    }
}

fn pid_of(profile: &Profile, process: ProcessId) -> i32 {
    profile.processes.get(process as usize).map_or(0, |process| process.pid)
}

/// What the scheduler saw, and whose row each is, if it is that of a thread whose calls were recorded.
fn tasks_of<'a>(rows: &[ThreadRow], profile: &'a Profile) -> Vec<(&'a Task, Option<usize>)> {
    let mut known: FxHashMap<(i32, i32), Vec<usize>> = FxHashMap::default();
    for (at, row) in rows.iter().enumerate() {
        known.entry((row.process, row.tid)).or_default().push(at);
    }
    let mut taken = vec![false; rows.len()];
    let mut row_of = |task: &Task| {
        let shared = |row: &ThreadRow| row.end_ns().min(task.end_ns) - row.start_ns.max(task.start_ns);
        let same = known.get(&(pid_of(profile, task.process), task.tid)).into_iter().flatten().copied();
        let same = same.filter(|at| shared(&rows[*at]) >= 0 && !taken[*at]).max_by_key(|at| shared(&rows[*at]));
        same.inspect(|&at| taken[at] = true)
    };
    profile.sched.tasks.iter().map(|task| (task, row_of(task))).collect()
}

/// Threads whose calls were recorded, in the order of their ids.
fn with_calls(
    profile: &Profile,
    is_chosen: impl Fn(ProcessId) -> bool,
    executable: impl Fn(ProcessId) -> String,
) -> Vec<ThreadRow> {
    let timed = profile.meta.timing != Timing::Count;
    let mut threads: Vec<_> = profile.threads.iter().filter(|thread| is_chosen(thread.process)).collect();
    threads.sort_by_key(|thread| (pid_of(profile, thread.process), thread.tid, thread.start_ns));
    let mut rows: Vec<ThreadRow> = Vec::with_capacity(threads.len());
    let mut program = None;
    for thread in threads {
        let mut row = ThreadRow {
            process: pid_of(profile, thread.process),
            tid: thread.tid,
            name: thread.name.clone(),
            group: thread.group.clone(),
            start_routine: thread.start_routine.clone(),
            wall_ns: thread.wall_ns,
            // Counts alone don't tell when a thread waits.
            busy_ns: timed.then_some(thread.busy_ns),
            wait_ns: timed.then_some(thread.wait_ns),
            calls: Some(thread.calls),
            on_cpu_ns: None,
            runnable_ns: None,
            blocked_ns: None,
            attributed_ns: thread.attributed_ns,
            executable: executable(thread.process),
            start_ns: thread.start_ns,
        };
        // Its process called exec. An id that comes back within one program is another thread's.
        let replaced = program.is_some_and(|program| program != thread.process);
        if let Some(before) = rows.pop_if(|before| replaced && (before.process, before.tid) == (row.process, row.tid)) {
            row.start_ns = before.start_ns;
            row.wall_ns += before.wall_ns;
            row.busy_ns = sum(row.busy_ns, before.busy_ns);
            row.wait_ns = sum(row.wait_ns, before.wait_ns);
            row.calls = row.calls.map(|calls| calls + before.calls.unwrap_or(0));
            row.attributed_ns += before.attributed_ns;
        }
        program = Some(thread.process);
        rows.push(row);
    }
    rows
}

/// What the scheduler's events say of these threads, and the threads that only they have.
fn add_scheduled(
    rows: &mut Vec<ThreadRow>,
    profile: &Profile,
    is_chosen: impl Fn(ProcessId) -> bool,
    executable: impl Fn(ProcessId) -> String,
) {
    // Without privileges, states are estimated from samples.
    let exact = profile.meta.criticality.as_ref().is_some_and(|session| !session.estimate);
    // An estimate from counts alone knows no waits.
    let sampled = profile.meta.collectors.iter().any(|name| name == "samples");
    let per_wait = per_waiting_ns(profile);
    for (task, same) in tasks_of(rows, profile).into_iter().filter(|(task, _)| is_chosen(task.process)) {
        let process = pid_of(profile, task.process);
        let at = same.unwrap_or_else(|| {
            let outside = Outside::new(task, per_wait);
            rows.push(ThreadRow {
                process,
                tid: task.tid,
                name: task.name.clone(),
                group: task.group.clone(),
                start_routine: String::new(),
                wall_ns: outside.busy_ns + outside.wait_ns,
                busy_ns: Some(outside.busy_ns),
                wait_ns: Some(outside.wait_ns),
                calls: None,
                on_cpu_ns: None,
                runnable_ns: None,
                blocked_ns: None,
                attributed_ns: outside.busy_attributed_ns + outside.wait_attributed_ns,
                executable: executable(task.process),
                start_ns: task.start_ns,
            });
            rows.len() - 1
        });
        let row = &mut rows[at];
        if exact {
            // Before the agent is there, and after it has gone, the scheduler alone sees the thread.
            row.start_ns = row.start_ns.min(task.start_ns);
            row.wall_ns = row.wall_ns.max(task.running_ns + task.runnable_ns + task.blocked_ns);
            // Waiting that no call tells of is in the scheduler's events, too. A call that waits ends when its thread has a
            // CPU again: of the time in queues that much belongs to the wait.
            let queued_in_waits = (row.wait_ns.unwrap_or(0) - task.blocked_ns).clamp(0, task.runnable_ns.max(0));
            let busy_ns = (task.running_ns + task.runnable_ns - queued_in_waits).min(row.wall_ns);
            (row.busy_ns, row.wait_ns) = (Some(busy_ns), Some(row.wall_ns - busy_ns));
            row.on_cpu_ns = Some(task.running_ns);
            row.runnable_ns = Some(task.runnable_ns);
            row.blocked_ns = Some(task.blocked_ns);
        } else if sampled && row.busy_ns.is_none() {
            let wait_ns = task.blocked_ns.clamp(0, row.wall_ns);
            (row.busy_ns, row.wait_ns) = (Some(row.wall_ns - wait_ns), Some(wait_ns));
        }
    }
}

/// Known where both are.
fn sum(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one? + other?)
}

fn sort(rows: &mut [ThreadRow], key: Option<SortKey>) {
    let value = |row: &ThreadRow| match key {
        None | Some(SortKey::SelfTime) => row.busy_ns.unwrap_or(0),
        Some(SortKey::Total | SortKey::Mean | SortKey::P99 | SortKey::Max) => row.wall_ns,
        Some(SortKey::Attributed) => row.attributed_ns,
        Some(SortKey::Wait) => row.wait_ns.unwrap_or(0),
        Some(SortKey::Calls | SortKey::Bytes) => row.calls.unwrap_or(0),
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
        group.mean_busy_ns = group.busy_ns.map(|busy_ns| busy_ns / group.threads);
        let ratio = |(busy_ns, max_ns): (i64, i64)| max_ns as f64 * group.threads as f64 / busy_ns as f64;
        group.imbalance = group.busy_ns.filter(|&busy_ns| busy_ns > 0).zip(group.max_busy_ns).map(ratio);
    }
    let mut least: FxHashMap<String, Option<i64>> = FxHashMap::default();
    for group in &groups {
        let least = least.entry(group.executable.clone()).or_insert(Some(i64::MAX));
        *least = least.zip(group.mean_busy_ns).map(|(least, mean)| least.min(mean));
    }
    for group in &mut groups {
        let least = least[&group.executable].filter(|&least| least > 0);
        group.busy_ratio = group.mean_busy_ns.zip(least).map(|(mean, least)| mean as f64 / least as f64);
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
            busy_ns: Some(0),
            wait_ns: Some(0),
            calls: 0,
            attributed_ns: 0,
            mean_busy_ns: None,
            max_busy_ns: Some(0),
            imbalance: None,
            busy_ratio: None,
        }
    }

    fn add(&mut self, row: &ThreadRow) {
        self.threads += 1;
        self.wall_ns += row.wall_ns;
        self.busy_ns = sum(self.busy_ns, row.busy_ns);
        self.wait_ns = sum(self.wait_ns, row.wait_ns);
        self.calls += row.calls.unwrap_or(0);
        self.attributed_ns += row.attributed_ns;
        self.max_busy_ns = self.max_busy_ns.zip(row.busy_ns).map(|(most, own)| most.max(own));
    }
}
