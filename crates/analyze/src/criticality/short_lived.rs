//! Processes and threads that lived only a moment: starting and ending them is most of what they cost.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{SchedTables, Task};

/// A process that lived less, while it had a CPU or waited for something else, was started for little.
const PROCESS_NS: i64 = 30_000_000;
/// Likewise a thread.
const THREAD_NS: i64 = 1_000_000;
/// Processes that live only a moment, and start each other.
const GENERATIONS: usize = 8;

/// See above.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    /// Threads of such processes, and such threads of others.
    pub tasks: FxHashSet<u32>,
    /// Number of processes.
    pub processes: usize,
    /// Of these by the process that started them, or what started them in its turn, if it is known: one that lives longer.
    pub parents: FxHashMap<u32, usize>,
    /// Number of threads of processes that lived longer.
    pub threads: usize,
    /// Criticality of all of these, met by a sample or not, ns.
    pub criticality_ns: i64,
}

impl ShortLived {
    /// All but the first process, which is the program, and the first thread of each.
    pub fn of(tables: &SchedTables) -> Self {
        let mut lives: FxHashMap<u32, Life> = FxHashMap::default();
        for (id, task) in (0..).zip(&tables.tasks) {
            lives.entry(task.process).or_insert(Life::new(id, task)).add(id, task);
        }
        let program = lives.iter().min_by_key(|(_, life)| life.start_ns).map(|(&process, _)| process);
        let is_brief = |process: u32, life: &Life| {
            let queued = tables.tasks[life.first as usize].runnable_ns;
            Some(process) != program && life.end_ns - life.start_ns - queued < PROCESS_NS
        };
        let brief: FxHashSet<u32> =
            lives.iter().filter(|&(&process, life)| is_brief(process, life)).map(|(&process, _)| process).collect();
        let mut found = Self { processes: brief.len(), ..Self::default() };
        for life in brief.iter().filter_map(|process| lives.get(process)) {
            let parent = |first: u32| {
                let parent = tables.tasks[first as usize].parent?;
                tables.tasks.get(parent as usize).map(|task| task.process)
            };
            let mut starter = parent(life.first);
            for _ in 0..GENERATIONS {
                let Some(life) = starter.filter(|starter| brief.contains(starter)).and_then(|at| lives.get(&at)) else {
                    break;
                };
                starter = parent(life.first).or(starter);
            }
            starter.into_iter().for_each(|process| *found.parents.entry(process).or_default() += 1);
        }
        for (id, task) in (0..).zip(&tables.tasks) {
            if brief.contains(&task.process) {
                found.tasks.insert(id);
            } else if lives[&task.process].first != id && task.end_ns - task.start_ns - task.runnable_ns < THREAD_NS {
                found.tasks.insert(id);
                found.threads += 1;
            }
        }
        found.criticality_ns = found.tasks.iter().map(|&id| tables.tasks[id as usize].criticality_ns).sum();
        found
    }
}

/// From the first to the last instant of a process.
struct Life {
    first: u32,
    start_ns: i64,
    end_ns: i64,
}

impl Life {
    fn new(id: u32, task: &Task) -> Self {
        Self { first: id, start_ns: task.start_ns, end_ns: task.end_ns }
    }

    fn add(&mut self, id: u32, task: &Task) {
        if task.start_ns < self.start_ns {
            (self.first, self.start_ns) = (id, task.start_ns);
        }
        self.end_ns = self.end_ns.max(task.end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::task;
    use super::*;

    const MS: i64 = 1_000_000;

    /// A program that starts a shell, which starts a program.
    #[test]
    fn what_a_brief_shell_starts_is_started_by_who_starts_the_shell() {
        let brief = |process: u32, parent: u32, ms: i64| Task { process, parent: Some(parent), ..task(ms * MS) };
        let mut tasks = vec![Task { start_ns: -1, ..task(1_000 * MS) }, brief(1, 0, 20), brief(2, 1, 10)];
        let parents = |tasks: &[Task]| ShortLived::of(&SchedTables { tasks: tasks.to_vec(), ..SchedTables::default() });
        let found = parents(&tasks);
        assert_eq!((found.processes, found.parents), (2, FxHashMap::from_iter([(0, 2)])));
        // It lives longer only because it has no CPU.
        (tasks[1].end_ns, tasks[1].runnable_ns) = (200 * MS, 180 * MS);
        assert_eq!(parents(&tasks).processes, 2);
        tasks[1].runnable_ns = 0;
        assert_eq!(parents(&tasks).parents, FxHashMap::from_iter([(1, 1)]));
    }
}
