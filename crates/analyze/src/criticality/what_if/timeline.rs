//! When each thread waited.

use transect_profile_model::SchedTables;

/// A wake-up may seem to come so long after its waker blocked, or before it was awake: clocks are read one after the
/// other.
pub(super) const SKEW: i64 = 20_000;

/// Waits that are looked at for one that matters.
const LOOKED_AT: usize = 64;

/// Waits of each thread, in order of time.
pub(in crate::criticality) struct Timelines {
    /// Rows of single waits.
    pub single: Vec<Vec<u32>>,
    /// Rows of merged ones.
    pub merged: Vec<Vec<u32>>,
}

impl Timelines {
    pub fn new(tables: &SchedTables) -> Self {
        let tasks = tables.tasks.len();
        let mut timelines = Self { single: vec![Vec::new(); tasks], merged: vec![Vec::new(); tasks] };
        for (row, wait) in tables.waits.iter().enumerate().filter(|(_, wait)| wait.end_ns >= wait.begin_ns) {
            let rows = if wait.is_sum() { &mut timelines.merged } else { &mut timelines.single };
            if let Some(rows) = rows.get_mut(wait.task as usize) {
                rows.push(row as u32);
            }
        }
        for rows in &mut timelines.single {
            let begin = |row: &u32| tables.waits[*row as usize].begin_ns;
            if !rows.is_sorted_by_key(begin) {
                rows.sort_by_key(begin);
            }
            // A thread waits for one thing at a time.
            let mut end = i64::MIN;
            rows.retain(|&row| {
                let wait = &tables.waits[row as usize];
                let follows = wait.begin_ns >= end;
                end = if follows { wait.end_ns } else { end };
                follows
            });
        }
        timelines
    }

    /// The instant nearest to `at` at which the thread was active; `None` if that is too far.
    pub fn active(&self, tables: &SchedTables, task: u32, at: i64) -> Option<i64> {
        let row = tables.tasks.get(task as usize)?;
        if at < row.start_ns - SKEW || at > row.end_ns + SKEW {
            return None;
        }
        let at = at.clamp(row.start_ns, row.end_ns.max(row.start_ns));
        let waits = &self.single[task as usize];
        let before = waits.partition_point(|&row| tables.waits[row as usize].begin_ns < at);
        let around = before.checked_sub(1).map(|place| &tables.waits[waits[place] as usize]);
        match around.filter(|wait| wait.end_ns > at) {
            None => Some(at),
            Some(wait) if at - wait.begin_ns <= SKEW => Some(wait.begin_ns),
            Some(wait) if wait.end_ns - at <= SKEW => Some(wait.end_ns),
            Some(_) => None,
        }
    }

    /// The end of the thread's last single wait that `counts` and ends within the span; a few are looked at.
    pub fn last_end(
        &self,
        tables: &SchedTables,
        task: u32,
        (begin_ns, end_ns): (i64, i64),
        counts: impl Fn(u32) -> bool,
    ) -> Option<i64> {
        let rows = self.single.get(task as usize)?;
        let end = |row: &u32| tables.waits[*row as usize].end_ns;
        let until = rows.partition_point(|row| end(row) <= end_ns);
        let within = rows[..until].iter().rev().take(LOOKED_AT).take_while(|row| end(row) > begin_ns);
        within.copied().find(|&row| counts(row)).map(|row| end(&row))
    }

    /// How much of the time from `begin_ns` to `end_ns` the thread spent in single waits that `counts`, ns.
    pub fn waited(
        &self,
        tables: &SchedTables,
        task: u32,
        (begin_ns, end_ns): (i64, i64),
        counts: impl Fn(u32) -> bool,
    ) -> i64 {
        let Some(rows) = self.single.get(task as usize) else { return 0 };
        let wait = |row: &u32| &tables.waits[*row as usize];
        let from = rows.partition_point(|row| wait(row).end_ns <= begin_ns);
        let within = rows[from..].iter().take_while(|row| wait(row).begin_ns < end_ns).filter(|&&row| counts(row));
        within.map(|row| wait(row).end_ns.min(end_ns) - wait(row).begin_ns.max(begin_ns)).sum()
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Task, WaitKind};

    use super::*;

    /// Of waits that came too fast some are summed up; a sum of one has the begin and end of all.
    #[test]
    fn a_sum_of_one_wait_is_no_wait_from_begin_to_end() {
        let wait = |begin_ns, end_ns, ns| transect_profile_model::SchedWait {
            task: 0,
            kind: WaitKind::Condition,
            object: "".into(),
            stack: None,
            holder: None,
            waker: None,
            count: 1,
            begin_ns,
            end_ns,
            ns,
            idle_ns: 0,
            holder_gain_ns: 0,
        };
        let task = Task {
            process: 0,
            parent: None,
            tid: 1,
            name: String::new(),
            group: String::new(),
            start_ns: 0,
            end_ns: 1000,
            criticality_ns: 0,
            running_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
            unattributed_ns: 0,
            ..Task::default()
        };
        let waits = vec![wait(0, 900, 7), wait(100, 200, 100)];
        let timelines = Timelines::new(&SchedTables { tasks: vec![task], waits, ..SchedTables::default() });
        assert_eq!((&timelines.merged[0][..], &timelines.single[0][..]), (&[0][..], &[1][..]));
    }
}
