//! The states of threads: a static array, sparse in memory until used. Who ends gives its state, with the frames that belong to
//! it, to the next that begins: so there are as many as there were threads at once, however many come and go.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::thread::ThreadState;

/// Threads alive at once; more run uncounted.
const CAPACITY: usize = 16384;

#[repr(C)]
struct Pool(UnsafeCell<[MaybeUninit<ThreadState>; CAPACITY]>);
// SAFETY: an entry belongs to the thread that took it.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(UnsafeCell::new([const { MaybeUninit::zeroed() }; CAPACITY]));
/// One past the highest entry ever taken.
static HIGH: AtomicU32 = AtomicU32::new(0);
/// The free ones below that, last given first: the index plus one in the low half, 0 for none; in the high half a number that
/// changes with each step, lest an entry that was taken and given again passes for one that was not (Treiber, 1986).
static FREE: AtomicU64 = AtomicU64::new(0);

fn entry(index: u32) -> *mut ThreadState {
    // SAFETY: indices are below CAPACITY; the pool is static.
    unsafe { POOL.0.get().cast::<ThreadState>().add(index as usize) }
}

fn step(head: u64, first: u32) -> u64 {
    (head >> 32).wrapping_add(1) << 32 | u64::from(first)
}

/// A state for the calling thread; `None` if there are too many threads.
pub fn take() -> Option<*mut ThreadState> {
    loop {
        let head = FREE.load(Ordering::Acquire);
        let Some(index) = (head as u32).checked_sub(1) else { break };
        // SAFETY: an atomic of the static pool, whoever has the entry by now.
        let next = unsafe { (*entry(index)).next_free.load(Ordering::Relaxed) };
        if FREE.compare_exchange(head, step(head, next), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(taken(index));
        }
    }
    let index = HIGH.fetch_add(1, Ordering::Relaxed);
    if index as usize >= CAPACITY {
        HIGH.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    Some(taken(index))
}

fn taken(index: u32) -> *mut ThreadState {
    let state = entry(index);
    // SAFETY: an atomic of the static pool; all-zero memory is a valid state.
    unsafe { (*state).used.store(1, Ordering::Relaxed) };
    state
}

/// Gives a state back.
///
/// # Safety
/// It was taken, and nobody uses it any more.
pub unsafe fn give(state: *mut ThreadState) {
    // SAFETY: an entry of the pool.
    let index = unsafe { state.offset_from(entry(0)) } as u32;
    // SAFETY: the caller's own until it stands in the list.
    unsafe { (*state).used.store(0, Ordering::Release) };
    loop {
        let head = FREE.load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { (*state).next_free.store(head as u32, Ordering::Relaxed) };
        if FREE.compare_exchange(head, step(head, index + 1), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// All that were ever taken, those that are free again too.
pub fn all() -> impl Iterator<Item = *mut ThreadState> {
    (0..HIGH.load(Ordering::Relaxed).min(CAPACITY as u32)).map(entry)
}
