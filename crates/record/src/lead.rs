//! Who leads the recording of one collector: that itself, or another recording beside which it takes place. It says when the
//! recording ends, and takes the profile so far.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use transect_profile_model::Profile;

use crate::attached_collector::Orders;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::signals::Signals;
use crate::snapshots::Snapshots;

/// See above.
pub(crate) struct Lead<'a> {
    /// Times count from its start.
    pub clock: Clock,
    leader: Leader<'a>,
    duration: Option<Duration>,
    end: Cell<Option<Instant>>,
}

/// Takes the profile so far.
type OnSnapshot<'a> = &'a mut dyn FnMut(&Profile);

enum Leader<'a> {
    /// This collector records alone.
    Alone { signals: Signals, snapshots: RefCell<(Snapshots, OnSnapshot<'a>)> },
    /// Another recording goes on beside it.
    Another(&'a Orders),
}

impl<'a> Lead<'a> {
    /// Of a collector by itself, whose profile so far `snapshot` takes.
    pub fn alone(
        signals: Signals,
        duration: Option<Duration>,
        interval: Option<Duration>,
        snapshot: &'a mut dyn FnMut(&Profile),
    ) -> Self {
        let leader = Leader::Alone { signals, snapshots: RefCell::new((Snapshots::new(interval), snapshot)) };
        Self { clock: Clock::start(), leader, duration, end: Cell::new(None) }
    }

    /// Of one beside another recording, by the clock of that.
    pub fn beside(orders: &'a Orders, clock: Clock) -> Self {
        Self { clock, leader: Leader::Another(orders), duration: None, end: Cell::new(None) }
    }

    /// Whether another recording goes on, which gives up privileges.
    pub fn is_beside(&self) -> bool {
        matches!(self.leader, Leader::Another(_))
    }

    /// It is recorded from now on; gives when that ends at the latest.
    pub fn begin(&self) -> Option<Instant> {
        if let Leader::Another(orders) = &self.leader {
            orders.begin();
        }
        self.end.set(self.duration.map(|duration| Instant::now() + duration));
        self.end.get()
    }

    /// What ends it.
    pub fn signals(&self) -> &Signals {
        match &self.leader {
            Leader::Alone { signals, .. } => signals,
            Leader::Another(orders) => &orders.signals,
        }
    }

    /// Whether it is enough: the time is over, or somebody says so.
    pub fn ends(&self) -> bool {
        self.signals().ends() || self.end.get().is_some_and(|end| Instant::now() >= end)
    }

    /// Gives the profile so far to who wants it, if anybody does at the moment.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn so_far(&self, make: impl FnOnce() -> Result<Profile, RecordError>) -> Result<(), RecordError> {
        match &self.leader {
            Leader::Alone { signals, snapshots } => {
                let (due, snapshot) = &mut *snapshots.borrow_mut();
                if due.is_due(signals) {
                    snapshot(&make()?);
                }
            }
            Leader::Another(orders) => {
                if let Ok(reply) = orders.asked.try_recv() {
                    // Who has asked may have given up.
                    let _ = reply.send(make()?);
                }
            }
        }
        Ok(())
    }
}
