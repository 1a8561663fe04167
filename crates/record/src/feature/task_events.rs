//! Births, ends and switches of threads as the kernel tells them: of many that live for less than a millisecond, a look now
//! and then sees few, and nothing else tells when a thread was on a CPU.

use std::collections::HashSet;

use transect_bpf_collect::thread_samples::{Seen, ThreadSamples};

use super::clocks::Clocks;
use crate::clock::monotonic_ns;
use crate::user_samples::source::threads_of;

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskEvent {
    /// It is the first thread of a process that was forked.
    Forked {
        /// Process that did.
        parent: i32,
        /// Its thread.
        by: i32,
    },
    /// It was made.
    Began,
    /// Its process runs another program.
    Replaced,
    /// It came to a CPU.
    Runs,
    /// It left its CPU.
    Stops,
    /// It has ended.
    Ended,
}

/// To be read on the thread that made it.
pub(super) struct TaskEvents {
    events: ThreadSamples,
    clocks: Clocks,
    /// The process and all that come from it: there may be events of the whole machine's threads.
    processes: HashSet<i32>,
    /// Read, but what came before on another CPU may not be: time, process, thread, what.
    waiting: Vec<(u64, i32, i32, TaskEvent)>,
    lost: u64,
}

impl TaskEvents {
    /// Of a process, and all that it makes from now on.
    ///
    /// # Errors
    /// If the kernel does not tell this user, or the process is gone.
    pub fn of(pid: i32) -> std::io::Result<Self> {
        let events = ThreadSamples::lives(&threads_of(pid)?)?;
        let processes = HashSet::from([pid]);
        Ok(Self { events, clocks: Clocks::start(), processes, waiting: Vec::new(), lost: 0 })
    }

    /// Gives what there is to `each`, in the order of time: process, thread, what, ticks. Everything of a thread that came
    /// before something it had done by the time of the call is among it. `last`: nothing more will come.
    pub fn read(&mut self, last: bool, mut each: impl FnMut(i32, i32, TaskEvent, u64)) {
        // One CPU is read after the other. What happens meanwhile may be seen of a later one only: it waits.
        let horizon = if last { u64::MAX } else { monotonic_ns() };
        let Self { events, waiting, lost, .. } = self;
        events.read(|record| {
            let first = record.tgid == record.tid;
            let change = match record.seen {
                Seen::Born { parent, by } if first => TaskEvent::Forked { parent, by },
                Seen::Born { .. } => TaskEvent::Began,
                Seen::Named { program: true, .. } => TaskEvent::Replaced,
                Seen::Runs => TaskEvent::Runs,
                Seen::Stops { .. } => TaskEvent::Stops,
                Seen::Ended => TaskEvent::Ended,
                Seen::Lost(count) => {
                    *lost += count;
                    return;
                }
                _ => return,
            };
            waiting.push((record.time, record.tgid, record.tid, change));
        });
        // A thread may begin on one CPU and end on another.
        waiting.sort_by_key(|record| record.0);
        let ready = waiting.partition_point(|record| record.0 <= horizon);
        let ticks = self.clocks.ticks();
        for (time, pid, tid, change) in self.waiting.drain(..ready) {
            if let TaskEvent::Forked { parent, .. } = change {
                // Another program's child may have the number of one that is gone.
                if self.processes.contains(&parent) {
                    self.processes.insert(pid);
                } else {
                    self.processes.remove(&pid);
                }
            }
            if self.processes.contains(&pid) {
                each(pid, tid, change, ticks(time));
            }
        }
    }

    /// Records for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
