//! The arena: one sparse memory file, owned by the recorder and mapped by every followed process.
//!
//! It is cut into extents of [`EXTENT_SIZE`]. Extent 0 holds the [`ArenaHeader`] and the API table; every other extent
//! belongs to one process ([`crate::process`]), one thread ([`crate::thread`]) or one context of a thread
//! ([`crate::context`]). A page costs memory only once it is
//! written, so unused parts of an extent are free. Because the recorder holds the file, whatever ends the program
//! (SIGKILL included) loses nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `b"TRARENA1"` as a little-endian integer.
pub const ARENA_MAGIC: u64 = u64::from_le_bytes(*b"TRARENA1");
/// Layout version of everything in the arena.
pub const ARENA_VERSION: u32 = 5;
/// Bytes per extent.
pub const EXTENT_SIZE: usize = 8 << 20;
/// Extents in the arena file.
pub const EXTENT_COUNT: usize = 8192;
/// Size of the arena file in bytes (sparse).
pub const ARENA_SIZE: usize = EXTENT_SIZE * EXTENT_COUNT;
/// Longest path in the header, with its terminating zero.
pub const PATH_CAPACITY: usize = 1024;
/// Offset of the API table in the arena.
pub const API_TABLE_OFFSET: usize = 1 << 20;

/// Extent is on no list and all zero.
pub const EXTENT_FREE: u32 = 0;
/// Extent holds a [`crate::process::ProcessHeader`].
pub const EXTENT_PROCESS: u32 = 1;
/// Extent holds a [`crate::thread::ThreadHeader`].
pub const EXTENT_THREAD: u32 = 2;

/// Extent holds a [`crate::context::ContextHeader`].
pub const EXTENT_CONTEXT: u32 = 4;

/// Extent is kept for threads to come by a process that maps no more of them, and by its children.
pub const EXTENT_SPARE: u32 = 3;

/// Time no call.
pub const TIMING_COUNT: u32 = 0;
/// Time every call.
pub const TIMING_FULL: u32 = 1;
/// Time one call in `every`.
pub const TIMING_EVERY: u32 = 2;
/// Time within the overhead budget.
pub const TIMING_ADAPTIVE: u32 = 3;

/// Record a histogram per flow.
pub const OPTION_HISTOGRAM: u32 = 1;
/// Follow child processes.
pub const OPTION_FOLLOW: u32 = 2;
/// Objects may have static components: `static_dir` holds their plans.
pub const OPTION_STATIC: u32 = 4;
/// The scheduler collector publishes its clock: see [`crate::published`].
pub const OPTION_PUBLISHED: u32 = 8;

/// Nobody asks.
pub const REQUEST_IDLE: u32 = 0;
/// A process wants the plan of [`PlanRequest::path`].
pub const REQUEST_POSTED: u32 = 1;
/// The recorder has put the plan file in place.
pub const REQUEST_DONE: u32 = 2;
/// The recorder could not make a plan.
pub const REQUEST_FAILED: u32 = 3;

/// A request for the linkage plan of an object that the recorder has not analysed yet.
#[repr(C)]
pub struct PlanRequest {
    /// Thread id of the asking thread; 0 = free. Taken by compare-and-swap.
    pub owner: AtomicU32,
    /// One of the `REQUEST_` values; a futex.
    pub state: AtomicU32,
    /// Path of the object, zero-terminated, as raw bytes in words (written by the owner only).
    pub path: [AtomicU64; PATH_CAPACITY / 8],
}

/// Time stamp counter and `CLOCK_MONOTONIC`: one instant on both, and the rate. Kept up to date by the recorder where
/// the scheduler collector publishes its clock.
#[repr(C, align(64))]
pub struct ClockRelation {
    /// Odd while the rest changes.
    pub sequence: AtomicU32,
    /// Zero.
    pub reserved: AtomicU32,
    /// Time stamp.
    pub ticks: AtomicU64,
    /// The same instant, ns.
    pub nanoseconds: AtomicU64,
    /// Nanoseconds per tick, fixed point with 32 fraction bits.
    pub rate: AtomicU64,
}

impl ClockRelation {
    /// A time stamp in nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        // A recorder that was killed in the middle of a change leaves it so.
        let mut tries = 1 << 12;
        loop {
            tries -= 1;
            let sequence = self.sequence.load(Ordering::Acquire);
            let (from, at, rate) = (
                self.ticks.load(Ordering::Acquire),
                self.nanoseconds.load(Ordering::Acquire),
                self.rate.load(Ordering::Acquire),
            );
            if sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence || tries == 0 {
                let passed = ticks.wrapping_sub(from) as i64;
                return at.wrapping_add(((passed as i128 * rate as i128) >> 32) as u64);
            }
            core::hint::spin_loop();
        }
    }

    /// Notes a new relation; one thread of the recorder does.
    pub fn set(&self, ticks: u64, nanoseconds: u64, rate: u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::SeqCst);
        self.ticks.store(ticks, Ordering::Release);
        self.nanoseconds.store(nanoseconds, Ordering::Release);
        self.rate.store(rate, Ordering::Release);
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }
}

/// First bytes of the arena.
#[repr(C)]
pub struct ArenaHeader {
    /// [`ARENA_MAGIC`].
    pub magic: u64,
    /// [`ARENA_VERSION`].
    pub version: u32,
    /// `OPTION_` bits.
    pub options: u32,
    /// One of the `TIMING_` values.
    pub timing: u32,
    /// Calls per timed call in [`TIMING_EVERY`].
    pub every: u32,
    /// Overhead budget in parts per million in [`TIMING_ADAPTIVE`].
    pub budget_ppm: u32,
    /// Time stamp counter ticks per microsecond, approximately.
    pub ticks_per_us: u32,
    /// Time stamp counter at the start of the recording; clocks in the arena count from it.
    pub epoch_ticks: u64,
    /// Extents handed out so far, ignoring the free list.
    pub next_extent: AtomicU32,
    /// Set by the recorder when it has gone away in good order: requests are pointless.
    pub recorder_gone: AtomicU32,
    /// Free list: low 32 bits = first free extent (0 = none), high 32 bits = a tag against ABA.
    pub free_extents: AtomicU64,
    /// Requests that found no extent left.
    pub extents_refused: AtomicU64,
    /// Raised by the recorder when a process or thread ended event is worth looking at; a futex for the recorder.
    pub attention: AtomicU32,
    /// Entries in the API table (power of two).
    pub api_table_len: u32,
    /// Directory of plan files, zero-terminated.
    pub plan_dir: [u8; PATH_CAPACITY],
    /// Directory of the static plans of this recording, zero-terminated; empty if there are none.
    pub static_dir: [u8; PATH_CAPACITY],
    /// Path of the agent as it stands in `LD_PRELOAD`, zero-terminated.
    pub agent_path: [u8; PATH_CAPACITY],
    /// Globs (`*`, `?`) of symbols to trace, separated by newlines, zero-terminated.
    pub trace: [u8; PATH_CAPACITY],
    /// Mailbox for plans.
    pub request: PlanRequest,
    /// Kind of each extent (`EXTENT_` values).
    pub kind: [AtomicU32; EXTENT_COUNT],
    /// Links of the free list.
    pub next_free: [AtomicU32; EXTENT_COUNT],
    /// The clock of what is [`crate::published`].
    pub clock: ClockRelation,
}

impl ArenaHeader {
    /// Takes an extent: from the free list, else from the end. `None` when the arena is used up.
    pub fn take(&self, kind: u32) -> Option<u32> {
        let count = EXTENT_COUNT as u32;
        loop {
            let head = self.free_extents.load(Ordering::Acquire);
            let index = head as u32;
            if index == 0 || index >= count {
                break;
            }
            let next = self.next_free[index as usize].load(Ordering::Relaxed);
            let tagged = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
            if self.free_extents.compare_exchange(head, tagged, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.kind[index as usize].store(kind, Ordering::Release);
                return Some(index);
            }
        }
        let index = self.next_extent.fetch_add(1, Ordering::AcqRel);
        if index >= count {
            self.next_extent.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        debug_assert!(self.kind[index as usize].load(Ordering::Relaxed) == EXTENT_FREE);
        self.kind[index as usize].store(kind, Ordering::Release);
        Some(index)
    }

    /// Puts an extent on the free list, whose kind is [`EXTENT_FREE`] by now.
    pub fn put_free(&self, extent: u32) {
        let mut head = self.free_extents.load(Ordering::Acquire);
        loop {
            self.next_free[extent as usize].store(head as u32, Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(extent);
            match self.free_extents.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

const _: () = assert!(size_of::<ArenaHeader>() < API_TABLE_OFFSET);
const _: () = assert!(core::mem::offset_of!(ArenaHeader, next_extent) == 40);
