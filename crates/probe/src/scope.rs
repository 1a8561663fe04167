//! Timing of one function and a few of its callees for a while: what each thread is in, kept beside the shadow frames.
//!
//! The memory is private to the process, so that a child of fork has its own; the controller reads and clears it from
//! outside. Handlers find a thread's entry by its thread pointer.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::probe_arena::CALLEES;

use crate::frame::transect_probe_globals;

/// Threads that are known at once; calls of others are counted as untimed.
pub const THREADS: usize = 4096;
/// Bytes of all entries.
pub const SCOPES_SIZE: u64 = (THREADS * size_of::<ThreadScope>()) as u64;
/// Bits of the hash that are dropped.
pub const HASH_SHIFT: u32 = 32 - THREADS.trailing_zeros();
/// Entries looked at.
pub const SEARCH: u32 = 64;

/// What a thread has spent in the function and its callees, and what it is in now. Written by the thread itself, or by
/// the controller while it holds the thread or no probe is on.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadScope {
    /// The thread pointer, 0 for an empty entry; of threads measured by what the kernel keeps of them their number.
    pub key: AtomicU64,
    /// Stack slot of the return address of the outermost open call of the function, 0 if there is none.
    pub parent_slot: AtomicU64,
    /// When that call began, ticks.
    pub parent_start: AtomicU64,
    /// Ticks of the calls that have returned.
    pub parent_ticks: AtomicU64,
    /// Calls begun.
    pub parent_calls: AtomicU64,
    /// The same of the open callee.
    pub callee_slot: AtomicU64,
    /// When it was called, ticks.
    pub callee_start: AtomicU64,
    /// Which one it is.
    pub callee_index: AtomicU64,
    /// Ticks of each callee's calls that have returned.
    pub callee_ticks: [AtomicU64; CALLEES],
    /// Calls of each callee.
    pub callee_calls: [AtomicU64; CALLEES],
    /// Calls of the function that were left without a return.
    pub parent_left: AtomicU64,
    /// The same of all callees.
    pub callee_left: AtomicU64,
    /// When an unwinder took the open call's return away, 0 if none did.
    pub thrown_at: AtomicU64,
    /// CPU time or faults of the thread that handlers have caused: what its calls are measured in goes on without.
    pub own: AtomicU64,
    /// Zero.
    pub reserved: [u64; 12],
}

const _: () = assert!(size_of::<ThreadScope>() == 256);

/// Where the search for a thread begins.
pub fn thread_hash(key: u64) -> usize {
    ((key as u32).wrapping_mul(0x9E37_79B1) >> HASH_SHIFT) as usize
}

/// An unwinder is about to run on this thread, and all return addresses above `slot` are the true ones again: an open
/// call won't be seen to end. `thread` is the thread pointer.
pub fn thrown(slot: u64, thread: u64) {
    let scopes = transect_probe_globals.scopes.load(Ordering::Relaxed);
    if scopes == 0 || thread == 0 {
        return;
    }
    let mut index = thread_hash(thread);
    for _ in 0..SEARCH {
        // SAFETY: `index` is below THREADS; the entries stay mapped (`Globals::set`), and all fields are atomic.
        let scope = unsafe { &*(scopes as *const ThreadScope).add(index) };
        match scope.key.load(Ordering::Relaxed) {
            0 => return,
            key if key == thread => {
                if scope.parent_slot.load(Ordering::Relaxed) >= slot
                    && transect_probe_globals.no_clock.load(Ordering::Relaxed) == 0
                {
                    // SAFETY: reading the clock has no requirement where no thread has given it up, as was looked.
                    scope.thrown_at.store(unsafe { _rdtsc() }, Ordering::Relaxed);
                }
                return;
            }
            _ => index = (index + 1) % THREADS,
        }
    }
}
