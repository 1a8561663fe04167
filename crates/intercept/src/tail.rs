//! Tail calls out of timed calls: they have no frame of their own, and end at the shared return.
//!
//! Calls that jump on to each other across objects are calls of the same flows again, each around the next until all return at once.
//! As with calls inside each other ([`crate::nesting`]) one that stands for others counts with its time until the next of its flow:
//! summed over all calls, these are the times of the outermost ones. So the next one enters, and ends it.

use core::sync::atomic::Ordering;

use transect_event_abi::thread::FlowCounters;

use crate::exit::{self, Took};
use crate::frame::{self, Frame, INNER_CAPACITY};
use crate::published::Share;
use crate::thread::ThreadState;
use crate::{enter, nesting, slot};

/// A tail call out of a timed call: its time runs to the shared return, or to the next of its flow. Of a `timed` one: calls that it
/// stands for, its begin. `watched`: the next call of its flow is to enter.
///
/// # Safety
/// `outer` is what the caller's rbx held, where its return address is our return site, on the calling thread.
pub unsafe fn call(state: *mut ThreadState, slot: u32, outer: *mut Frame, timed: Option<(u32, u64)>, watched: bool) {
    // SAFETY: it is checked to be an open frame of the pool all the same.
    unsafe {
        let open = frame::is_frame(outer) && (*outer).open != 0;
        if open {
            (*outer).tail = slot;
            (*outer).flags |= frame::SLOW;
        }
        let Some((weight, begin)) = timed else { return };
        if !open || (*outer).inner_count as usize >= INNER_CAPACITY {
            (*(*state).header).untimed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Open from now on: what it calls of itself meanwhile is not added to its total once more.
        let c = frame::counters(outer, slot);
        (*c).depth.store((*c).depth.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let i = (*outer).inner_count as usize;
        (*outer).inner[i] = slot as u64 | (weight as u64) << 32;
        (*outer).inner_start[i] = begin;
        (*outer).inner_rest[i] = 0;
        (*outer).inner_count += 1;
        if weight > 1 && watched {
            (*outer).inner_rest[i] = nesting::next_enters(c);
        }
    }
}

/// A tail call that waits for the next call of its flow.
pub struct Watched {
    frame: *mut Frame,
    at: usize,
}

/// The tail call that waits for a call that has entered with `top` open; `None` if it enters for no such reason.
///
/// # Safety
/// `top` is the innermost frame of the calling thread, `c` its counters of the slot.
pub unsafe fn watched(top: *mut Frame, slot: u32, c: *const FlowCounters) -> Option<Watched> {
    // SAFETY: links of the chain are frames of the pool or the sentinel; never unmapped.
    unsafe {
        if (*c).depth.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut f = top;
        for _ in 0..nesting::SEARCH_MAX {
            if !frame::is_frame(f) {
                return None;
            }
            let waits = |&i: &usize| (*f).inner[i] as u32 == slot && !matches!((*f).inner_rest[i], 0 | ENDED);
            let found = open(&*f).find(waits);
            if let Some(at) = found.filter(|_| core::ptr::eq(frame::counters(f, slot), c)) {
                return Some(Watched { frame: f, at });
            }
            f = (*f).parent;
        }
        None
    }
}

impl Watched {
    /// The call has come, at `now`, by a tail call out of `outer` if that is not null. True if it ends its gap, too.
    ///
    /// # Safety
    /// As for [`watched`]; the stub has counted the call.
    pub unsafe fn meets(self, state: *mut ThreadState, outer: *mut Frame, c: *mut FlowCounters, now: u64) -> bool {
        let Watched { frame: f, at } = self;
        // SAFETY: the frame is open and of this thread.
        unsafe {
            let left = core::mem::take(&mut (*f).inner_rest[at]) - 1;
            if left > 0 {
                nesting::shift(c, i64::from(left));
            }
            if core::ptr::eq(f, outer) {
                end(state, &mut *f, at, now, WHOLE);
                // When the call itself was left, and for the first time by one of its flow, is asked for at its return.
                let mut before = 0..at;
                if at == 0
                    || core::ptr::eq((*f).record, c) && before.all(|i| (*f).inner[i] as u32 != (*f).inner[at] as u32)
                {
                    (*f).inner_rest[at] = ENDED;
                    return left == 0;
                }
                let count = (*f).inner_count as usize;
                (*f).inner.copy_within(at + 1..count, at);
                (*f).inner_start.copy_within(at + 1..count, at);
                (*f).inner_rest.copy_within(at + 1..count, at);
                (*f).inner_count -= 1;
            }
            left == 0
        }
    }
}

/// In [`Frame::inner_rest`]: the tail call has ended before the return.
const ENDED: u32 = u32::MAX;

const WHOLE: Share = Share { attributed: 1.0, criticality: None };

fn open(f: &Frame) -> core::ops::Range<usize> {
    0..(f.inner_count as usize).min(INNER_CAPACITY)
}

/// Time of the tail call at `next` of this frame's, ticks, if the callee of `slot` made it: none of its own.
///
/// # Safety
/// `f` is an open frame of the calling thread.
pub unsafe fn left_for(f: &Frame, slot: u32, next: usize, now: u64) -> u64 {
    if next >= open(f).end {
        return 0;
    }
    let (called, weight) = (f.inner[next] as u32, f.inner[next] >> 32);
    if nesting::is_linked(slot, called) { now.saturating_sub(f.inner_start[next]).wrapping_mul(weight) } else { 0 }
}

/// Calls that were left by a tail call inside this one end with it: the last first, for those before are around it.
///
/// # Safety
/// As for [`left_for`].
pub unsafe fn end_all(state: *mut ThreadState, f: &mut Frame, now: u64, share: Share) {
    f.tail = 0;
    for i in open(f).rev() {
        if f.inner_rest[i] != ENDED {
            // SAFETY: see above.
            unsafe { end(state, f, i, now, share) };
        }
    }
    // The frame goes back to the trampoline, which counts on there being none.
    f.inner_count = 0;
}

/// Tail calls inside a call that was left without return count for nothing.
///
/// # Safety
/// As for [`left_for`].
pub unsafe fn forget_all(f: &mut Frame) {
    for i in open(f) {
        if f.inner_rest[i] == ENDED {
            continue;
        }
        // SAFETY: counters of this thread.
        unsafe {
            let c = frame::counters(f, f.inner[i] as u32);
            nesting::next_need_not(c, core::mem::take(&mut f.inner_rest[i]));
            (*c).depth.store((*c).depth.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        }
    }
    f.inner_count = 0;
}

unsafe fn end(state: *mut ThreadState, f: &mut Frame, i: usize, now: u64, share: Share) {
    // SAFETY: counters of this thread.
    unsafe {
        let (slot, weight) = (f.inner[i] as u32, (f.inner[i] >> 32) as u32);
        let c = frame::counters(f, slot);
        nesting::next_need_not(c, core::mem::take(&mut f.inner_rest[i]));
        let ticks = now.saturating_sub(f.inner_start[i]);
        if slot::edge(slot).1 >= 0xfffe {
            enter::resolve(slot);
        }
        let child = left_for(f, slot, i + 1, now);
        // Inside a call of the flow that has all of its time no more than own time counts, if it is not that one's.
        let covered = (*c).depth.load(Ordering::Relaxed) > 1 && is_covered(f, i, c);
        let own = if covered && !nesting::is_linked(nesting::left_by(f, i), slot) { child } else { ticks };
        let took = Took { ticks, between: exit::usual(c, ticks, weight), own: own.wrapping_sub(child), covered };
        exit::fold(state, c, took, share, weight);
        if weight > 0 {
            exit::adapt(state, c, slot, ticks, now, weight);
        }
    }
}

/// A call of the flow that stands for itself alone is around tail call number `i`.
unsafe fn is_covered(f: &mut Frame, i: usize, c: *const FlowCounters) -> bool {
    let alone = |before: usize| (f.inner[before] >> 32) == 1;
    // SAFETY: as in `left_for`.
    unsafe {
        (0..i).any(|before| f.inner[before] as u32 == f.inner[i] as u32 && alone(before))
            || nesting::is_covered(nesting::around(f, c), c)
    }
}
