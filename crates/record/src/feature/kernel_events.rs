//! Region events that programs in the kernel tell, on the recording's clock.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use transect_bpf_collect::region_events::{EventReader, EventSource, KernelEvent};

use super::reading::Bound;
use crate::RecordError;
use crate::clock::{monotonic_ns, ticks};

/// The two clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ns: u64,
    ticks: u64,
}

impl Moment {
    fn now() -> Self {
        // A thread that is put aside between the two would join moments that are apart.
        let take = |_| {
            let before = ticks();
            let ns = monotonic_ns();
            let after = ticks();
            (after.wrapping_sub(before), Self { ns, ticks: before.midpoint(after) })
        };
        let best = (0..3).map(take).min_by_key(|(width, _)| *width);
        best.map_or(Self { ns: 0, ticks: 0 }, |(_, moment)| moment)
    }
}

/// The events, and whose they are.
pub struct KernelEvents {
    reader: EventReader,
    queue: Rc<RefCell<VecDeque<KernelEvent>>>,
    before: Moment,
    /// Threads by number.
    pub threads: HashMap<i32, Bound>,
}

impl KernelEvents {
    /// To be read on this thread.
    ///
    /// # Errors
    /// If the buffer can't be mapped.
    pub fn open(source: EventSource) -> Result<Self, RecordError> {
        let queue = Rc::new(RefCell::new(VecDeque::new()));
        let filled = queue.clone();
        let reader = source.open(move |event| filled.borrow_mut().push_back(event))?;
        Ok(Self { reader, queue, before: Moment::now(), threads: HashMap::new() })
    }

    /// What has happened since the last call, with its time in ticks.
    pub fn take(&mut self) -> Vec<(u64, KernelEvent)> {
        self.reader.read();
        let now = Moment::now();
        let before = self.before;
        // Both clocks are even; between two looks they are straight lines.
        let rate = now.ticks.wrapping_sub(before.ticks) as f64 / now.ns.saturating_sub(before.ns).max(1) as f64;
        let time = |ns: u64| {
            let passed = (ns.wrapping_sub(before.ns).cast_signed() as f64 * rate) as i64;
            before.ticks.wrapping_add_signed(passed)
        };
        let events = self.queue.borrow_mut().drain(..).collect::<Vec<_>>();
        if now.ns.saturating_sub(before.ns) >= LONG_ENOUGH {
            self.before = now;
        }
        let ns = |event: &KernelEvent| match *event {
            KernelEvent::Site { time, .. } | KernelEvent::Task { time, .. } => time,
        };
        events.into_iter().map(|event| (time(ns(&event)), event)).collect()
    }

    /// Events for which there was no room.
    pub fn lost(&self) -> u64 {
        self.reader.lost()
    }
}

/// Moments are so far apart that their own errors don't count, ns.
const LONG_ENOUGH: u64 = 1_000_000;
