use std::collections::HashMap;
use std::rc::Rc;

use crate::plain;
use crate::record::{record_type, sched_task, sched_unknown_code, task_event};
use crate::unwind_table::UnwindTables;

/// Keeps the unwind tables of the processes that are followed, by the records of their threads.
pub(crate) struct UnwoundProcesses {
    tables: Rc<UnwindTables>,
    /// Threads that live, by process.
    live: HashMap<i32, u32>,
}

impl UnwoundProcesses {
    pub(crate) fn new(tables: Rc<UnwindTables>) -> Self {
        Self { tables, live: HashMap::new() }
    }

    /// Takes note of a record.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        match bytes.first_chunk().map(|word| u32::from_ne_bytes(*word)) {
            Some(record_type::TASK) => {
                if let Some(task) = plain::read::<sched_task>(bytes) {
                    self.task(&task);
                }
            }
            Some(record_type::UNKNOWN_CODE) => {
                if let Some(code) = plain::read::<sched_unknown_code>(bytes) {
                    self.tables.process_changed(code.tgid);
                }
            }
            _ => {}
        }
    }

    fn task(&mut self, task: &sched_task) {
        match task.event {
            task_event::EXEC => self.tables.add_process(task.tgid),
            task_event::EXIT => {
                let Some(live) = self.live.get_mut(&task.tgid) else { return };
                *live = live.saturating_sub(1);
                if *live == 0 {
                    self.live.remove(&task.tgid);
                    self.tables.remove_process(task.tgid);
                }
            }
            event => {
                let live = self.live.entry(task.tgid).or_insert(0);
                *live += 1;
                if *live > 1 {
                    return;
                }
                if event == task_event::BORN && self.live.contains_key(&task.parent_tgid) {
                    self.tables.process_forked(task.parent_tgid, task.tgid);
                } else {
                    self.tables.add_process(task.tgid);
                }
            }
        }
    }
}
