//! The extent of one thread: folded counters, locks, waits, histograms, traced calls.
//!
//! Written by its thread alone, without locked instructions; read by the recorder at any time. A reader may therefore
//! see one counter a call ahead of another; after the thread has ended everything agrees.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Offset of the [`FlowCounters`] array, indexed by slot.
pub const COUNTERS_OFFSET: usize = 64 << 10;
/// Offset of the [`LockRecord`] table.
pub const LOCKS_OFFSET: usize = COUNTERS_OFFSET + crate::process::SLOT_CAPACITY * size_of::<FlowCounters>();
/// Entries of the lock table (power of two).
pub const LOCK_CAPACITY: usize = 4096;
/// Offset of the [`WaitRecord`] table.
pub const WAITS_OFFSET: usize = LOCKS_OFFSET + LOCK_CAPACITY * size_of::<LockRecord>();
/// Entries of the wait table (power of two).
pub const WAIT_CAPACITY: usize = 4096;
/// Offset of the histograms, [`HISTOGRAM_BUCKETS`] × `AtomicU32` each.
pub const HISTOGRAMS_OFFSET: usize = WAITS_OFFSET + WAIT_CAPACITY * size_of::<WaitRecord>();
/// Buckets per histogram: 8 per power of two up to 2^46 ticks, then one for all above.
pub const HISTOGRAM_BUCKETS: usize = 384;
/// Histograms per thread.
pub const HISTOGRAM_CAPACITY: usize = 768;
/// Offset of the [`CalledBack`] array, indexed by slot.
pub const CALLED_BACK_OFFSET: usize = TRACE_OFFSET - crate::process::SLOT_CAPACITY * size_of::<CalledBack>();
/// Offset of the criticality per slot (`AtomicU64`, ticks), where the scheduler collector publishes it.
pub const CRITICALITY_OFFSET: usize = TRACE_OFFSET + TRACE_CAPACITY * size_of::<TraceRecord>();
/// Offset of the ring of traced calls.
pub const TRACE_OFFSET: usize = 7 << 20;
/// Entries of the ring (power of two).
pub const TRACE_CAPACITY: usize = 8192;

/// A sampled call that takes this many times its flow's mean, and [`OUTLIER_US`] more, counts once, not for all the calls that it
/// stands for, unless such calls are half of the flow's time: its thread may have lost its CPU.
pub const OUTLIER_MEANS: u64 = 16;
/// See [`OUTLIER_MEANS`]; microseconds.
pub const OUTLIER_US: u64 = 1000;

/// Thread runs.
pub const THREAD_LIVE: u32 = 1;
/// Thread has ended; nothing writes here any more.
pub const THREAD_ENDED: u32 = 2;

/// Head of a thread extent.
#[repr(C)]
pub struct ThreadHeader {
    /// Extent of its process.
    pub process: AtomicU32,
    /// Kernel thread id.
    pub tid: AtomicU32,
    /// A `THREAD_` value.
    pub state: AtomicU32,
    /// Nested blocking APIs the thread is inside; > 0 means not active.
    pub wait_depth: AtomicU32,
    /// Time stamp counter at start.
    pub start_ticks: AtomicU64,
    /// Time stamp counter at the end, 0 while it lives.
    pub end_ticks: AtomicU64,
    /// Active-thread integral at the start: ticks of the agent's own clock, or ns in fixed point of the
    /// [`crate::published`] one.
    pub start_integral: AtomicU64,
    /// Active-thread integral at the end.
    pub end_integral: AtomicU64,
    /// Start routine's address, 0 for a main thread.
    pub start_routine: AtomicU64,
    /// Ticks in outermost blocking APIs.
    pub wait_ticks: AtomicU64,
    /// Since when the thread is in a blocking API; 0 = it is not.
    pub waiting_since: AtomicU64,
    /// Ticks in outermost timed calls.
    pub outermost_ticks: AtomicU64,
    /// The same, attributed.
    pub outermost_attributed: AtomicU64,
    /// Calls counted that should have been timed.
    pub untimed: AtomicU64,
    /// Events ever written to the trace ring.
    pub trace_count: AtomicU64,
    /// Locks that found no room in the table.
    pub locks_refused: AtomicU64,
    /// Waits that found no room in the table.
    pub waits_refused: AtomicU64,
    /// Name, zero-padded, two words.
    pub name: [AtomicU64; 2],
    /// Slot of the blocking API the thread is in.
    pub waiting_slot: AtomicU32,
    /// Index of the thread's record in the [`crate::published`] table, plus one; 0 = it has none.
    pub published_plus_one: AtomicU32,
    /// Task number of that record.
    pub published_task: AtomicU32,
    /// Zero.
    pub reserved: u32,
    /// Timed calls whose criticality is not known.
    pub unmeasured: AtomicU64,
    /// Begins of feature regions that could not be told apart: calls there count in the region around.
    pub merged_regions: AtomicU64,
}

const _: () = assert!(size_of::<ThreadHeader>() <= 4096);

/// Folded counters of one slot on one thread. Calls entered = `issued - countdown` (exact); a timed call that stands
/// for `k` calls adds `k` times its duration.
#[repr(C)]
pub struct FlowCounters {
    /// Calls until the next timed one; the stub counts down.
    pub countdown: AtomicU32,
    /// Time stamp of the last timed call, in 256 ticks.
    pub last: AtomicU32,
    /// Sum of all periods granted.
    pub issued: AtomicU64,
    /// Timed calls.
    pub timed: AtomicU64,
    /// Ticks, entry to return, outermost instance only.
    pub total: AtomicU64,
    /// Ticks less those of calls made by the callee into other components.
    pub own: AtomicU64,
    /// ∫ dt / max(1, active) over `total`.
    pub attributed: AtomicU64,
    /// Two `f32`: Σ k(k−1)·d² and Σ k(k−1), for the confidence interval.
    pub variance: AtomicU64,
    /// Period in force: 0 = never entered, 1 = every call is timed, `u32::MAX` = none is.
    pub period: AtomicU32,
    /// Open timed calls of this slot on this thread.
    pub depth: AtomicU16,
    /// Calls left by unwinding, saturating.
    pub abandoned: AtomicU16,
}

const _: () = assert!(size_of::<FlowCounters>() == 64);
const _: () = assert!(core::mem::offset_of!(FlowCounters, period) == 56);

/// Calls that callbacks made, inside the timed calls of one slot on one thread. They stand for all as in [`FlowCounters`].
#[repr(C)]
pub struct CalledBack {
    /// Ticks in them: part of [`FlowCounters::own`], and of those calls' own `total`.
    pub ticks: AtomicU64,
    /// Of `ticks`, in calls between the same two components.
    pub same_edge: AtomicU64,
}

const _: () = assert!(size_of::<CalledBack>() == 16);

/// One lock as taken from one return address.
#[repr(C)]
pub struct LockRecord {
    /// Address of the lock; 0 = free entry.
    pub object: AtomicU64,
    /// Return address of the acquiring call.
    pub caller: AtomicU64,
    /// Acquisitions, and attempts whose time ran out.
    pub acquisitions: AtomicU64,
    /// Acquisitions that found it held.
    pub contended: AtomicU64,
    /// Ticks waited.
    pub wait: AtomicU64,
    /// Ticks held, by the acquisitions in `held_samples`, with what an empty hold shows
    /// ([`crate::process::ProcessHeader::empty_hold`]).
    pub held: AtomicU64,
    /// Acquisitions whose hold time was taken, and those that they stand for.
    pub held_samples: AtomicU64,
    /// Slot of the acquiring API in the low half, slot of the enclosing API call (0 = none) in the high half.
    pub slots: AtomicU64,
    /// `f64`: Σ k(k−1)·d² of hold times d that stand for k acquisitions each, for the confidence interval.
    pub squares: AtomicU64,
    /// `f64`: Σ k(k−1)·d.
    pub products: AtomicU64,
    /// `f64`: Σ k(k−1).
    pub weights: AtomicU64,
    /// Zero.
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<LockRecord>() == 128);

/// Waits in one slot for one object.
#[repr(C)]
pub struct WaitRecord {
    /// Slot number in the low half, 1 in bit 32 marks a used entry.
    pub slot: AtomicU64,
    /// First argument: lock, condition, file descriptor.
    pub object: AtomicU64,
    /// Number of waits.
    pub count: AtomicU64,
    /// Ticks.
    pub ticks: AtomicU64,
}

const _: () = assert!(size_of::<WaitRecord>() == 32);

/// One traced call.
#[repr(C)]
pub struct TraceRecord {
    /// Time stamp counter.
    pub ticks: AtomicU64,
    /// Slot.
    pub slot: AtomicU64,
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub args: [AtomicU64; 6],
}

const _: () = assert!(size_of::<TraceRecord>() == 64);
const _: () = assert!(HISTOGRAMS_OFFSET + HISTOGRAM_CAPACITY * HISTOGRAM_BUCKETS * 4 <= CALLED_BACK_OFFSET);
const _: () = assert!(CRITICALITY_OFFSET + crate::process::SLOT_CAPACITY * 8 <= crate::arena::EXTENT_SIZE);

/// Bucket of a duration: exact below 8 ticks, then 8 buckets per power of two (as in HdrHistogram).
pub fn bucket(ticks: u64) -> usize {
    if ticks < 8 {
        return ticks as usize;
    }
    let exponent = 63 - ticks.leading_zeros() as usize;
    let index = (exponent - 2) * 8 + ((ticks >> (exponent - 3)) & 7) as usize;
    if index < HISTOGRAM_BUCKETS { index } else { HISTOGRAM_BUCKETS - 1 }
}

/// Smallest duration of a bucket, ticks.
pub fn bucket_floor(index: usize) -> u64 {
    if index < 8 {
        return index as u64;
    }
    let exponent = index / 8 + 2;
    ((8 + index % 8) as u64) << (exponent - 3)
}
