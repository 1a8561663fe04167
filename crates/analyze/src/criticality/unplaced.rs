//! Waits whose stack is not known: their thread's group, kind and object are, and make a place of their own.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{Profile, SchedWait, WaitKind};

use super::place_wait::{Waited, waits};
use super::short_lived::ShortLived;
use super::tally::Tally;
use super::{PlaceRow, Source, UNATTRIBUTED};

/// The name of such a place: as [`UNATTRIBUTED`], and whose it is.
pub(super) fn name(group: &str) -> String {
    match UNATTRIBUTED.strip_suffix(']') {
        Some(name) if !group.is_empty() => format!("{name}: {group}]"),
        _ => UNATTRIBUTED.to_owned(),
    }
}

/// The group whose waits without a stack a place stands for.
pub(crate) fn unplaced_group(function: &str) -> Option<&str> {
    function.strip_prefix(UNATTRIBUTED.strip_suffix(']')?)?.strip_prefix(": ")?.strip_suffix(']')
}

/// Idle time that waits without a stack ended, ns.
pub(crate) fn idle_without_stack_ns(profile: &Profile) -> i64 {
    let waits = &profile.sched.waits;
    if waits.iter().all(|wait| wait.stack.is_some() || wait.idle_ns == 0) {
        return 0;
    }
    let stacks = super::wait_stacks(&profile.sched);
    waits.iter().zip(stacks).filter(|(_, stack)| stack.is_none()).map(|(wait, _)| wait.idle_ns).sum()
}

/// Waits of one group.
#[derive(Default)]
pub(super) struct Unplaced {
    pub waiting: FxHashMap<(WaitKind, u32), Waited>,
    tasks: Tally<u32>,
}

impl Unplaced {
    pub fn add(&mut self, wait: &SchedWait, object: u32, idle_ns: i64) {
        self.waiting.entry((wait.kind, object)).or_default().idle_ns += idle_ns;
        self.tasks.add(wait.task, idle_ns);
    }
}

/// The group's place.
pub(super) fn row(source: &Source<'_>, short_lived: &ShortLived, group: &str, sum: Unplaced) -> PlaceRow {
    let waiting = waits(source, &sum.waiting);
    let ns = sum.tasks.total();
    let tasks = || sum.tasks.iter().filter_map(|(task, _)| source.tables.tasks.get(task as usize));
    PlaceRow {
        function: name(group),
        ns,
        near_ns: ns,
        waiting,
        groups: vec![(group.to_owned(), ns)],
        threads: sum.tasks.len(),
        processes: tasks().map(|task| task.process).collect::<FxHashSet<_>>().len(),
        tid: tasks().next().filter(|_| sum.tasks.len() == 1).map(|task| task.tid),
        program: sum.tasks.most().map_or("", |task| source.program(task)).to_owned(),
        short_lived_ns: sum.tasks.iter().filter(|(task, _)| short_lived.tasks.contains(task)).map(|(_, ns)| ns).sum(),
        ..PlaceRow::default()
    }
}
