//! Which threads are looked at together. A thread that lives for one request has hardly a sample, or none: what such threads do is
//! known from all of their group (partial pooling).

use rustc_hash::FxHashMap;
use transect_profile_model::{Origin, SchedTables};

/// Samples from which a thread tells by itself what it does.
const ENOUGH: i64 = 30;

/// By thread: the number that stands for it, or for those of its group that have few samples.
#[derive(Debug, Default)]
pub(super) struct Pooling(Vec<u32>);

impl Pooling {
    pub fn new(tables: &SchedTables) -> Self {
        let mut samples = vec![0; tables.tasks.len()];
        for sample in tables.samples.iter().filter(|sample| sample.origin == Origin::Sample) {
            if let Some(sum) = samples.get_mut(sample.task as usize) {
                *sum += sample.samples;
            }
        }
        let few = |task: usize| samples[task] < ENOUGH;
        let mut groups: FxHashMap<(u32, &str), u32> = FxHashMap::default();
        for (id, task) in tables.tasks.iter().enumerate().filter(|&(id, _)| few(id)) {
            groups.entry((task.process, &task.group)).or_insert(id as u32);
        }
        let pool = |(id, task): (usize, &transect_profile_model::Task)| {
            if few(id) { groups[&(task.process, &*task.group)] } else { id as u32 }
        };
        Self(tables.tasks.iter().enumerate().map(pool).collect())
    }

    /// The first thread of those that are looked at with this one.
    pub fn of(&self, task: u32) -> u32 {
        self.0.get(task as usize).copied().unwrap_or(task)
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{SchedSample, Task};

    use super::*;

    #[test]
    fn threads_with_few_samples_are_looked_at_by_group() {
        let task = |group: &str| Task { group: group.to_owned(), ..Task::default() };
        let tasks = vec![task("pool"), task("serve"), task("serve"), task("serve"), task("main")];
        let sample = |task, samples| SchedSample {
            task,
            stack: 0,
            n: 1,
            origin: Origin::Sample,
            samples,
            criticality_ns: 0,
            active_ns: 1,
            spin: false,
        };
        let samples = vec![sample(0, 29), sample(2, 29), sample(2, 1), sample(3, 2)];
        let pooling = Pooling::new(&SchedTables { tasks, samples, ..SchedTables::default() });
        assert_eq!((0..5).map(|task| pooling.of(task)).collect::<Vec<_>>(), [0, 1, 2, 1, 4]);
    }
}
