//! Threads that sleep again and again until something is done: a monitor that is told to stop and then joined, a main thread
//! that looks now and then whether its workers have ended.
//!
//! How often they sleep follows from what they look for, not the other way round. In a replay their sleeps take no time, and
//! they go on when that has happened.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedWait, WaitKind};

use super::super::Source;
use super::timeline::{SKEW, Timelines};
use super::trace::{Ending, Point, Trace};

/// Fewer sleeps in a row tell nothing.
const LEAST: i64 = 3;
/// A sleep of a run may be so many times as long as its mean.
const EVEN: i64 = 3;
/// Of a run's time this part at least is slept.
const ASLEEP: f64 = 0.7;
/// What is looked for may have happened so many sleeps before it is seen.
const SEEN_WITHIN: f64 = 1.3;
/// A thread that sleeps for this part of its life looks for something ...
const SLEEPER: f64 = 0.5;
/// ... and one that sleeps for this part is not what others look for: it may be late by that.
const LATE: f64 = 0.1;

/// Sleeps in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    begin_ns: i64,
    end_ns: i64,
    count: i64,
    ns: i64,
    longest_ns: i64,
}

impl Run {
    fn of(wait: &SchedWait) -> Run {
        let longest_ns = wait.ns / wait.count.max(1);
        Run { begin_ns: wait.begin_ns, end_ns: wait.end_ns, count: wait.count.max(1), ns: wait.ns, longest_ns }
    }

    fn mean(&self) -> i64 {
        self.ns / self.count
    }

    /// Whether these are even sleeps with little between them.
    fn polls(&self) -> bool {
        self.count >= LEAST
            && self.longest_ns <= EVEN * self.mean()
            && self.ns as f64 >= ASLEEP * (self.end_ns - self.begin_ns) as f64
    }

    /// Whether what happened at `at` may have ended it.
    fn ended_by(&self, at: i64) -> bool {
        let since = self.end_ns - at;
        (-SKEW..=(self.mean() as f64 * SEEN_WITHIN) as i64 + SKEW).contains(&since)
    }
}

/// Takes the time from the sleeps of such threads, and lets them go on after what they looked for.
pub(super) fn shorten(
    trace: &mut Trace,
    points: &mut Vec<(u32, i64, Point)>,
    source: &Source<'_>,
    timelines: &Timelines,
) {
    let tables = source.tables;
    let mut ids: FxHashMap<u32, u32> = FxHashMap::default();
    for (id, wait) in trace.waits.iter().enumerate() {
        ids.insert(wait.row, id as u32);
    }
    let asleep: Vec<f64> = (0..tables.tasks.len()).map(|task| sleeps(source, timelines, task)).collect();
    if !asleep.iter().any(|&part| part >= SLEEPER) {
        return;
    }
    let events = Events::new(source, &asleep);
    for task in (0..tables.tasks.len()).filter(|&task| asleep[task] >= SLEEPER) {
        for (run, rows) in runs(source, timelines, task) {
            let by_waker = rows.last().and_then(|&row| next_is_woken(trace, timelines, &ids, task, row, source));
            let awaited = if by_waker.is_some() { None } else { events.end(&run, task) };
            let ended = by_waker.is_some() || awaited.is_some() || events.joined(&run, task, source);
            // Who hands out work and looks whether it is done keeps the others waiting.
            if !ended || events.wakes(&run, task) {
                continue;
            }
            for id in rows.iter().filter_map(|row| ids.get(row)) {
                let wait = &mut trace.waits[*id as usize];
                if wait.ending == Ending::Time {
                    (wait.ns, wait.period) = (0.0, 0.0);
                }
            }
            trace.polled.push((task as u32, run.begin_ns, run.end_ns));
            if let Some(awaited) = awaited.filter(|_| run.end_ns > trace.start_ns && run.end_ns < trace.end_ns) {
                points.push((task as u32, run.end_ns, Point::Await(awaited)));
            }
        }
    }
}

/// Waits that a thread's own clock may end.
fn is_timed(wait: &SchedWait) -> bool {
    use WaitKind as K;
    let kind = matches!(wait.kind, K::Sleep | K::Poll | K::Condition | K::Semaphore | K::Futex | K::Socket | K::Other);
    kind && wait.waker.is_none() && wait.holder.is_none()
}

/// Part of its life that a thread sleeps, 0.0–1.0.
fn sleeps(source: &Source<'_>, timelines: &Timelines, task: usize) -> f64 {
    let row = &source.tables.tasks[task];
    let all = timelines.single[task].iter().chain(&timelines.merged[task]);
    let waits = all.map(|&row| &source.tables.waits[row as usize]);
    let slept: i64 = waits.filter(|wait| is_timed(wait)).map(|wait| wait.ns).sum();
    slept as f64 / (row.end_ns - row.start_ns).max(1) as f64
}

/// A thread's runs of sleeps at one place, with their rows.
fn runs(source: &Source<'_>, timelines: &Timelines, task: usize) -> Vec<(Run, Vec<u32>)> {
    let waits = &source.tables.waits;
    let mut rows: Vec<u32> = timelines.single[task].iter().chain(&timelines.merged[task]).copied().collect();
    rows.sort_by_key(|&row| (waits[row as usize].begin_ns, row));
    let mut found: Vec<(Run, Vec<u32>)> = Vec::new();
    let mut last: Option<(WaitKind, Option<u32>)> = None;
    for row in rows {
        let wait = &waits[row as usize];
        if !is_timed(wait) {
            // A sum of other waits lies beside the rest, and ends nothing.
            last = if wait.is_sum() { last } else { None };
            continue;
        }
        let place = (wait.kind, source.wait_stacks[row as usize]);
        let same = last == Some(place);
        last = Some(place);
        let next = Run::of(wait);
        match found.last_mut().filter(|_| same) {
            Some((run, rows)) => {
                run.end_ns = run.end_ns.max(next.end_ns);
                run.count += next.count;
                run.ns += next.ns;
                run.longest_ns = run.longest_ns.max(next.longest_ns);
                rows.push(row);
            }
            None => found.push((next, vec![row])),
        }
    }
    found.retain(|(run, _)| run.polls());
    found
}

/// The wait after a run, if it is one of the same place that another thread ends.
fn next_is_woken(
    trace: &Trace,
    timelines: &Timelines,
    ids: &FxHashMap<u32, u32>,
    task: usize,
    last: u32,
    source: &Source<'_>,
) -> Option<u32> {
    let rows = &timelines.single[task];
    let next = rows[rows.iter().position(|&row| row == last)? + 1..].first()?;
    let id = ids.get(next)?;
    let place = |row: u32| (source.tables.waits[row as usize].kind, source.wait_stacks[row as usize]);
    (trace.waits[*id as usize].ending == Ending::Token && place(*next) == place(last)).then_some(*id)
}

/// What threads that sleep may look for.
struct Events {
    /// Ends of threads that hardly sleep themselves, in order of time.
    ends: Vec<(i64, u32)>,
    /// By thread: when another one began to wait for its end.
    joins: FxHashMap<u32, i64>,
    /// By thread that sleeps: when it ended others' waits for something else than a lock, in order of time.
    wakes: FxHashMap<u32, Vec<i64>>,
}

impl Events {
    fn new(source: &Source<'_>, asleep: &[f64]) -> Events {
        let tables = source.tables;
        let sleeps = |task: u32| asleep.get(task as usize).is_some_and(|&part| part >= LATE);
        let ends = tables.tasks.iter().enumerate().filter(|(id, _)| !sleeps(*id as u32));
        let mut ends: Vec<(i64, u32)> = ends.map(|(id, task)| (task.end_ns, id as u32)).collect();
        ends.sort_unstable();
        // Of each thread the wait for another's end that it went into, and what it came from.
        let mut joins = FxHashMap::default();
        let mut before: FxHashMap<u32, (i64, u32)> = FxHashMap::default();
        let mut wakes: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
        for wait in &tables.waits {
            let Some(other) = wait.waker.or(wait.holder).map(|party| party.task) else { continue };
            let lock =
                matches!(wait.kind, WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock | WaitKind::RunQueue);
            if !lock && sleeps(other) {
                let ends = wakes.entry(other).or_default();
                ends.push(wait.end_ns);
                // Of a sum, some lie between.
                ends.extend(wait.is_sum().then_some(wait.begin_ns.midpoint(wait.end_ns)));
            }
            if !matches!(wait.kind, WaitKind::Join | WaitKind::Child) {
                continue;
            }
            // Who has just waited for the end of another one that sleeps waits for all of them in turn.
            let in_turn =
                before.get(&wait.task).is_some_and(|&(end, other)| wait.begin_ns - end < wait.ns && sleeps(other));
            if !in_turn {
                joins.insert(other, wait.begin_ns);
            }
            before.insert(wait.task, (wait.end_ns, other));
        }
        wakes.values_mut().for_each(|ends| ends.sort_unstable());
        Events { ends, joins, wakes }
    }

    /// Whether a thread ends others' waits in the run; at its end it may do so by ending itself.
    fn wakes(&self, run: &Run, task: usize) -> bool {
        let Some(ends) = self.wakes.get(&(task as u32)) else { return false };
        let first = ends.partition_point(|&at| at <= run.begin_ns);
        ends.get(first).is_some_and(|&at| at < run.end_ns - SKEW)
    }

    /// The thread whose end is the last that a run may have ended by.
    fn end(&self, run: &Run, task: usize) -> Option<u32> {
        let until = self.ends.partition_point(|&(at, _)| at <= run.end_ns + SKEW);
        let last = self.ends[..until].iter().rev().find(|&&(_, id)| id as usize != task)?;
        run.ended_by(last.0).then_some(last.1)
    }

    /// Whether the thread ended after the run, for which another one had just begun to wait.
    fn joined(&self, run: &Run, task: usize, source: &Source<'_>) -> bool {
        let ended = source.tables.tasks[task].end_ns - run.end_ns <= run.mean() + SKEW;
        ended && self.joins.get(&(task as u32)).is_some_and(|&at| run.ended_by(at))
    }
}
