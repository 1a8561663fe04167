//! How much of a wait others worked beside: what of it is not time in which every thread waited.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, SchedWait};

/// Times in which no thread was active. Of an application, or of all where they count together.
pub(super) struct Idle {
    by_process: FxHashMap<u32, Stretches>,
    per_process: bool,
}

/// Idle time up to each instant at which its part of the time changes, ns: what lies between two is linear.
#[derive(Default)]
struct Stretches {
    until: Vec<(i64, f64)>,
}

impl Idle {
    pub fn new(tables: &SchedTables, per_process: bool) -> Self {
        let mut changes: FxHashMap<u32, Vec<(i64, f64)>> = FxHashMap::default();
        for wait in tables.waits.iter().filter(|wait| wait.idle_ns > 0 && wait.end_ns > wait.begin_ns) {
            // One wait ends the idle time that it is charged with; where in a sum it lies is not known.
            let begin = if wait.is_sum() { wait.begin_ns } else { wait.end_ns.saturating_sub(wait.idle_ns) };
            let rate = wait.idle_ns as f64 / (wait.end_ns.saturating_sub(begin)).max(1) as f64;
            let of = changes.entry(process(tables, wait, per_process)).or_default();
            of.extend([(begin, rate), (wait.end_ns, -rate)]);
        }
        let by_process = changes.into_iter().map(|(process, changes)| (process, Stretches::new(changes))).collect();
        Self { by_process, per_process }
    }

    /// Time of the wait in which another thread was active, ns.
    pub fn beside(&self, tables: &SchedTables, wait: &SchedWait) -> i64 {
        let idle = self.by_process.get(&process(tables, wait, self.per_process));
        let length = wait.end_ns.saturating_sub(wait.begin_ns).max(1) as f64;
        let idle = idle.map_or(0.0, |idle| (idle.at(wait.end_ns) - idle.at(wait.begin_ns)).clamp(0.0, length));
        let beside = (wait.ns as f64 * (1.0 - idle / length)).round() as i64;
        // Which part of the time a sum's waits lie in is not known; what they are charged with is.
        beside.min((wait.ns - wait.idle_ns).max(0))
    }
}

fn process(tables: &SchedTables, wait: &SchedWait, apart: bool) -> u32 {
    let task = tables.tasks.get(wait.task as usize).filter(|_| apart);
    task.map_or(0, |task| task.process)
}

impl Stretches {
    fn new(mut changes: Vec<(i64, f64)>) -> Self {
        changes.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.total_cmp(&a.1)));
        let (mut sum, mut rate, mut last) = (0.0, 0.0_f64, i64::MIN);
        let mut until = Vec::with_capacity(changes.len());
        for (at, change) in changes {
            if last != i64::MIN {
                sum += rate.clamp(0.0, 1.0) * at.saturating_sub(last) as f64;
            }
            (last, rate) = (at, rate + change);
            until.push((at, sum));
        }
        Self { until }
    }

    fn at(&self, time: i64) -> f64 {
        let next = self.until.partition_point(|&(at, _)| at <= time);
        let Some(&(begin, before)) = next.checked_sub(1).map(|last| &self.until[last]) else { return 0.0 };
        let Some(&(end, after)) = self.until.get(next) else { return before };
        before + (after - before) * (time - begin) as f64 / (end - begin).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::sleep;
    use super::*;

    fn wait(begin_ns: i64, end_ns: i64, idle_ns: i64) -> SchedWait {
        SchedWait { begin_ns, end_ns, ns: end_ns - begin_ns, idle_ns, ..sleep(0) }
    }

    fn beside(waits: Vec<SchedWait>) -> Vec<i64> {
        let tables = SchedTables { waits, ..SchedTables::default() };
        let idle = Idle::new(&tables, false);
        tables.waits.iter().map(|wait| idle.beside(&tables, wait)).collect()
    }

    #[test]
    fn nobody_runs_where_waits_only_overlap() {
        // Each of two short ones ends the time since the last event, the long one the rest.
        assert_eq!(beside(vec![wait(0, 500, 490), wait(505, 1000, 490), wait(10, 1005, 0)]), [10, 5, 15]);
    }

    #[test]
    fn who_runs_beside_a_wait_counts() {
        assert_eq!(beside(vec![wait(0, 1000, 100), wait(2000, 2100, 0)]), [900, 100]);
        // Of many in one row only their sum is known.
        let many = SchedWait { count: 10, ns: 300, ..wait(0, 1000, 300) };
        assert_eq!(beside(vec![many]), [0]);
    }
}
