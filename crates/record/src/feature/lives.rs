//! Births and ends of threads as the kernel tells them: of many that live for less than a millisecond, a look now and then
//! sees few.

use transect_bpf_collect::thread_samples::{Seen, ThreadSamples};

use super::moment::Clocks;
use super::sampling::threads_of;
use crate::clock::monotonic_ns;

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LifeChange {
    /// It was made.
    Began,
    /// It has ended.
    Ended,
}

/// Records of other processors that are older may come for so long, ns.
const SETTLED: u64 = 2_000_000;

/// To be read on the thread that made it.
pub(super) struct Lives {
    events: ThreadSamples,
    clocks: Clocks,
    /// Read, but older ones of other processors may come: time, process, thread, what.
    waiting: Vec<(u64, i32, i32, LifeChange)>,
}

impl Lives {
    /// Of a process, and all that it makes from now on.
    ///
    /// # Errors
    /// If the kernel does not tell this user, or the process is gone.
    pub fn of(pid: i32) -> std::io::Result<Self> {
        let events = ThreadSamples::lives(&threads_of(pid)?)?;
        Ok(Self { events, clocks: Clocks::start(), waiting: Vec::new() })
    }

    /// Gives what there is to `each`, in the order of time: process, thread, what, ticks. `last`: nothing more will come.
    pub fn read(&mut self, last: bool, mut each: impl FnMut(i32, i32, LifeChange, u64)) {
        let ticks = self.clocks.ticks();
        let horizon = if last { u64::MAX } else { monotonic_ns().saturating_sub(SETTLED) };
        let Self { events, waiting, .. } = self;
        events.read(|record| {
            let change = match record.seen {
                // A child's first thread comes with its process.
                Seen::Born { .. } if record.tgid != record.tid => LifeChange::Began,
                Seen::Ended => LifeChange::Ended,
                _ => return,
            };
            waiting.push((record.time, record.tgid, record.tid, change));
        });
        // A thread may begin on one processor and end on another.
        waiting.sort_by_key(|record| record.0);
        let ready = waiting.partition_point(|record| record.0 <= horizon);
        for (time, pid, tid, change) in waiting.drain(..ready) {
            each(pid, tid, change, ticks(time));
        }
    }
}
