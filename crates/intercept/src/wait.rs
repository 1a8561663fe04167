//! Blocking APIs: the thread's waiting state, wait time per API and object.

use core::sync::atomic::Ordering;

use transect_event_abi::api_table::class;
use transect_event_abi::thread::{WAIT_CAPACITY, WAITS_OFFSET, WaitRecord};

use crate::frame::Frame;
use crate::thread::ThreadState;
use crate::{active, arch, slot};

/// The calling thread goes to wait.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn enter(state: *mut ThreadState, slot: u32) {
    // SAFETY: see above.
    unsafe {
        let h = (*state).header;
        let depth = (*h).wait_depth.load(Ordering::Relaxed);
        if depth == 0 {
            (*h).waiting_slot.store(slot, Ordering::Relaxed);
            (*h).waiting_since.store(arch::ticks(), Ordering::Relaxed);
            active::change(-1);
        }
        (*h).wait_depth.store(depth + 1, Ordering::Relaxed);
    }
}

/// The calling thread has returned from a blocking API (or left it).
///
/// # Safety
/// `state` is the calling thread's; `frame` is of a call that [`enter`]ed.
pub unsafe fn leave(state: *mut ThreadState, frame: &Frame, now: u64) {
    // SAFETY: see above.
    unsafe {
        let h = (*state).header;
        let depth = (*h).wait_depth.load(Ordering::Relaxed);
        if depth == 0 {
            return;
        }
        (*h).wait_depth.store(depth - 1, Ordering::Relaxed);
        let ticks = now.saturating_sub(frame.start) * frame.weight as u64;
        if depth == 1 {
            let sum = &(*h).wait_ticks;
            sum.store(sum.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
            (*h).waiting_since.store(0, Ordering::Relaxed);
            // A thread that waits costs nothing: its calls are held against the time in which it runs.
            let s = &mut *state;
            s.window_start = (s.window_start + now.saturating_sub(frame.start)).min(now);
            active::change(1);
        }
        if slot::kind(frame.slot).class != class::IO && frame.weight > 0 {
            note(state, frame.slot, frame.object, ticks, frame.weight);
        }
    }
}

/// A thread ends inside a blocking API.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn leave_all(state: *mut ThreadState, now: u64) {
    // SAFETY: see above.
    unsafe {
        let h = (*state).header;
        if (*h).wait_depth.swap(0, Ordering::Relaxed) > 0 {
            let since = (*h).waiting_since.swap(0, Ordering::Relaxed);
            (*h).wait_ticks.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
            active::change(1);
        }
    }
}

/// Folds a wait by (slot, object).
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn note(state: *mut ThreadState, slot: u32, object: u64, ticks: u64, weight: u32) {
    // SAFETY: the table lies in this thread's extent.
    unsafe {
        let h = (*state).header;
        let table = (h as *mut u8).add(WAITS_OFFSET) as *mut WaitRecord;
        let key = slot as u64 | 1 << 32;
        let mut i = (object ^ (object >> 12)).wrapping_mul(0x9e37_79b9).wrapping_add(key * 31) as usize;
        for _ in 0..16 {
            i &= WAIT_CAPACITY - 1;
            let w = &*table.add(i);
            let used = w.slot.load(Ordering::Relaxed);
            if used == 0 {
                w.object.store(object, Ordering::Relaxed);
                w.slot.store(key, Ordering::Relaxed);
            }
            if (used == 0 || used == key) && w.object.load(Ordering::Relaxed) == object {
                w.count.store(w.count.load(Ordering::Relaxed) + weight as u64, Ordering::Relaxed);
                w.ticks.store(w.ticks.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
                return;
            }
            i += 1;
        }
        (*h).waits_refused.fetch_add(1, Ordering::Relaxed);
    }
}
