//! When the profile so far is handed out: at intervals, and when a signal asks for it.

use std::time::{Duration, Instant};

use transect_profile_model::Profile;

use crate::sched::Timeline;
use crate::signals::Signals;

/// Takes the profile so far, with its waits and slices if there are any.
pub type Snapshot<'a> = &'a mut (dyn FnMut(&Profile, Option<&mut Timeline>) + Send);

/// How often it is looked whether one is wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When the next is due.
pub(crate) struct Snapshots {
    interval: Option<Duration>,
    next: Option<Instant>,
}

impl Snapshots {
    /// The first is due after one interval.
    pub fn new(interval: Option<Duration>) -> Self {
        Self { interval, next: interval.map(|interval| Instant::now() + interval) }
    }

    /// When to look again, at `limit` at the latest.
    pub fn look(&self, limit: Option<Instant>) -> Instant {
        let soon = Instant::now() + LOOK_EVERY;
        limit.into_iter().chain(self.next).fold(soon, Instant::min)
    }

    /// Whether one is due now. Those that were missed are not made up for.
    pub fn is_due(&mut self, signals: &Signals) -> bool {
        self.is_time() || signals.wants_snapshot()
    }

    /// The same of the interval alone.
    pub fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let (Some(at), Some(interval)) = (self.next, self.interval) else { return false };
        if now < at {
            return false;
        }
        self.next = Some(at.max(now - interval) + interval);
        true
    }
}
