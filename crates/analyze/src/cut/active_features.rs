//! Which features were active in a stretch: by the times of regions, raked to the exact time of each set in each thread.

use rustc_hash::FxHashMap;
use transect_profile_model::{Profile, TaskId, ThreadId};

use super::rake::rake;
use super::stretch::{State, Stretch};
use crate::criticality::apportion;
use crate::feature::ActiveSets;

/// From which instant on a set was active, per thread.
pub(super) struct FeatureTimes {
    changes: FxHashMap<TaskId, Vec<(i64, u32)>>,
    /// Exact time of each set, per thread.
    known: FxHashMap<TaskId, FxHashMap<u32, i64>>,
}

impl FeatureTimes {
    pub fn new(profile: &Profile, active: &ActiveSets) -> Self {
        let tables = &profile.feature;
        let tasks = tasks_of_threads(profile);
        let mut slices: FxHashMap<TaskId, Vec<(i64, i64, u32)>> = FxHashMap::default();
        for slice in &tables.slices {
            let thread = tables.nodes.get(slice.node as usize).map(|node| node.thread);
            let Some(&task) = thread.and_then(|thread| tasks.get(&thread)) else { continue };
            let set = active.of_node.get(slice.node as usize).copied().unwrap_or(0);
            slices.entry(task).or_default().push((slice.start_ns, slice.start_ns + slice.duration_ns.max(0), set));
        }
        let mut known: FxHashMap<TaskId, FxHashMap<u32, i64>> = FxHashMap::default();
        for (node, &set) in tables.nodes.iter().zip(&active.of_node) {
            let Some(task) = tasks.get(&node.thread).filter(|task| slices.contains_key(task)) else { continue };
            *known.entry(*task).or_default().entry(set).or_default() += node.exclusive_ns;
        }
        let changes = slices.into_iter().map(|(task, slices)| (task, changes(slices))).collect();
        Self { changes, known }
    }

    /// Divides stretches where the active set changes, and scales what samples estimate so that each thread's sets have the
    /// times that were measured (`calibrated`: of weights that are lifetime).
    pub fn apply(&self, stretches: Vec<Stretch>, calibrated: bool) -> Vec<Stretch> {
        let mut by_task: FxHashMap<TaskId, Vec<Stretch>> = FxHashMap::default();
        let mut done = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match self.changes.get(&stretch.task) {
                Some(changes) => divide(stretch, changes, by_task.entry(stretch.task).or_default()),
                None => done.push(stretch),
            }
        }
        let mut tasks: Vec<TaskId> = by_task.keys().copied().collect();
        tasks.sort_unstable();
        for task in tasks {
            let mut stretches = by_task.remove(&task).unwrap_or_default();
            if let Some(known) = self.known.get(&task).filter(|_| calibrated) {
                calibrate(&mut stretches, known);
            }
            done.extend(stretches);
        }
        done
    }
}

/// The scheduler's row of each thread with regions.
fn tasks_of_threads(profile: &Profile) -> FxHashMap<ThreadId, TaskId> {
    let mut of: FxHashMap<(u32, i32), Vec<TaskId>> = FxHashMap::default();
    for (task, row) in profile.sched.tasks.iter().enumerate() {
        of.entry((row.process, row.tid)).or_default().push(task as TaskId);
    }
    let mut tasks = FxHashMap::default();
    for (id, thread) in profile.threads.iter().enumerate() {
        let Some(found) = of.get(&(thread.process, thread.tid)) else { continue };
        // A number may be given again: the one that lived then.
        let start = |task: &&TaskId| (profile.sched.tasks[**task as usize].start_ns - thread.start_ns).abs();
        tasks.extend(found.iter().min_by_key(start).map(|&task| (id as ThreadId, task)));
    }
    tasks
}

/// Instants at which the innermost of nested slices changes, with the set from then on.
fn changes(mut slices: Vec<(i64, i64, u32)>) -> Vec<(i64, u32)> {
    slices.sort_by_key(|&(start, end, _)| (start, std::cmp::Reverse(end)));
    let mut changes: Vec<(i64, u32)> = Vec::with_capacity(2 * slices.len());
    let mut open: Vec<(i64, u32)> = Vec::new();
    let mut change = |time: i64, set: u32| match changes.last_mut() {
        Some(last) if last.0 == time => last.1 = set,
        Some(last) if last.1 == set => {}
        _ => changes.push((time, set)),
    };
    for (start, end, set) in slices {
        while let Some(&(ended, _)) = open.last().filter(|(ended, _)| *ended <= start) {
            open.pop();
            change(ended, open.last().map_or(0, |(_, set)| *set));
        }
        open.push((end, set));
        change(start, set);
    }
    while let Some((ended, _)) = open.pop() {
        change(ended, open.last().map_or(0, |(_, set)| *set));
    }
    changes
}

fn divide(stretch: Stretch, changes: &[(i64, u32)], parts: &mut Vec<Stretch>) {
    let mut next = changes.partition_point(|(time, _)| *time <= stretch.begin_ns);
    let mut begin_ns = stretch.begin_ns;
    loop {
        let features = next.checked_sub(1).map_or(0, |at| changes[at].1);
        let end_ns = changes.get(next).map_or(i64::MAX, |(time, _)| *time);
        let last = end_ns >= stretch.end_ns;
        let end_ns = end_ns.min(stretch.end_ns);
        let before = |time: i64, of: i64| if last && time == end_ns { of } else { stretch.before(time, of) };
        let weight = before(end_ns, stretch.weight) - stretch.before(begin_ns, stretch.weight);
        let samples = before(end_ns, stretch.samples) - stretch.before(begin_ns, stretch.samples);
        if weight != 0 || samples != 0 {
            parts.push(Stretch { features, begin_ns, end_ns, weight, samples, ..stretch });
        }
        if last {
            return;
        }
        begin_ns = end_ns;
        next += 1;
    }
}

/// Scales a thread's estimated stretches: rows are its states, columns the sets.
fn calibrate(stretches: &mut Vec<Stretch>, known: &FxHashMap<u32, i64>) {
    const ROWS: [State; 2] = [State::Running, State::Runnable];
    let Some(first) = stretches.first().copied() else { return };
    let mut sets: Vec<u32> = known.keys().copied().chain(stretches.iter().map(|stretch| stretch.features)).collect();
    sets.sort_unstable();
    sets.dedup();
    let column = |set: u32| sets.binary_search(&set).unwrap_or(0);
    let row = |state: State| ROWS.iter().position(|row| *row == state);
    let mut cells = vec![vec![0.0; sets.len()]; ROWS.len()];
    let mut active: Vec<f64> = sets.iter().map(|set| known.get(set).copied().unwrap_or(0) as f64).collect();
    for stretch in stretches.iter() {
        match row(stretch.state) {
            Some(row) => cells[row][column(stretch.features)] += stretch.weight as f64,
            None => active[column(stretch.features)] -= stretch.weight as f64,
        }
    }
    let totals: Vec<f64> = cells.iter().map(|row| row.iter().sum()).collect();
    let whole: f64 = totals.iter().sum();
    active.iter_mut().for_each(|ns| *ns = ns.max(0.0));
    let sum: f64 = active.iter().sum();
    if whole <= 0.0 || sum <= 0.0 {
        return;
    }
    active.iter_mut().for_each(|ns| *ns *= whole / sum);
    // Sets that no sample met have their time without a stack.
    for (at, &set) in sets.iter().enumerate() {
        if active[at] >= 1.0 && cells.iter().all(|row| row[at] == 0.0) {
            for (row, state) in ROWS.into_iter().enumerate() {
                cells[row][at] = active[at] * totals[row] / whole;
                if cells[row][at] >= 1.0 {
                    let weight = cells[row][at] as i64;
                    let rest = Stretch { stack: None, wait: None, spin: false, samples: 0, ..first };
                    let per_sample = weight as f64;
                    stretches.push(Stretch { state, features: set, weight, per_sample, estimated: true, ..rest });
                }
            }
        }
    }
    rake(&mut cells, &totals, &active);
    for (row, state) in ROWS.into_iter().enumerate() {
        let of_cell: Vec<i64> = cells[row].iter().map(|ns| (ns * 16.0) as i64).collect();
        let of_cell = apportion(totals[row] as i64, &of_cell);
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); sets.len()];
        for (number, stretch) in stretches.iter().enumerate().filter(|(_, stretch)| stretch.state == state) {
            rows[column(stretch.features)].push(number);
        }
        for (rows, total) in rows.into_iter().zip(of_cell) {
            let weights: Vec<i64> = rows.iter().map(|&row| stretches[row].weight).collect();
            for (row, weight) in rows.into_iter().zip(apportion(total, &weights)) {
                let stretch = &mut stretches[row];
                stretch.per_sample *= weight as f64 / stretch.weight.max(1) as f64;
                stretch.weight = weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_slices_become_changes() {
        let slices = vec![(10, 50, 1), (20, 30, 2), (30, 40, 3), (60, 70, 1)];
        assert_eq!(changes(slices), [(10, 1), (20, 2), (30, 3), (40, 1), (50, 0), (60, 1), (70, 0)]);
    }
}
