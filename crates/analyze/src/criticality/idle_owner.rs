//! Whose wait idle time belongs to: the run ends when its first thread does, so what that thread waits for is what all wait
//! for. A helper that sleeps beside ends an idle moment whenever it looks around; nobody depends on that.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, SchedWait, WaitKind};

/// A wait that stands for many is looked at in so many instants.
const INSTANTS: i64 = 16;
/// Threads that wait one for the other, from the first on.
const LONGEST_CHAIN: usize = 8;

/// Rows of waits whose idle time is another wait's, and which. `estimate`: who wakes whom was not seen.
pub(super) fn others(tables: &SchedTables, estimate: bool) -> FxHashMap<usize, usize> {
    let Some(first) = (0..).zip(&tables.tasks).min_by_key(|(_, task)| task.start_ns).map(|(id, _)| id) else {
        return FxHashMap::default();
    };
    let mut chains = Chains { tables, estimate, by_task: FxHashMap::default() };
    let ended_by_nobody = |wait: &SchedWait| wait.idle_ns > 0 && wait.waker.is_none() && wait.task != first;
    let rows = tables.waits.iter().enumerate().filter(|(_, wait)| ended_by_nobody(wait));
    rows.filter_map(|(row, wait)| Some((row, chains.owner(first, wait)?))).collect()
}

struct Chains<'a> {
    tables: &'a SchedTables,
    estimate: bool,
    /// Rows of a thread's waits, in order of their begin.
    by_task: FxHashMap<u32, Vec<usize>>,
}

impl Chains<'_> {
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
                _ => return Some(row).filter(|_| self.ends_by_itself(wait.kind)),
            }
        }
        None
    }

    /// No thread of the program's own ends it: a timer, a device or another program does.
    fn ends_by_itself(&self, kind: WaitKind) -> bool {
        match kind {
            WaitKind::Join | WaitKind::Child | WaitKind::Mutex | WaitKind::Rwlock => false,
            WaitKind::Sleep | WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync => true,
            _ => !self.estimate,
        }
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

    use super::*;

    fn wait(task: u32, kind: WaitKind, begin_ns: i64, end_ns: i64, waker: Option<u32>) -> SchedWait {
        SchedWait {
            task,
            kind,
            object: "".into(),
            stack: None,
            holder: None,
            waker: waker.map(|task| OtherThread { task, stack: None }),
            count: 1,
            begin_ns,
            end_ns,
            ns: end_ns - begin_ns,
            idle_ns: 1,
            holder_gain_ns: 0,
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
