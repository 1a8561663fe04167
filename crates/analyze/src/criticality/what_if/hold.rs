//! When each thread held a mutex. A recording has the acquisitions that had to wait, and releases that ended a wait. The others
//! follow from what threads do between: a place that waits (a sleep, a disk) again and again between a contended acquisition and
//! its release, and never between a release and the next wait for the mutex, is under it; where a thread is seen there without
//! having waited for the mutex, it had found it free. With all of them a replay has the mutex itself: who comes first gets it.

use rustc_hash::FxHashMap;
use transect_profile_model::WaitKind;

use super::super::Source;
use super::super::call_path::PathId;
use super::lock::LockKey;
use super::timeline::{SKEW, Timelines};

/// Mutexes looked at: those waited for longest.
const MUTEXES: usize = 16;
/// Waits of a place under a mutex from which it counts, and how many of them may contradict: one in so many.
const LEAST: u32 = 3;
const CONTRADICTING: u32 = 20;
/// Who waits again so soon after it was woken had not got it, ns.
const AGAIN: i64 = 100_000;

/// A time in which a thread held a mutex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub task: u32,
    /// When it came for it.
    pub want_ns: i64,
    pub begin_ns: i64,
    pub end_ns: i64,
}

/// The mutexes whose holds are known, each with these in order of time.
#[derive(Debug, Default)]
pub(super) struct Holds(pub Vec<(LockKey, Vec<Hold>)>);

impl Holds {
    /// The place of a lock.
    pub fn find(&self, key: Option<LockKey>) -> Option<usize> {
        let key = key?;
        self.0.iter().position(|(lock, _)| *lock == key)
    }

    pub fn of(&self, key: LockKey) -> Option<&[Hold]> {
        self.find(Some(key)).map(|place| &self.0[place].1[..])
    }
}

/// What a thread does that says whether it has a mutex; in the order of events at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Ends a wait of another thread for it.
    Gives,
    /// Has waited for it.
    Gets,
    /// Waits for a condition: that gives a mutex back.
    Leaves,
    /// Waits for something outside of the program, until then, at that path.
    Rests(i64, PathId),
    /// Begins to wait for it.
    Wants,
}

/// One thread's events with one mutex, in order of time.
type Events = Vec<(i64, Event)>;

/// The holds of mutexes whose places are known.
pub(super) fn holds(source: &Source<'_>, timelines: &Timelines, keys: &[Option<LockKey>]) -> Holds {
    let mut mutexes: FxHashMap<LockKey, (i64, Vec<u32>)> = FxHashMap::default();
    for (row, (wait, key)) in source.tables.waits.iter().zip(keys).enumerate() {
        if let Some(key) = key.filter(|key| key.0 == WaitKind::Mutex && !wait.is_sum()) {
            let (ns, rows) = mutexes.entry(key).or_default();
            *ns += wait.ns;
            rows.push(row as u32);
        }
    }
    let mut mutexes: Vec<(LockKey, (i64, Vec<u32>))> = mutexes.into_iter().collect();
    mutexes.sort_by_key(|&(key, (ns, _))| (std::cmp::Reverse(ns), key));
    mutexes.truncate(MUTEXES);
    let events: Vec<Vec<(u32, Events)>> =
        mutexes.iter().map(|(_, (_, rows))| events(source, timelines, rows)).collect();
    let under: Vec<Vec<PathId>> = events.iter().map(|threads| under(threads)).collect();
    let found = mutexes.iter().zip(&events).enumerate().filter_map(|(number, ((key, _), threads))| {
        // A place that is under several mutexes may be under others than these.
        let others = || under.iter().enumerate().filter(|&(other, _)| other != number).flat_map(|(_, paths)| paths);
        let mine: Vec<PathId> =
            under[number].iter().copied().filter(|path| !others().any(|other| other == path)).collect();
        let spans = threads.iter().flat_map(|(task, events)| spans(*task, events, |path| mine.contains(&path)));
        (!mine.is_empty()).then(|| one_after_the_other(spans.collect())).flatten().map(|holds| (*key, holds))
    });
    Holds(found.collect())
}

/// The events of each thread that waits for a mutex (in `rows`) or ends such a wait.
fn events(source: &Source<'_>, timelines: &Timelines, rows: &[u32]) -> Vec<(u32, Events)> {
    let mut threads: FxHashMap<u32, Events> = FxHashMap::default();
    let wait = |row: u32| &source.tables.waits[row as usize];
    for wait in rows.iter().map(|&row| wait(row)) {
        let own = threads.entry(wait.task).or_default();
        own.extend([(wait.begin_ns, Event::Wants), (wait.end_ns, Event::Gets)]);
        if let Some(giver) = wait.waker.or(wait.holder).filter(|giver| giver.task != wait.task) {
            threads.entry(giver.task).or_default().push((wait.end_ns, Event::Gives));
        }
    }
    for (&task, events) in &mut threads {
        let others = timelines.single.get(task as usize).into_iter().flatten().filter_map(|&row| {
            let wait = wait(row);
            match wait.kind {
                WaitKind::Condition => return Some((wait.begin_ns, Event::Leaves)),
                WaitKind::RunQueue => return None,
                _ if wait.waker.is_some() || wait.holder.is_some() => return None,
                _ => {}
            }
            let path = source.paths.stack(source.wait_stacks[row as usize]?)?.path;
            Some((wait.begin_ns, Event::Rests(wait.end_ns, path)))
        });
        events.extend(others);
        events.sort_unstable();
    }
    let mut threads: Vec<(u32, Events)> = threads.into_iter().collect();
    threads.sort_unstable_by_key(|(task, _)| *task);
    threads
}

/// Paths that wait under the mutex only.
fn under(threads: &[(u32, Events)]) -> Vec<PathId> {
    let mut seen: FxHashMap<PathId, [u32; 2]> = FxHashMap::default();
    for (_, events) in threads {
        let mut rests: Vec<PathId> = Vec::new();
        let mut before = None;
        for &(_, event) in events {
            if let Event::Rests(_, path) = event {
                rests.push(path);
                continue;
            }
            let place = match (before, event) {
                (Some(Event::Gets), Event::Gives | Event::Leaves) => Some(0),
                (Some(Event::Gives | Event::Leaves), Event::Wants) => Some(1),
                _ => None,
            };
            for path in rests.drain(..) {
                if let Some(place) = place {
                    seen.entry(path).or_default()[place] += 1;
                }
            }
            before = Some(event);
        }
    }
    let is_under = |&(_, [with, without]): &(PathId, [u32; 2])| with >= LEAST && without * CONTRADICTING <= with;
    seen.into_iter().filter(is_under).map(|(path, _)| path).collect()
}

/// The times in which a thread had the mutex. One of no length is of a thread that gave it back unseen.
fn spans(task: u32, events: &[(i64, Event)], is_under: impl Fn(PathId) -> bool) -> Vec<Hold> {
    let hold = |want_ns, begin_ns, end_ns| Hold { task, want_ns, begin_ns, end_ns };
    let mut found = Vec::new();
    let mut open: Option<Hold> = None;
    let mut wanted = None;
    for &(at, event) in events {
        match (event, open) {
            (Event::Wants, Some(Hold { want_ns, begin_ns, end_ns, .. }))
                if want_ns < begin_ns && end_ns == begin_ns && at - begin_ns < AGAIN =>
            {
                // Another one had been faster.
                (open, wanted) = (None, Some(want_ns));
            }
            (Event::Wants, _) => {
                found.extend(open.take());
                wanted = Some(at);
            }
            (Event::Gets, _) => {
                found.extend(open.take());
                open = Some(hold(wanted.take().unwrap_or(at), at, at));
            }
            (Event::Gives, None) => found.push(hold(at, at, at)),
            (Event::Gives | Event::Leaves, Some(held)) => {
                found.push(Hold { end_ns: at, ..held });
                open = None;
            }
            (Event::Rests(until, path), _) if is_under(path) => {
                open = Some(Hold { end_ns: until, ..open.unwrap_or(hold(at, at, until)) });
            }
            // It must have given the mutex back before.
            (Event::Rests(..), _) => found.extend(open.take()),
            (Event::Leaves, None) => {}
        }
    }
    found.extend(open);
    found
}

/// The holds in order of time; `None` if too many are at the same time, so that they can't be what they seem.
fn one_after_the_other(mut holds: Vec<Hold>) -> Option<Vec<Hold>> {
    holds.sort_unstable_by_key(|hold| (hold.begin_ns, hold.end_ns));
    let overlap = |pair: &&[Hold]| pair[0].end_ns > pair[1].begin_ns + SKEW;
    let overlapping = holds.windows(2).filter(overlap).count();
    (overlapping * CONTRADICTING as usize <= holds.len()).then_some(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: PathId = 1;
    const OUTSIDE: PathId = 2;

    /// Contended thrice, then once found free and given to a waiter, then found free with nobody waiting.
    fn example() -> Events {
        let mut events = Vec::new();
        for round in 0..3 {
            let at = round * 100;
            events.extend([(at, Event::Wants), (at + 10, Event::Gets), (at + 11, Event::Rests(at + 30, HOLD))]);
            events.extend([(at + 31, Event::Gives), (at + 32, Event::Rests(at + 90, OUTSIDE))]);
        }
        events.extend([(300, Event::Rests(320, HOLD)), (321, Event::Gives), (322, Event::Rests(380, OUTSIDE))]);
        events.extend([(390, Event::Rests(400, HOLD)), (401, Event::Rests(450, OUTSIDE))]);
        events
    }

    #[test]
    fn who_waits_at_a_place_under_a_mutex_has_it() {
        let events = example();
        assert_eq!(under(&[(0, events.clone())]), [HOLD]);
        let spans = spans(0, &events, |path| path == HOLD);
        let times: Vec<_> = spans.iter().map(|hold| (hold.want_ns, hold.begin_ns, hold.end_ns)).collect();
        assert_eq!(times, [(0, 10, 31), (100, 110, 131), (200, 210, 231), (300, 300, 321), (390, 390, 400)]);
    }

    #[test]
    fn a_place_that_also_waits_without_the_mutex_says_nothing() {
        let mut events = example();
        events.extend([(455, Event::Leaves), (470, Event::Rests(480, HOLD)), (490, Event::Wants)]);
        assert_eq!(under(&[(0, events)]), [] as [PathId; 0]);
    }

    #[test]
    fn a_wake_up_for_nothing_is_no_hold() {
        let events = [(0, Event::Wants), (10, Event::Gets), (12, Event::Wants), (20, Event::Gets), (30, Event::Gives)];
        assert_eq!(spans(0, &events, |_| false), [Hold { task: 0, want_ns: 0, begin_ns: 20, end_ns: 30 }]);
    }

    #[test]
    fn two_threads_that_hold_it_at_once_contradict() {
        let hold = |task, begin_ns, end_ns| Hold { task, want_ns: begin_ns, begin_ns, end_ns };
        let holds = vec![hold(0, 0, 100_000), hold(1, 50_000, 150_000)];
        assert_eq!(one_after_the_other(holds), None);
        let holds = vec![hold(1, 90_000, 150_000), hold(0, 0, 100_000)];
        assert_eq!(one_after_the_other(holds).map(|holds| holds[0].task), Some(0));
    }
}
