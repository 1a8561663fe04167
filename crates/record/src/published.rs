//! The pages that the scheduler collector publishes its clock in: read here, and handed to the agent.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use transect_event_abi::arena::ClockRelation;
use transect_event_abi::published::{APPLICATION_CAPACITY, ENDED, FRACTION_BITS, Published};

use crate::clock::ClockReading;
use crate::error::RecordError;

/// The pages as the recorder sees them.
#[derive(Debug)]
pub struct Pages {
    descriptor: Arc<OwnedFd>,
    at: *const Published,
}

// SAFETY: shared memory of atomics, mapped for the life of the value.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps them from the descriptor of the collector's map.
    pub fn map(descriptor: Arc<OwnedFd>) -> Result<Pages, RecordError> {
        let size = size_of::<Published>();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), size, ProtFlags::READ, MapFlags::SHARED, descriptor.as_fd(), 0)
        }
        .map_err(|e| RecordError::system("map the scheduler collector's pages")(e.into()))?;
        Ok(Pages { descriptor, at: at.cast() })
    }

    fn pages(&self) -> &Published {
        // SAFETY: mapped for the life of the value.
        unsafe { &*self.at }
    }

    /// An application's ∫ dt / max(1, active) at a time of `CLOCK_MONOTONIC`, ns in fixed point; at its last change if
    /// that is later.
    pub fn attribution(&self, application: u32, time: u64) -> u64 {
        let a = &self.pages().applications[application as usize % APPLICATION_CAPACITY];
        loop {
            let sequence = a.sequence.load(Ordering::Acquire);
            let active = u64::from(a.active.load(Ordering::Acquire)).max(1);
            let since = a.time.load(Ordering::Acquire);
            let criticality = a.criticality.load(Ordering::Acquire);
            let idle = a.idle.load(Ordering::Acquire);
            if sequence & 1 == 0 && a.sequence.load(Ordering::Acquire) == sequence {
                let open = (time.saturating_sub(since) << FRACTION_BITS) / active;
                return criticality.wrapping_add(idle << FRACTION_BITS).wrapping_add(open);
            }
            std::hint::spin_loop();
        }
    }

    /// The same at the end of a thread, if that is over and its record was not taken by another.
    pub fn attribution_at_end(&self, index: u32, task: u32) -> Option<u64> {
        let t = self.pages().threads.get(index as usize)?;
        let value = t.attribution.load(Ordering::Acquire);
        let over = t.flags.load(Ordering::Acquire) & ENDED != 0;
        (over && t.task.load(Ordering::Acquire) == task).then_some(value)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our mapping; nobody borrows it any more.
        unsafe {
            let _ = rustix::mm::munmap(self.at.cast_mut().cast(), size_of::<Published>());
        }
    }
}

/// Hands the descriptor of the pages to every agent that asks, by a socket beside the agent.
#[derive(Debug)]
pub struct Counter {
    listener: UnixListener,
    over: AtomicBool,
}

impl Counter {
    /// Opens it; agents that ask wait until it is served.
    pub fn open(path: &Path) -> Result<Counter, RecordError> {
        let listener = UnixListener::bind(path).map_err(RecordError::system("make a socket for the agents"))?;
        Ok(Counter { listener, over: AtomicBool::new(false) })
    }

    /// Serves until [`Counter::close`].
    pub fn serve(&self, pages: &Pages) {
        for client in self.listener.incoming() {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            match client {
                // An agent that has gone again needs nothing.
                Ok(client) => drop(send(&client, pages)),
                // Out of descriptors, most likely: it passes.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Ends the serving.
    pub fn close(&self) {
        self.over.store(true, Ordering::Release);
        // Ends the accept that is under way, also when the socket's file has gone.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

fn send(client: &UnixStream, pages: &Pages) -> rustix::io::Result<usize> {
    let descriptors = [pages.descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(client, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)
}

/// Keeps the relation between time stamps and `CLOCK_MONOTONIC` that agents compute with.
#[derive(Debug)]
pub struct Relation {
    first: ClockReading,
}

/// Beyond this the first moment is forgotten: the clock's rate is steered from outside.
const MEMORY_NS: u64 = 2_000_000_000;
/// Moments less than this apart give no better rate than the one that is known.
const SHORTEST_NS: u64 = 5_000_000;

impl Relation {
    /// Starts it with a rate in ticks per nanosecond.
    pub fn start(relation: &ClockRelation, rate: f64) -> Relation {
        let first = ClockReading::now();
        relation.set(first.ticks, first.ns, fixed(1.0 / rate));
        Relation { first }
    }

    /// Brings it up to date.
    pub fn refresh(&mut self, relation: &ClockRelation) {
        let now = ClockReading::now();
        let elapsed = now.ns.wrapping_sub(self.first.ns);
        if now.ticks == self.first.ticks || elapsed < SHORTEST_NS {
            return;
        }
        relation.set(now.ticks, now.ns, fixed(1.0 / now.rate_since(&self.first)));
        if elapsed > MEMORY_NS {
            self.first = now;
        }
    }
}

fn fixed(nanoseconds_per_tick: f64) -> u64 {
    (nanoseconds_per_tick * (1u64 << 32) as f64) as u64
}
