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
/// A sleep is long if it lasts more than this multiple of the mean ...
const EVEN: i64 = 3;
/// ... and this part of a run's time, at most, is in such: now and then a timer comes late.
const LONG: f64 = 0.1;
/// Of a run's time this part at least is slept.
const ASLEEP: f64 = 0.7;
/// Sleeps that may pass until what is looked for is seen.
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
}

impl Run {
    fn of(wait: &SchedWait) -> Run {
        Run { begin_ns: wait.begin_ns, end_ns: wait.end_ns, count: wait.count.max(1), ns: wait.ns }
    }

    fn mean(&self) -> i64 {
        self.ns / self.count
    }

    /// Whether these are even sleeps with little between them; `waits` are its rows.
    fn polls<'a>(&self, waits: impl Iterator<Item = &'a SchedWait>) -> bool {
        let long = waits.filter(|wait| wait.ns / wait.count.max(1) > EVEN * self.mean());
        self.count >= LEAST
            && long.map(|wait| wait.ns).sum::<i64>() as f64 <= LONG * self.ns as f64
            && self.ns as f64 >= ASLEEP * (self.end_ns - self.begin_ns) as f64
    }

    /// How long it takes at most until something is seen, ns.
    fn seen_within(&self) -> i64 {
        (self.mean() as f64 * SEEN_WITHIN) as i64 + SKEW
    }

    /// Whether what happened at `at` may have ended it.
    fn ended_by(&self, at: i64) -> bool {
        (-SKEW..=self.seen_within()).contains(&(self.end_ns - at))
    }
}

/// Such threads' sleeps in a run of the program.
pub(super) struct Polling {
    found: Vec<Polled>,
}

/// Sleeps in a row, and what they may end by.
struct Polled {
    task: u32,
    run: Run,
    rows: Vec<u32>,
    /// The wait after them, of the same place: another thread may end it.
    next: Option<u32>,
    /// The thread whose end they may end by.
    awaited: Option<u32>,
    /// Another thread had just begun to wait for this one's end.
    joined: bool,
}

impl Polling {
    pub fn new(source: &Source<'_>, timelines: &Timelines) -> Self {
        let tasks = source.tables.tasks.len();
        let asleep: Vec<f64> = (0..tasks).map(|task| sleeps(source, timelines, task)).collect();
        let mut found = Vec::new();
        if !asleep.iter().any(|&part| part >= SLEEPER) {
            return Self { found };
        }
        let events = Events::new(source, &asleep);
        for task in (0..tasks).filter(|&task| asleep[task] >= SLEEPER) {
            for (run, rows) in runs(source, timelines, task) {
                // Who hands out work and looks whether it is done keeps the others waiting.
                if !events.wakes(&run, task) {
                    let next = rows.last().and_then(|&row| next_alike(source, timelines, task, row));
                    let (awaited, joined) = (events.end(&run, task), events.joined(&run, task, source));
                    found.push(Polled { task: task as u32, run, rows, next, awaited, joined });
                }
            }
        }
        Self { found }
    }

    /// Takes the time from the sleeps, and lets the threads go on after what they looked for.
    pub fn shorten(&self, trace: &mut Trace, points: &mut Vec<(u32, i64, Point)>) {
        if self.found.is_empty() {
            return;
        }
        let ids: FxHashMap<u32, usize> = trace.waits.iter().enumerate().map(|(id, wait)| (wait.row, id)).collect();
        for Polled { task, run, rows, next, awaited, joined } in &self.found {
            let next = next.and_then(|next| ids.get(&next));
            let woken = next.is_some_and(|&id| trace.waits[id].ending == Ending::Token);
            let awaited = awaited.filter(|_| !woken);
            if !woken && awaited.is_none() && !joined {
                continue;
            }
            for &id in rows.iter().filter_map(|row| ids.get(row)) {
                let wait = &mut trace.waits[id];
                if wait.ending == Ending::Time {
                    (wait.ns, wait.period) = (0.0, 0.0);
                }
            }
            trace.polled.push((*task, run.begin_ns, run.end_ns));
            if let Some(awaited) = awaited.filter(|_| run.end_ns > trace.start_ns && run.end_ns < trace.end_ns) {
                points.push((*task, run.end_ns, Point::Await(awaited)));
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
        let place = Some(place(source, row));
        let same = last == place;
        last = place;
        let next = Run::of(wait);
        match found.last_mut().filter(|_| same) {
            Some((run, rows)) => {
                run.end_ns = run.end_ns.max(next.end_ns);
                run.count += next.count;
                run.ns += next.ns;
                rows.push(row);
            }
            None => found.push((next, vec![row])),
        }
    }
    found.retain(|(run, rows)| {
        run.polls(rows.iter().map(|&row| &waits[row as usize])) || is_told(source, timelines, task, rows)
    });
    found
}

/// Whether the last wait at that place was ended by another thread: then those before it, whose time ran out, were for the same, and
/// so few of them say enough. A sleep is for nothing but time.
fn is_told(source: &Source<'_>, timelines: &Timelines, task: usize, rows: &[u32]) -> bool {
    use WaitKind as K;
    let waits = &source.tables.waits;
    let for_others = |row: &u32| matches!(waits[*row as usize].kind, K::Condition | K::Semaphore | K::Futex);
    let next = rows.last().filter(|row| for_others(row)).and_then(|&row| next_alike(source, timelines, task, row));
    next.is_some_and(|next| waits[next as usize].waker.is_some_and(|waker| waker.task as usize != task))
}

/// What a thread waits for, and where.
fn place(source: &Source<'_>, row: u32) -> (WaitKind, Option<u32>) {
    (source.tables.waits[row as usize].kind, source.wait_stacks[row as usize])
}

/// The thread's wait after a single one, if it is of the same place.
fn next_alike(source: &Source<'_>, timelines: &Timelines, task: usize, last: u32) -> Option<u32> {
    let begin = |row: u32| source.tables.waits[row as usize].begin_ns;
    let rows = &timelines.single[task];
    let at = rows.partition_point(|&row| begin(row) < begin(last));
    let same = rows[at..].iter().take_while(|&&row| begin(row) == begin(last)).position(|&row| row == last)?;
    rows.get(at + same + 1).copied().filter(|&next| place(source, next) == place(source, last))
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

    /// Whether the thread ended after the run, for which another one had just begun to wait; or who made it ended right after,
    /// and had not had to wait any more.
    fn joined(&self, run: &Run, task: usize, source: &Source<'_>) -> bool {
        let tasks = &source.tables.tasks;
        let end = tasks[task].end_ns;
        let parent = || tasks[task].parent.and_then(|parent| tasks.get(parent as usize));
        let ended = end - run.end_ns <= run.mean() + SKEW;
        ended
            && match self.joins.get(&(task as u32)) {
                // Who tells it to end may do so some time before waiting for that.
                Some(&at) => at <= end + SKEW && run.end_ns - at <= run.seen_within(),
                // To end takes a while, too.
                None => parent().is_some_and(|parent| {
                    let within = run.seen_within().max((parent.end_ns - parent.start_ns) / 1_000);
                    (0..=within).contains(&(parent.end_ns - end))
                }),
            }
    }
}
