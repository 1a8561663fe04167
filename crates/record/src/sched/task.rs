//! Threads as they come and go.

use std::collections::BTreeMap;

use transect_bpf_collect::record::{sched_task, task_event};

use super::call_stack::{NO_STACK, StackNumber};

/// A thread.
#[derive(Debug, Clone, Default)]
pub struct RawTask {
    /// The last record of it, with what the first ones alone say kept: who made it.
    pub record: sched_task,
    /// A record came; else other records merely name it.
    pub known: bool,
    /// It was there when the recording began.
    pub seeded: bool,
    /// Its process had a socket for connections when the recording began.
    pub listens: bool,
    /// First instant observed, ns of the monotonic clock; 0 until known.
    pub begin: u64,
    /// When it ended; 0 while it runs.
    pub end: u64,
    /// End of its last wait that was seen; 0 if there was none.
    pub last_wait_end: u64,
    /// Criticality of slices that were seen, in fixed point.
    pub slices_criticality: u64,
    /// Of it in slices before brief waits, in fixed point.
    pub brief_criticality: u64,
    /// Time without CPU in slices that were seen, ns.
    pub slices_runnable: u64,
    /// Stack of its last wait that had one, and when that ended.
    pub last_stack: StackNumber,
    /// See `last_stack`.
    pub last_stack_time: u64,
    /// Active threads then.
    pub last_n: u32,
}

/// Threads by task number.
#[derive(Debug, Clone, Default)]
pub struct RawTasks {
    tasks: BTreeMap<u32, RawTask>,
    /// Records of threads for which there was no room.
    pub refused: u64,
}

/// More are not kept: some 30 MB at the very most.
const MAX_TASKS: usize = 1 << 17;

impl RawTasks {
    /// The thread of this number, made if it is new; `None` if there is no room.
    pub fn get_or_add(&mut self, number: u32) -> Option<&mut RawTask> {
        if number == 0 {
            return None;
        }
        if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&number) {
            self.refused += 1;
            return None;
        }
        let new = || RawTask { last_stack: NO_STACK, ..Default::default() };
        Some(self.tasks.entry(number).or_insert_with(new))
    }

    /// The thread of this number.
    pub fn get(&self, number: u32) -> Option<&RawTask> {
        self.tasks.get(&number)
    }

    /// The thread's process waits for connections.
    pub fn listens(&mut self, number: u32) {
        if let Some(task) = self.get_or_add(number) {
            task.listens = true;
        }
    }

    /// Takes in a record of a thread.
    pub fn update(&mut self, record: &sched_task) {
        let Some(task) = self.get_or_add(record.task) else { return };
        let (parent, parent_tgid) = match (record.parent, record.parent_tgid) {
            (0, 0) => (task.record.parent, task.record.parent_tgid),
            made_by => made_by,
        };
        // Totals only grow; a record that comes late does not take them back.
        let late = task.known && record.time < task.record.time;
        if !late {
            let name = task.record.comm;
            let place = (task.record.allowed, task.record.allowed_count, task.record.priority);
            task.record = *record;
            // Totals that are read at the end, and ends that were noticed late, come without a name.
            if record.comm[0] == 0 {
                task.record.comm = name;
            }
            if record.allowed_count == 0 {
                (task.record.allowed, task.record.allowed_count, task.record.priority) = place;
            }
        }
        (task.record.parent, task.record.parent_tgid) = (parent, parent_tgid);
        task.begin = if task.begin == 0 { record.time } else { task.begin.min(record.time) };
        task.known = true;
        match record.event {
            task_event::SEEDED => task.seeded = true,
            task_event::EXIT => task.end = record.time,
            _ => {}
        }
    }

    /// All threads, in order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, &RawTask)> + Clone {
        self.tasks.iter().map(|(number, task)| (*number, task))
    }
}
