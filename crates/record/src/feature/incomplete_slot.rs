//! A ring whose next event was begun and is not there: a signal handler has interrupted its thread in the middle of it. The
//! handler may come back, or have left it for ever (`siglongjmp`); the thread's own later events wait behind it.

use std::time::{Duration, Instant};

use super::region_file::RegionFile;

/// How long a handler may take, once it has had events itself.
const PATIENCE: Duration = Duration::from_millis(2);

/// What is not there in one ring, and what came too late.
#[derive(Debug, Default)]
pub struct IncompleteSlot {
    /// When the next event was first missed, and how many had been begun by then.
    since: Option<(Instant, u64)>,
    /// Places that were passed over: their events may still come, and are none then.
    passed: Vec<u64>,
}

impl IncompleteSlot {
    /// The next event is there, or none was begun.
    pub fn goes_on(&mut self) {
        self.since = None;
    }

    /// An event is waited for.
    pub fn waits(&self) -> bool {
        self.since.is_some()
    }

    /// The event of this place is not there, of so many that were `written`: whether it has been waited for long enough.
    pub fn is_given_up(&mut self, place: u64, written: u64) -> bool {
        match self.since {
            // What had been begun when the first was missed is as old.
            Some((since, begun)) if place < begun => since.elapsed() >= PATIENCE,
            _ => {
                self.since = Some((Instant::now(), written));
                false
            }
        }
    }

    /// Goes on behind the next event.
    pub fn pass_over(&mut self, file: &RegionFile, index: usize) {
        self.passed.push(file.skip(index));
    }

    /// Makes nothing of events that came after they were passed over.
    pub fn clear_late(&mut self, file: &RegionFile, index: usize) {
        self.passed.retain(|&place| !file.clear_late(index, place));
    }
}
