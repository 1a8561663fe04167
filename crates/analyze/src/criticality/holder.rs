//! What is done under a lock that threads wait for: the cause of what they do at the lock's calls, too.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, SchedWait, StackId, WaitKind};

use super::call_path::{CallPaths, FunctionId, PathId};
use super::hold_time::HoldTimes;
use super::tally::Tally;
use super::wait::Objects;

/// Locks are contended at a place if threads wait there for this part of the time that they are active at its calls of locks.
const CONTENDED: f64 = 0.1;

/// What is known of the holders of locks.
pub(super) struct Holders {
    /// By row of the waits: a stack of what was done under the lock meanwhile.
    stacks: Vec<Option<StackId>>,
    /// By path that ends in a call of a contended lock.
    contended: FxHashMap<PathId, Contended>,
}

/// The lock that is waited for most at a path.
struct Contended {
    /// Kind and object of its waits.
    lock: (WaitKind, u32),
    /// Where it is held most, if that is known.
    held_at: Option<PathId>,
}

impl Holders {
    /// `wait_stacks`: where threads waited.
    pub fn new(
        tables: &SchedTables,
        paths: &CallPaths,
        wait_stacks: &[Option<StackId>],
        objects: &Objects<'_>,
        holds: &HoldTimes<'_>,
    ) -> Self {
        let stacks = stacks(tables, paths, holds);
        let contended = contended(tables, paths, wait_stacks, objects, &stacks);
        Self { stacks, contended }
    }

    /// What was done under the lock that a row waits for, while it did.
    pub fn stack(&self, row: usize) -> Option<StackId> {
        self.stacks[row]
    }

    /// Where the lock is held most at whose calls a path ends, if that is contended.
    pub fn held_at(&self, path: PathId) -> Option<PathId> {
        self.contended.get(&path)?.held_at
    }

    /// Kind and object of the contended lock at whose calls a path ends.
    pub fn lock_at(&self, path: PathId) -> Option<(WaitKind, u32)> {
        Some(self.contended.get(&path)?.lock)
    }
}

fn is_lock(wait: &SchedWait) -> bool {
    matches!(wait.kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock)
}

/// The holder's stack, unless it says only that the holder had just got the lock or was letting it go; then what the holder was seen
/// doing while the other waited: not if that took longer than the lock is held.
fn stacks(tables: &SchedTables, paths: &CallPaths, holds: &HoldTimes<'_>) -> Vec<Option<StackId>> {
    let at_lock = |stack: StackId| paths.stack(stack).is_some_and(|facts| paths.is_at_lock(facts.path));
    let mut seen: FxHashMap<u32, Vec<(i64, StackId)>> = FxHashMap::default();
    for moment in tables.moments.iter().filter(|moment| !at_lock(moment.stack)) {
        seen.entry(moment.task).or_default().push((moment.time_ns, moment.stack));
    }
    let while_waited = |row: usize, wait: &SchedWait| {
        // In a sum of waits the holder also does other things.
        let may_last = || holds.waited_for(tables, row).is_none_or(|held| held.may_last(wait.ns));
        let of = seen.get(&wait.holder?.task).filter(|_| !wait.is_sum() && may_last())?;
        let first = of.partition_point(|&(at, _)| at < wait.begin_ns);
        of.get(first).filter(|&&(at, _)| at < wait.end_ns).map(|&(_, stack)| stack)
    };
    let of = |(row, wait): (usize, &SchedWait)| {
        let known = wait.holder.filter(|_| is_lock(wait))?.stack;
        known.filter(|&stack| !at_lock(stack)).or_else(|| while_waited(row, wait))
    };
    tables.waits.iter().enumerate().map(of).collect()
}

fn contended(
    tables: &SchedTables,
    paths: &CallPaths,
    wait_stacks: &[Option<StackId>],
    objects: &Objects<'_>,
    holders: &[Option<StackId>],
) -> FxHashMap<PathId, Contended> {
    #[derive(Default)]
    struct Waited {
        ns: i64,
        locks: Tally<(WaitKind, u32)>,
        /// Where they were held meanwhile.
        held: Tally<PathId>,
    }
    // By function that takes locks, or calls what does.
    let mut waited: FxHashMap<FunctionId, Waited> = FxHashMap::default();
    let path_of = |stack: Option<StackId>| stack.and_then(|stack| paths.stack(stack)).map(|facts| facts.path);
    for (row, wait) in tables.waits.iter().enumerate().filter(|(_, wait)| is_lock(wait)) {
        let Some(path) = path_of(wait_stacks[row]).filter(|&path| paths.is_at_lock(path)) else { continue };
        for function in paths.around(path) {
            let sum = waited.entry(function).or_default();
            sum.ns += wait.ns;
            sum.locks.add((wait.kind, objects.of(row)), wait.ns);
            if let Some(holder) = path_of(holders[row]) {
                sum.held.add(holder, wait.ns);
            }
        }
    }
    let mut active: FxHashMap<PathId, (FunctionId, i64)> = FxHashMap::default();
    let mut by_function: FxHashMap<FunctionId, i64> = FxHashMap::default();
    for sample in &tables.samples {
        let Some(path) = path_of(Some(sample.stack)).filter(|&path| paths.is_at_lock(path)) else { continue };
        let Some(function) = paths.around(path).find(|function| waited.contains_key(function)) else { continue };
        active.entry(path).or_insert((function, 0)).1 += sample.active_ns;
        *by_function.entry(function).or_default() += sample.active_ns;
    }
    let of = |(path, (function, _)): (PathId, (FunctionId, i64))| {
        let Waited { ns, locks, held } = waited.get(&function)?;
        let much = *ns as f64 >= CONTENDED * by_function.get(&function).copied()? as f64;
        let lock = locks.most().filter(|_| much)?;
        Some((path, Contended { lock, held_at: held.most() }))
    };
    active.into_iter().filter_map(of).collect()
}
