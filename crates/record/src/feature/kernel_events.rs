//! Region events that programs in the kernel tell, on the recording's clock.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use transect_bpf_collect::region_events::{EventReader, EventSource, KernelEvent};

use super::clocks::Clocks;
use super::reading::Bound;
use crate::RecordError;

/// The events, and whose they are.
pub struct KernelEvents {
    reader: EventReader,
    queue: Rc<RefCell<VecDeque<KernelEvent>>>,
    clocks: Clocks,
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
        Ok(Self { reader, queue, clocks: Clocks::start(), threads: HashMap::new() })
    }

    /// What has happened since the last call, with its time in ticks.
    pub fn take(&mut self) -> Vec<(u64, KernelEvent)> {
        self.reader.read();
        let time = self.clocks.ticks();
        let events = self.queue.borrow_mut().drain(..).collect::<Vec<_>>();
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
