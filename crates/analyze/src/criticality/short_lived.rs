//! Processes and threads that lived only a moment: starting and ending them is most of what they cost.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::{SchedTables, Task};

/// A process that lived less was started for little.
const PROCESS_NS: i64 = 30_000_000;
/// Likewise a thread, while it had a CPU or waited for something else.
const THREAD_NS: i64 = 1_000_000;

/// See above.
#[derive(Debug, Default)]
pub(super) struct ShortLived {
    /// Threads of such processes, and such threads of others.
    pub tasks: FxHashSet<u32>,
    /// Number of processes.
    pub processes: usize,
    /// Of these by the process that started them, if it is known.
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
        let is_brief = |process: u32, life: &Life| Some(process) != program && life.end_ns - life.start_ns < PROCESS_NS;
        let brief: FxHashSet<u32> =
            lives.iter().filter(|&(&process, life)| is_brief(process, life)).map(|(&process, _)| process).collect();
        let mut found = Self { processes: brief.len(), ..Self::default() };
        for life in brief.iter().filter_map(|process| lives.get(process)) {
            let parent = tables.tasks[life.first as usize].parent.and_then(|parent| tables.tasks.get(parent as usize));
            parent.into_iter().for_each(|parent| *found.parents.entry(parent.process).or_default() += 1);
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
