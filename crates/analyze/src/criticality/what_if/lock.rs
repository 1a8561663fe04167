//! How long locks are held: a run takes no less, however fast the rest is.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{OtherThread, Parallelism, ProcessId, SchedWait, WaitKind};

use super::super::Source;
use super::super::call_path::FunctionId;
use super::super::hold_time::HoldTime;
use super::super::tally::Tally;
use super::density::{Code, Density};
use super::hold::Holds;
use super::timeline::Timelines;
use super::trace::{Step, Trace};
use crate::sharing::Span;

/// Locks looked at.
const LOCKS: usize = 6;
/// Places with a smaller part of a lock's waits are not where it is held.
const PART: f64 = 0.05;
/// Part of the time in which somebody waits for a lock, from which it is never free.
const SATURATED: f64 = 0.8;
/// Waits of a lock whose holders are followed.
const FOLLOWED: usize = 1_000;

/// One lock.
pub(super) struct Held {
    /// Kind and object of its waits.
    lock: (WaitKind, u32),
    /// CPU time for which it was held at least, ns: while somebody waited for it. ...
    least_ns: f64,
    /// ... and at most: all of the time spent where its holders were seen.
    most_ns: f64,
    /// What its calls say, between these; `None` if they were not recorded.
    measured_ns: Option<f64>,
    /// Share of its time at each place: path of the holder.
    places: Vec<(u32, f64)>,
    /// Holders of some of its waits, and from when to when.
    followed: Vec<Span>,
    /// Share of that time in which the holder waited for what is outside of the program.
    blocked: f64,
    /// Somebody waits for it nearly all the time: then each who gives it back wakes one.
    saturated: bool,
}

impl Held {
    /// CPU time for which it was held, ns: the most if `belief` is 1.0, the least if it is 0.0.
    pub fn ns(&self, belief: f64) -> f64 {
        let between = self.least_ns + (self.most_ns - self.least_ns) * belief;
        self.measured_ns.filter(|_| belief > 0.0 && belief < 1.0).unwrap_or(between)
    }

    /// Whether somebody waits for it nearly all the time.
    pub fn is_saturated(&self) -> bool {
        self.saturated
    }

    /// Whether its holds are known from its calls.
    pub fn is_measured(&self) -> bool {
        self.measured_ns.is_some()
    }

    /// Which part of its time `code` runs.
    pub fn running(&self, source: &Source<'_>, code: Code) -> f64 {
        let hit = |place: &&(u32, f64)| code.covers(source, place.0);
        self.places.iter().filter(hit).map(|(_, share)| share).sum::<f64>() * (1.0 - self.blocked)
    }

    /// Whether a row waits for it.
    pub fn is_waited_for(&self, source: &Source<'_>, row: u32) -> bool {
        self.lock == (source.tables.waits[row as usize].kind, source.objects.of(row as usize))
    }

    /// Which part of its time `code` runs by the samples of pieces from getting it to giving it back: where each waits for the one
    /// before, waits begin just as the next holder has it, and what that one does under it is on no stack of theirs.
    pub fn sampled(&self, source: &Source<'_>, trace: &Trace, density: &Density, code: usize) -> f64 {
        if !self.saturated {
            return 0.0;
        }
        let (mut whole, mut part) = (0.0, 0.0);
        let is_its = |wait: u32| self.is_waited_for(source, trace.waits[wait as usize].row);
        for steps in trace.steps.windows(3) {
            let [Step::Block(got), Step::Work(piece), Step::Fire(given)] = *steps else { continue };
            if is_its(got) && is_its(given) {
                let work = trace.pieces[piece as usize].work();
                (whole, part) = (whole + work, part + work * density.code(piece as usize, code));
            }
        }
        part / f64::max(whole, 1.0) * (1.0 - self.blocked)
    }

    /// Which part of its time its holder was in waits that `counts`.
    pub fn waiting(&self, source: &Source<'_>, timelines: &Timelines, counts: impl Fn(u32) -> bool) -> f64 {
        let total: i64 = self.followed.iter().map(|(_, (begin, end))| end - begin).sum();
        let waited = |&(holder, span): &(u32, (i64, i64))| timelines.waited(source.tables, holder, span, &counts);
        let waited: i64 = self.followed.iter().map(waited).sum();
        waited as f64 / total.max(1) as f64
    }
}

/// Which part of each lock's time its holder waited for each other lock.
pub(super) struct Chains(Vec<Vec<f64>>);

impl Chains {
    pub fn new(source: &Source<'_>, timelines: &Timelines, locks: &[Held]) -> Self {
        let behind = |lock: &Held, other: &Held| {
            lock.waiting(source, timelines, |row| other.is_waited_for(source, row) && !lock.is_waited_for(source, row))
        };
        Self(locks.iter().map(|lock| locks.iter().map(|other| behind(lock, other)).collect()).collect())
    }

    /// A candidate's part of each lock's time: of its own, and of that of the locks which its holder waits for.
    pub fn shares(&self, own: impl Iterator<Item = f64>) -> Vec<f64> {
        let own: Vec<f64> = own.collect();
        let others = |behind: &Vec<f64>| behind.iter().zip(&own).map(|(part, share)| part * share).sum::<f64>();
        self.0.iter().zip(&own).map(|(behind, share)| (share + others(behind)).min(1.0)).collect()
    }
}

/// Kind, object, and the process if it means something else in others.
pub(super) type LockKey = (WaitKind, u32, Option<ProcessId>);

/// By row: the lock that it waits for, if it does for one.
pub(super) fn keys(source: &Source<'_>) -> Vec<Option<LockKey>> {
    let is_lock = |wait: &SchedWait| matches!(wait.kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock);
    let waits = || source.tables.waits.iter().enumerate();
    let process = |task: u32| source.tables.tasks.get(task as usize).map(|task| task.process);
    // What a process gave free for another, or held, is one lock for both.
    let shared: FxHashSet<(WaitKind, u32)> = waits()
        .filter(|(_, wait)| is_lock(wait))
        .filter(|(_, wait)| wait.holder.or(wait.waker).is_some_and(|party| process(party.task) != process(wait.task)))
        .map(|(row, wait)| (wait.kind, source.objects.of(row)))
        .collect();
    let key = |(row, wait): (usize, &SchedWait)| {
        let object = source.objects.of(row);
        // An address, and a lock of the kernel's without a name, mean another one in each process.
        let name = source.objects.name(object);
        let own = (name.is_empty() || name.starts_with("0x")) && !shared.contains(&(wait.kind, object));
        is_lock(wait).then(|| (wait.kind, object, own.then(|| process(wait.task)).flatten()))
    };
    waits().map(key).collect()
}

#[derive(Default)]
struct Sum {
    ns: i64,
    held: Option<HoldTime>,
    merged_ns: i64,
    places: Tally<u32>,
    spans: Vec<(i64, i64)>,
    followed: Vec<Span>,
}

/// The locks that were waited for longest.
pub(super) fn held(source: &Source<'_>, timelines: &Timelines, keys: &[Option<LockKey>], holds: &Holds) -> Vec<Held> {
    let mut index: FxHashMap<LockKey, usize> = FxHashMap::default();
    let mut locks: Vec<(LockKey, Sum)> = Vec::new();
    for ((row, wait), &key) in source.tables.waits.iter().enumerate().zip(keys) {
        let Some(key) = key else { continue };
        let object = key.1;
        let at = *index.entry(key).or_insert_with(|| {
            locks.push((key, Sum::default()));
            locks.len() - 1
        });
        let sum = &mut locks[at].1;
        sum.ns += wait.ns;
        sum.held = sum.held.or_else(|| source.holds.waited_for(source.tables, row));
        // Without a holder the waker had it; where that was giving it back, what it did before is not known.
        let waker = || wait.waker.filter(|_| wait.holder.is_none()).and_then(|waker| waker.stack);
        let path = source.holders.stack(row).or_else(waker).and_then(|stack| source.paths.stack(stack));
        if let Some(facts) = path.filter(|facts| !source.paths.is_at_lock(facts.path)) {
            sum.places.add(facts.path, wait.ns);
        }
        if wait.is_sum() {
            sum.merged_ns = sum.merged_ns.max(wait.ns);
            continue;
        }
        let span = (wait.begin_ns, wait.end_ns);
        sum.spans.push(span);
        // If another thread ended the wait, the holder had given the lock back at some time before.
        let to_its_end = |holder: &OtherThread| wait.waker.is_none_or(|waker| waker.task == holder.task);
        // Where nobody says who holds it, as of a file's lock, who ended the wait did so.
        let others = wait.waker.filter(|waker| wait.holder.is_none() && waker.task != wait.task);
        if let Some(holder) = wait.holder.filter(to_its_end).or(others) {
            // Of those in the queue each had it from its own wait for it on.
            let own = |row: u32| {
                source.objects.of(row as usize) == object && source.tables.waits[row as usize].kind == wait.kind
            };
            let got = timelines.last_end(source.tables, holder.task, span, own);
            sum.followed.push((holder.task, (got.unwrap_or(wait.begin_ns), wait.end_ns)));
        }
    }
    locks.sort_by_key(|(key, sum)| (std::cmp::Reverse(sum.ns), *key));
    let active = active_by_place(source);
    for (key, sum) in &mut locks {
        if let Some(holds) = holds.of(*key) {
            sum.followed = holds.iter().map(|hold| (hold.task, (hold.begin_ns, hold.end_ns))).collect();
        }
    }
    locks.into_iter().take(LOCKS).map(|(key, sum)| lock(source, timelines, (key.0, key.1), sum, &active)).collect()
}

fn lock(
    source: &Source<'_>,
    timelines: &Timelines,
    lock: (WaitKind, u32),
    sum: Sum,
    active: &FxHashMap<FunctionId, f64>,
) -> Held {
    let known: i64 = sum.places.iter().map(|(_, ns)| ns).sum();
    let mut places: Vec<(u32, f64)> =
        sum.places.iter().map(|(path, ns)| (path, ns as f64 / known.max(1) as f64)).collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let heavy = places.iter().filter(|(_, share)| *share >= PART);
    let mut functions: Vec<FunctionId> = heavy.filter_map(|&(path, _)| source.paths.place(path)).collect();
    functions.sort_unstable();
    functions.dedup();
    let running: f64 = functions.iter().map(|function| active.get(function).copied().unwrap_or(0.0)).sum();
    let (start, end) = super::span(source);
    let elapsed = (end - start) as f64;
    let step = sum.followed.len().div_ceil(FOLLOWED).max(1);
    let mut held = Held {
        lock,
        least_ns: 0.0,
        most_ns: 0.0,
        measured_ns: None,
        places,
        followed: sum.followed.into_iter().step_by(step).collect(),
        blocked: 0.0,
        saturated: false,
    };
    let outside = |row: u32| {
        let wait = &source.tables.waits[row as usize];
        wait.waker.is_none() && wait.holder.is_none()
    };
    held.blocked = held.waiting(source, timelines, outside);
    let waited = ((union(sum.spans) + sum.merged_ns) as f64).min(elapsed);
    held.saturated = waited >= SATURATED * elapsed;
    // A holder that waits for a CPU needs no more of them than it gets.
    let on_cpu = held.blocked + (1.0 - held.blocked) * on_cpu(source, &held.followed);
    held.least_ns = waited * on_cpu;
    let most = (running / (1.0 - held.blocked).max(0.05)).min(elapsed);
    held.most_ns = most.max(held.least_ns);
    // Holds of several readers are at the same time.
    if let Some(time) = sum.held.filter(|_| held.lock.0 == WaitKind::Mutex) {
        // Waits begin and end beside the holds: a wake-up takes its time.
        let bounded = |ns: i64| (ns as f64).min(elapsed);
        held.most_ns = bounded(time.most_ns());
        held.least_ns = held.least_ns.max(bounded(time.low_ns) * on_cpu).min(held.most_ns);
        // While a holder has no CPU, the others come to wait for it and leave it theirs.
        held.measured_ns = Some(bounded(time.likely_ns()).clamp(held.least_ns, held.most_ns));
    }
    held
}

/// Part of the active time of a lock's holders that had a CPU, as far as the program's own threads leave them one.
fn on_cpu(source: &Source<'_>, followed: &[Span]) -> f64 {
    let all = crowding(&source.tables.parallelism, source);
    let total: i64 = followed.iter().map(|(_, (begin, end))| end - begin).sum();
    if source.sharing.is_even() || total <= 0 {
        return all;
    }
    let queued: f64 = source.sharing.queued(source.tables, followed).1.iter().sum();
    all.min((1.0 - queued / total as f64).max(0.0))
}

/// Part of the active time that had a CPU, if all had one in turn.
fn crowding(parallelism: &[Parallelism], source: &Source<'_>) -> f64 {
    let sum = |weight: &dyn Fn(i32) -> f64| {
        parallelism.iter().filter(|row| row.n > 0).map(|row| weight(row.n) * row.ns as f64).sum::<f64>()
    };
    let all = sum(&f64::from);
    if all > 0.0 { sum(&|n| f64::from(n).min(source.session.cpus as f64)) / all } else { 1.0 }
}

/// CPU time with each function as the place, ns: samples are of running threads.
fn active_by_place(source: &Source<'_>) -> FxHashMap<FunctionId, f64> {
    let mut samples: FxHashMap<u32, i64> = FxHashMap::default();
    for sample in &source.tables.samples {
        *samples.entry(sample.task).or_default() += sample.active_ns;
    }
    let mut sums: FxHashMap<FunctionId, f64> = FxHashMap::default();
    for sample in source.tables.samples.iter().filter(|sample| !sample.spin) {
        let place = source.paths.stack(sample.stack).and_then(|facts| source.paths.place(facts.path));
        let (Some(place), Some(task)) = (place, source.tables.tasks.get(sample.task as usize)) else { continue };
        let all = samples.get(&sample.task).copied().unwrap_or(0).max(1);
        *sums.entry(place).or_default() += task.running_ns as f64 * sample.active_ns as f64 / all as f64;
    }
    sums
}

/// Length of the union of spans.
fn union(mut spans: Vec<(i64, i64)>) -> i64 {
    // Waits are in order of their ends.
    if !spans.is_sorted_by_key(|span| span.1) {
        spans.sort_unstable_by_key(|span| span.1);
    }
    let (mut length, mut first) = (0, i64::MAX);
    for &(begin, end) in spans.iter().rev() {
        length += (end.min(first) - begin).max(0);
        first = first.min(begin);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::union;

    #[test]
    fn overlaps_count_once() {
        assert_eq!(union(vec![(0, 10), (5, 12), (6, 7), (20, 30), (12, 13)]), 23);
        assert_eq!(union(Vec::new()), 0);
    }
}
