//! Calls of a flow inside a call of the same flow: a callback that calls the API again, or libraries that call each other.
//!
//! A flow's total is the time of its outermost calls. Whether a call that is timed for many others is one of them can't be
//! known, for those around it may not be timed. So it counts with its time less that of the calls of the flow directly inside
//! it: summed over all calls, these are the times of the outermost ones. For that the calls directly inside are timed as well;
//! they stand for no call themselves (weight 0).
//!
//! A call that stands for itself alone (weight 1) counts with all of its time, and those inside it for nothing more: they are
//! *covered*.

use core::sync::atomic::Ordering;

use transect_event_abi::thread::FlowCounters;

use crate::frame::{self, ENTERED, Frame, WATCHING};
use crate::{arch, arena, enter, slot};

/// So many calls directly inside one call are timed; the others are taken as long.
const TIMED_MAX: u32 = 64;
/// What of a timed call's cost lies before the agent's first time stamp and after its last, ns: the stub, registers saved and
/// restored. Measured: 35 to 60.
const OUTSIDE_NS: u64 = 45;
/// Frames looked at for calls of the same flow. Those of coroutines, which outlive the frames around them, may close into a ring.
pub const SEARCH_MAX: usize = 128;

/// What a call knows of the calls of its flow inside.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Nested {
    /// Ticks of those directly inside, what timing them costs included.
    ticks: u64,
    /// Of `ticks`, in calls that are part of the call's own time: reached by a function pointer, not through linkage.
    own: u64,
    /// Calls of the flow until this one, and until no more were timed.
    calls: [u64; 2],
    /// Time stamp when the agent was entered ([`ENTERED`]).
    entered: u64,
    /// Calls left of the gap in force while the next call enters out of turn; 0 while none does.
    rest: u32,
    /// Calls directly inside that were timed.
    timed: u32,
}

impl Nested {
    /// Of a call that begins.
    pub const fn new(entered: u64) -> Self {
        Self { ticks: 0, own: 0, calls: [0; 2], entered, rest: 0, timed: 0 }
    }

    /// A part of what was measured, for all calls inside until `calls`.
    fn of_all(&self, part: u64, calls: u64) -> u64 {
        if self.timed < TIMED_MAX {
            return part;
        }
        let [first, last] = self.calls;
        (part as f64 * calls.wrapping_sub(first) as f64 / last.wrapping_sub(first).max(1) as f64) as u64
    }
}

/// The innermost open call of a flow around another call.
#[derive(Clone, Copy)]
pub struct Around {
    frame: *mut Frame,
    /// The frame directly inside it that leads to the call; null at the entry of one directly inside.
    below: *mut Frame,
}

/// When a call began to cost, if the agent was entered for it then.
fn begin(entered: u64) -> u64 {
    entered.saturating_sub(OUTSIDE_NS * u64::from(arena::header().ticks_per_us) / 1000)
}

/// How a call that returns stands to others of its flow.
pub struct Standing {
    around: Option<Around>,
    covered: bool,
    /// Its time is part of the own time of the call around it.
    in_own: bool,
    /// Ticks of calls of the flow inside that count themselves.
    inside: u64,
    /// Of these, part of its own time.
    inside_own: u64,
}

/// Searches from `at` outwards, `below` being the frame inside it, for as many frames as `left` allows.
unsafe fn search(
    mut at: *mut Frame,
    mut below: *mut Frame,
    c: *const FlowCounters,
    left: &mut usize,
) -> Option<Around> {
    while *left > 0 {
        *left -= 1;
        // SAFETY: links of the chain are frames of the pool or the sentinel, which is its own parent; never unmapped.
        unsafe {
            if !frame::is_frame(at) {
                return None;
            }
            if core::ptr::eq((*at).record, c) && (*at).open != 0 {
                return Some(Around { frame: at, below });
            }
            below = at;
            at = (*at).parent;
        }
    }
    None
}

/// The open call of the flow around one that begins with `top` open.
///
/// # Safety
/// `top` is the innermost frame of the calling thread, `c` its counters of the flow.
pub unsafe fn around(top: *mut Frame, c: *const FlowCounters) -> Option<Around> {
    // SAFETY: see above.
    unsafe {
        if (*c).depth.load(Ordering::Relaxed) == 0 {
            return None;
        }
        search(top, core::ptr::null_mut(), c, &mut { SEARCH_MAX })
    }
}

/// True if a call that stands for itself alone is around it.
///
/// # Safety
/// As for [`around`].
pub unsafe fn is_covered(mut around: Option<Around>, c: *const FlowCounters) -> bool {
    // SAFETY: as in `search`.
    unsafe {
        let mut left = SEARCH_MAX;
        while let Some(Around { frame, .. }) = around {
            if (*frame).weight == 1 {
                return true;
            }
            around = search((*frame).parent, frame, c, &mut left);
        }
    }
    false
}

impl Around {
    /// A call has entered out of turn, directly inside this one: true if it is one that ends its gap, too; else it stands for none.
    /// `None` if it entered for no such reason.
    ///
    /// # Safety
    /// As for [`around`]; the stub has counted the call.
    pub unsafe fn enters(self, c: *const FlowCounters) -> Option<bool> {
        // SAFETY: the frame is open and of this thread.
        unsafe {
            let nested = &mut (*self.frame).nested;
            if (*self.frame).flags & WATCHING == 0 || nested.rest == 0 {
                return None;
            }
            let left = core::mem::take(&mut nested.rest) - 1;
            if left > 0 {
                shift(c, i64::from(left));
            }
            Some(left == 0)
        }
    }
}

/// Moves the end of the gap in force: calls counted so far stay the same.
///
/// # Safety
/// `c` are counters of the calling thread.
pub unsafe fn shift(c: *const FlowCounters, by: i64) {
    // SAFETY: counters of the calling thread; single read-modify-writes, each whole before a signal handler's.
    unsafe {
        arch::add_own_u64(&(*c).issued, by as u64);
        arch::add_own_u32(&(*c).countdown, by as u32);
    }
}

/// The next call of the flow enters.
unsafe fn arm(f: *mut Frame, c: *const FlowCounters) {
    // SAFETY: as in `shift`; the frame is open and of this thread.
    unsafe {
        let rest = next_enters(c);
        if rest > 0 {
            (*f).nested.rest = rest;
        }
    }
}

/// The next call of the flow enters: how many were left of the gap in force, 0 if that is its last anyway.
///
/// # Safety
/// As for [`shift`].
pub unsafe fn next_enters(c: *const FlowCounters) -> u32 {
    // SAFETY: see above.
    unsafe {
        let left = (*c).countdown.load(Ordering::Relaxed) as i32;
        if left <= 0 {
            return 0;
        }
        shift(c, 1 - i64::from(left));
        left as u32
    }
}

/// It need not, after all: `rest` is what [`next_enters`] returned.
///
/// # Safety
/// As for [`shift`].
pub unsafe fn next_need_not(c: *const FlowCounters, rest: u32) {
    if rest > 0 {
        // SAFETY: see above.
        unsafe { shift(c, i64::from(rest) - 1) };
    }
}

/// A call that stands for others begins: those of the flow directly inside it will be timed.
///
/// # Safety
/// `f` is the call's frame, on the calling thread, `around` the call of its flow around it.
pub unsafe fn watch(f: *mut Frame, around: Option<Around>) {
    // SAFETY: see above.
    unsafe {
        let c = (*f).record;
        if is_covered(around, c) {
            return;
        }
        (*f).flags |= WATCHING;
        (*f).nested.calls[0] = calls(c);
        arm(f, c);
    }
}

/// Calls of the flow so far.
unsafe fn calls(c: *const FlowCounters) -> u64 {
    // SAFETY: as in `shift`.
    unsafe {
        let (issued, left) = ((*c).issued.load(Ordering::Relaxed), (*c).countdown.load(Ordering::Relaxed));
        issued.wrapping_sub(left as i32 as i64 as u64)
    }
}

/// Time since a call was left by a tail call to its own flow.
#[derive(Clone, Copy)]
pub struct Left {
    ticks: u64,
    /// Of `ticks`, part of its own time.
    own: u64,
}

/// The slot whose callee made the tail call number `i` of a call.
pub fn left_by(f: &Frame, i: usize) -> u32 {
    i.checked_sub(1).map_or(f.slot, |before| f.inner[before] as u32)
}

/// Of a call that returns.
///
/// # Safety
/// `f` is an open frame of the calling thread.
pub unsafe fn left(f: &Frame, now: u64) -> Left {
    let calls = 0..(f.inner_count as usize).min(frame::INNER_CAPACITY);
    // SAFETY: see above.
    let same = calls.into_iter().find(|&i| core::ptr::eq(unsafe { frame::counters(f, f.inner[i] as u32) }, f.record));
    same.map_or(Left { ticks: 0, own: 0 }, |i| {
        let ticks = now.saturating_sub(f.inner_start[i]);
        Left { ticks, own: if is_linked(left_by(f, i), f.inner[i] as u32) { 0 } else { ticks } }
    })
}

/// True if what runs in the callee of `outer` made the call of `inner` through linkage.
pub fn is_linked(outer: u32, inner: u32) -> bool {
    if slot::edge(outer).1 >= 0xfffe {
        // Its callee runs, so its target is bound.
        enter::resolve(outer);
    }
    slot::edge(outer).1 == slot::edge(inner).0
}

impl Standing {
    /// Of the call of `f`, which ends. From here on the flow's gap is its own again.
    ///
    /// # Safety
    /// `f` is of the calling thread, no frame above it is open, and calls left by tail calls inside it have been folded.
    pub unsafe fn of(f: *mut Frame, left: Left) -> Self {
        // SAFETY: see above.
        unsafe {
            let c = (*f).record;
            let rest = core::mem::take(&mut (*f).nested.rest);
            if (*f).flags & WATCHING != 0 {
                next_need_not(c, rest);
            }
            let depth = (*c).depth.load(Ordering::Relaxed);
            let around = if depth > 1 { search((*f).parent, f, c, &mut { SEARCH_MAX }) } else { None };
            let nested = &(*f).nested;
            let (inside, inside_own) = if (*f).flags & WATCHING != 0 {
                let all = calls(c);
                (nested.of_all(nested.ticks, all) + left.ticks, nested.of_all(nested.own, all) + left.own)
            } else {
                (0, 0)
            };
            Self {
                around,
                // One around it that has no frame of its own was left by a tail call: it has the time.
                covered: if around.is_none() { depth > 1 } else { is_covered(around, c) },
                in_own: around.is_some_and(|a| !is_linked((*a.frame).slot, (*a.below).slot)),
                inside,
                inside_own,
            }
        }
    }

    /// What counts as the callee's own of a call of so many ticks, `child` of them in calls that it made. May be less than
    /// nothing: a child stands for all of its calls.
    pub fn own(&self, ticks: u64, child: u64) -> u64 {
        if self.is_part() { 0 } else { ticks.wrapping_sub(self.inside_own).wrapping_sub(child) }
    }

    /// True if a call around it has its time.
    pub fn is_covered(&self) -> bool {
        self.covered
    }

    /// Covered, and its time is part of the own time of the call around it: its children are that one's.
    pub fn is_part(&self) -> bool {
        self.covered && self.in_own
    }

    /// Ticks that count of a call of so many, in its total unless it is covered, and in the call around it.
    pub fn counted(&self, ticks: u64) -> u64 {
        if self.covered { ticks } else { ticks.saturating_sub(self.inside) }
    }

    /// The call around of which a call with this frame is part: calls of the flow around it, of whose own time it is part, are none.
    ///
    /// # Safety
    /// As for [`Standing::of`].
    pub unsafe fn charged_to(&self, f: *const Frame) -> *mut Frame {
        // SAFETY: see above.
        unsafe {
            let mut parent = (*f).parent;
            if self.covered {
                return parent;
            }
            let mut inner = (*f).slot;
            for _ in 0..SEARCH_MAX {
                if !frame::is_frame(parent)
                    || !core::ptr::eq((*parent).record, (*f).record)
                    || is_linked((*parent).slot, inner)
                {
                    break;
                }
                inner = (*parent).slot;
                parent = (*parent).parent;
            }
            parent
        }
    }

    /// What callbacks called inside a call that is part of the one around it, they called inside that.
    ///
    /// # Safety
    /// As for [`Standing::of`].
    pub unsafe fn hand_on(&self, called_back: frame::CalledBack) {
        if let Some(Around { frame: outer, .. }) = self.around {
            // SAFETY: `outer` was found open, and frames are never unmapped.
            unsafe {
                (*outer).called_back.add(called_back);
                (*outer).flags |= frame::SLOW;
            }
        }
    }

    /// The call has been folded: the one around it learns what it took until now.
    ///
    /// # Safety
    /// As for [`Standing::of`]; `ticks` is how long the call took.
    pub unsafe fn end(&self, f: *mut Frame, ticks: u64) {
        let Some(Around { frame: outer, .. }) = self.around else { return };
        // SAFETY: `outer` was found open, and frames are never unmapped.
        unsafe {
            if self.is_part() {
                (*outer).child = (*outer).child.wrapping_add((*f).child);
            }
            let c = (*f).record;
            if (*outer).flags & WATCHING == 0 || (*outer).nested.timed >= TIMED_MAX {
                return;
            }
            let took = if (*f).flags & ENTERED == 0 {
                ticks
            } else {
                arch::ticks().saturating_sub(begin((*f).nested.entered)).max(ticks)
            };
            let nested = &mut (*outer).nested;
            nested.ticks += took;
            nested.own += if self.in_own { took } else { 0 };
            nested.timed += 1;
            if nested.timed == TIMED_MAX {
                nested.calls[1] = calls(c);
            } else {
                arm(outer, c);
            }
        }
    }
}
