//! Whose wait idle time belongs to: the run ends when its first thread does, so what that thread waits for is what all wait
//! for. A helper that sleeps beside ends an idle moment whenever it looks around; nobody depends on that.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, SchedWait, TaskId, WaitKind};

/// A wait that stands for many is looked at in so many instants.
const INSTANTS: i64 = 16;
/// One part in so many of the time may pass between two waits for the same.
const BETWEEN: i64 = 10;
/// Times in a row that a wait goes on, at most.
const LOOKED_AT: usize = 64;
/// Threads that wait one for the other, from the first on.
const LONGEST_CHAIN: usize = 8;

/// Rows of waits whose idle time is another wait's, and which. `estimate`: who wakes whom was not seen.
pub(super) fn others(tables: &SchedTables, estimate: bool) -> FxHashMap<usize, usize> {
    let Some(first) = (0..).zip(&tables.tasks).min_by_key(|(_, task)| task.start_ns).map(|(id, _)| id) else {
        return FxHashMap::default();
    };
    let mut chains = Chains { tables, estimate, by_task: FxHashMap::default() };
    let ended_by_nobody = |wait: &SchedWait| wait.idle_ns > 0 && wait.waker.is_none();
    let rows = tables.waits.iter().enumerate().filter(|(_, wait)| ended_by_nobody(wait));
    let owner = |(row, wait): (usize, &SchedWait)| {
        let owner = chains.later_owner(row);
        Some((row, owner.or_else(|| if wait.task == first { None } else { chains.owner(first, wait) })?))
    };
    rows.filter_map(owner).collect()
}

/// No thread of the program's own ends a wait of that kind that nobody was seen to end: a timer, a device or another program does.
pub(super) fn ends_by_itself(kind: WaitKind, estimate: bool) -> bool {
    match kind {
        WaitKind::Join | WaitKind::Child | WaitKind::Mutex | WaitKind::Rwlock => false,
        WaitKind::Sleep | WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync => true,
        _ => !estimate,
    }
}

struct Chains<'a> {
    tables: &'a SchedTables,
    estimate: bool,
    /// Rows of a thread's waits, in order of their begin.
    by_task: FxHashMap<u32, Vec<usize>>,
}

impl Chains<'_> {
    /// Of a wait that goes on after its time has run out: the wait that the thread depends on which ends it in the end.
    fn later_owner(&mut self, row: usize) -> Option<usize> {
        let wait = &self.tables.waits[row];
        if self.during(wait.task, wait.begin_ns)? != row {
            return None;
        }
        let other = self.ended_later(wait.task, row)?;
        self.at(other, wait.task, wait.end_ns.saturating_sub(1))
    }

    /// The wait that the first thread depends on while this one lasts, if it is another thread's.
    fn owner(&mut self, first: u32, wait: &SchedWait) -> Option<usize> {
        if !wait.is_sum() {
            return self.at(first, wait.task, wait.end_ns.saturating_sub(1));
        }
        let (begin, length) = (i128::from(wait.begin_ns), i128::from(wait.end_ns) - i128::from(wait.begin_ns));
        let within = |instant: i64| begin + length * i128::from(2 * instant + 1) / i128::from(2 * INSTANTS);
        let mut found: FxHashMap<usize, i64> = FxHashMap::default();
        for instant in 0..INSTANTS {
            if let Some(row) = self.at(first, wait.task, within(instant) as i64) {
                *found.entry(row).or_default() += 1;
            }
        }
        let others: i64 = found.values().sum();
        let most = found.into_iter().max_by_key(|&(row, times)| (times, row));
        most.filter(|_| others * 2 > INSTANTS).map(|(row, _)| row)
    }

    /// What the first thread depends on at that time, unless it is a wait of `but`, or unknown.
    fn at(&mut self, first: u32, but: u32, time: i64) -> Option<usize> {
        let mut task = first;
        for _ in 0..LONGEST_CHAIN {
            if task == but {
                return None;
            }
            let row = self.during(task, time)?;
            let wait = &self.tables.waits[row];
            match &wait.waker {
                Some(waker) if waker.task != task => task = waker.task,
                _ => match self.ended_later(task, row) {
                    Some(other) => task = other,
                    None => return Some(row).filter(|_| ends_by_itself(wait.kind, self.estimate)),
                },
            }
        }
        None
    }

    /// Who ends what a thread waits for again right after its time has run out: that is what it depends on, and not the time.
    fn ended_later(&self, task: TaskId, row: usize) -> Option<TaskId> {
        use WaitKind as K;
        let waits = &self.tables.waits;
        let first = &waits[row];
        let rows = self
            .by_task
            .get(&task)
            .filter(|_| matches!(first.kind, K::Poll | K::Condition | K::Semaphore | K::Futex | K::Socket))?;
        let at = rows.partition_point(|&other| waits[other].begin_ns <= first.begin_ns);
        let mut end = first.end_ns;
        for next in rows[at..].iter().take(LOOKED_AT).map(|&row| &waits[row]) {
            // Not each has a stack.
            let place = first.stack.is_none() || next.stack.is_none() || first.stack == next.stack;
            let again = next.kind == first.kind && next.object == first.object && place;
            if !again || next.begin_ns - end > (next.end_ns - first.begin_ns) / BETWEEN {
                return None;
            }
            if let Some(waker) = next.waker.as_ref().filter(|waker| waker.task != task) {
                return Some(waker.task);
            }
            end = next.end_ns;
        }
        None
    }

    /// The thread's wait at that time.
    fn during(&mut self, task: u32, time: i64) -> Option<usize> {
        let waits = &self.tables.waits;
        let rows = self.by_task.entry(task).or_insert_with(|| {
            let of_task = |(_, wait): &(usize, &SchedWait)| wait.task == task && !wait.is_sum();
            let mut rows: Vec<usize> = waits.iter().enumerate().filter(of_task).map(|(row, _)| row).collect();
            rows.sort_by_key(|&row| waits[row].begin_ns);
            rows
        });
        let after = rows.partition_point(|&row| waits[row].begin_ns <= time);
        rows[..after].last().copied().filter(|&row| waits[row].end_ns > time)
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{OtherThread, Task};

    use super::super::testing::sleep;
    use super::*;

    fn wait(task: u32, kind: WaitKind, begin_ns: i64, end_ns: i64, waker: Option<u32>) -> SchedWait {
        SchedWait {
            kind,
            waker: waker.map(|task| OtherThread { task, stack: None }),
            begin_ns,
            end_ns,
            ns: end_ns - begin_ns,
            idle_ns: 1,
            ..sleep(task)
        }
    }

    fn tables(waits: Vec<SchedWait>) -> SchedTables {
        let task = |start_ns: i64| Task {
            process: 0,
            tid: start_ns as i32,
            name: String::new(),
            group: String::new(),
            parent: None,
            start_ns,
            end_ns: 1000,
            criticality_ns: 0,
            running_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
            unattributed_ns: 0,
            ..Task::default()
        };
        SchedTables { tasks: (0..3).map(task).collect(), waits, ..SchedTables::default() }
    }

    fn found(waits: &[SchedWait], estimate: bool) -> Vec<(usize, usize)> {
        let mut found: Vec<_> = others(&tables(waits.to_vec()), estimate).into_iter().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_helper_that_sleeps_beside_ends_nothing_that_anybody_waits_for() {
        // The first thread waits for a time-out, thread 1 sleeps again and again.
        let naps = (0..4).map(|nap| wait(1, WaitKind::Sleep, nap * 10, nap * 10 + 9, None));
        let mut waits: Vec<SchedWait> = naps.collect();
        waits.push(wait(0, WaitKind::Condition, 0, 35, None));
        assert_eq!(found(&waits, false), [(0, 4), (1, 4), (2, 4)], "the last one ends after it");
        // That it was no thread that ended it is not known without the scheduler's events.
        assert_eq!(found(&waits, true), []);
        // Many naps in one row.
        let all = SchedWait { count: 4, ..wait(1, WaitKind::Sleep, 0, 40, None) };
        assert_eq!(found(&[all, waits[4].clone()], false), [(0, 1)]);
    }

    /// A client looks at the clock now and then while it waits for the answer of a server that sleeps.
    #[test]
    fn a_wait_that_goes_on_after_its_time_depends_on_who_ends_it_in_the_end() {
        let nap = wait(1, WaitKind::Sleep, 0, 800, None);
        let look = |begin, end, waker| wait(0, WaitKind::Poll, begin, end, waker);
        let waits = vec![nap, look(5, 205, None), look(206, 1006, Some(1))];
        assert_eq!(found(&waits[..1], false), []);
        assert_eq!(found(&waits, false), [(1, 0)], "what it looks at the clock for is the nap");
        // The same where another thread waits for the client.
        let all = [
            wait(2, WaitKind::Sleep, 0, 800, None),
            wait(1, WaitKind::Poll, 5, 205, None),
            wait(1, WaitKind::Poll, 206, 806, Some(2)),
            wait(0, WaitKind::Child, 1, 900, Some(1)),
        ];
        assert_eq!(found(&all, false), [(1, 0)]);
        // It gives up, and waits for something else.
        let other = wait(0, WaitKind::Sleep, 906, 1006, Some(1));
        assert_eq!(found(&[wait(1, WaitKind::Sleep, 0, 200, None), look(5, 905, None), other], false), [(0, 1)]);
    }

    #[test]
    fn who_ends_the_first_threads_wait_is_asked_what_it_waits_for_itself() {
        let first = wait(0, WaitKind::Condition, 0, 100, Some(2));
        let nap = wait(1, WaitKind::Sleep, 40, 50, None);
        let disk = wait(2, WaitKind::FileSync, 10, 90, None);
        assert_eq!(found(&[first.clone(), nap.clone(), disk], false), [(1, 2)]);
        // It is the sleeper itself, or nobody knows.
        let sleeper = wait(0, WaitKind::Condition, 0, 100, Some(1));
        assert_eq!(found(&[sleeper, nap.clone()], false), []);
        assert_eq!(found(&[wait(0, WaitKind::Join, 0, 100, None), nap], false), []);
    }
}
