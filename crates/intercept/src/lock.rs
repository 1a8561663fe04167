//! Locks: acquisitions, contention and hold time per lock and calling place.
//!
//! Whether a lock is held is read from the lock itself before the call (glibc's layouts), so an uncontended
//! acquisition costs one table entry and no time stamps; contended ones are always timed, uncontended ones now and
//! then, each standing for the ones between.

use core::sync::atomic::{AtomicU32, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::thread::{LOCK_CAPACITY, LOCKS_OFFSET, LockRecord};

use crate::arch;
use crate::enter::Registers;
use crate::frame::{CONTENDED, Frame};
use crate::thread::ThreadState;

/// One in so many uncontended acquisitions (on average) is timed, and its hold time taken.
const SAMPLE: u32 = 64;

/// An acquisition of a lock that looked free waited, if it took longer; nanoseconds.
const LOST_RACE_NS: u64 = 500;

static GLIBC: AtomicU32 = AtomicU32::new(0);

/// The program's libc is glibc: lock words can be read.
pub fn know_glibc() {
    GLIBC.store(1, Ordering::Relaxed);
}

/// Calls until the next sample: random, for lock and unlock calls come in patterns that a fixed stride would fall in
/// step with.
unsafe fn gap(state: *mut ThreadState) -> u32 {
    // SAFETY: the calling thread's state.
    unsafe {
        (*state).random = crate::period::random((*state).random);
        1 + (((*state).random as u64 * (2 * SAMPLE as u64 - 1)) >> 32) as u32
    }
}

/// True if contention is read from the locks themselves.
pub fn knows() -> bool {
    GLIBC.load(Ordering::Relaxed) != 0
}

/// One release in 64 is timed: what it stands for, or `None` to count it only.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn sample_release(state: *mut ThreadState) -> Option<u32> {
    // SAFETY: see above.
    unsafe {
        if (*state).release_countdown == 0 {
            let ended = (*state).release_gap.max(1);
            (*state).release_gap = gap(state);
            (*state).release_countdown = (*state).release_gap - 1;
            return Some(ended);
        }
        (*state).release_countdown -= 1;
        None
    }
}

/// A lock whose acquisition time was taken.
#[repr(C)]
pub struct Held {
    object: u64,
    record: *const LockRecord,
    since: u64,
}

impl Held {
    /// An empty entry.
    pub const fn none() -> Self {
        Held { object: 0, record: core::ptr::null(), since: 0 }
    }
}

/// Entries of the cache through which the trampoline counts uncontended acquisitions.
pub const QUICK_ENTRIES: usize = 16;

/// Cached place of a lock's record.
#[repr(C)]
pub struct Quick {
    object: u64,
    caller: u64,
    record: *const LockRecord,
    reserved: u64,
}

impl Quick {
    /// An empty entry.
    pub const fn none() -> Self {
        Quick { object: 0, caller: 0, record: core::ptr::null(), reserved: 0 }
    }
}

/// What is done with an acquisition.
pub enum Attempt {
    /// Counted, not timed.
    Counted,
    /// To be timed.
    Timed {
        /// Acquisitions it stands for.
        weight: u32,
        /// The lock was held.
        contended: bool,
    },
}

/// True for handlers that acquire a lock.
pub fn acquires(handler: u8) -> bool {
    matches!(handler, handler::LOCK_ACQUIRE | handler::SPIN_ACQUIRE | handler::READ_ACQUIRE | handler::WRITE_ACQUIRE)
}

/// Is the lock held, so that the call would wait? `None` if its layout is unknown.
unsafe fn is_held(state: *mut ThreadState, handler: u8, object: u64) -> Option<bool> {
    if GLIBC.load(Ordering::Relaxed) == 0 || object < 4096 {
        return None;
    }
    // SAFETY: the program passes this address to the lock's own function, which reads the same words.
    unsafe {
        let word = |offset: u64| (*((object + offset) as *const AtomicU32)).load(Ordering::Relaxed);
        Some(match handler {
            // struct __pthread_mutex_s: lock, count, owner
            handler::LOCK_ACQUIRE => word(0) != 0 && word(8) != (*(*state).header).tid.load(Ordering::Relaxed),
            // pthread_spinlock_t on x86: 1 = free
            handler::SPIN_ACQUIRE => word(0) as i32 <= 0,
            // struct __pthread_rwlock_arch_t: readers (count from bit 3), …, current writer at 24
            handler::READ_ACQUIRE => word(24) != 0,
            _ => word(24) != 0 || word(0) >= 8,
        })
    }
}

/// A lock is about to be acquired.
///
/// # Safety
/// `state` is the calling thread's; `r` are the registers of the call.
pub unsafe fn attempt(state: *mut ThreadState, slot: u32, handler: u8, r: &Registers) -> Attempt {
    // SAFETY: see above.
    unsafe {
        let contended = match is_held(state, handler, r.rdi) {
            None => return Attempt::Timed { weight: 1, contended: false },
            Some(held) => held,
        };
        if contended {
            return Attempt::Timed { weight: 1, contended };
        }
        if (*state).hold_countdown == 0 {
            let ended = (*state).hold_gap.max(1);
            (*state).hold_gap = gap(state);
            (*state).hold_countdown = (*state).hold_gap - 1;
            return Attempt::Timed { weight: ended, contended };
        }
        (*state).hold_countdown -= 1;
        if let Some(l) = find(state, r.rdi, r.ret, slot) {
            let i = (r.rdi >> 4 ^ r.rdi >> 9 ^ r.ret) as usize & (QUICK_ENTRIES - 1);
            (*state).quick[i] = Quick { object: r.rdi, caller: r.ret, record: l, reserved: 0 };
            l.acquisitions.store(l.acquisitions.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        Attempt::Counted
    }
}

/// A timed acquisition has returned.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn acquired(state: *mut ThreadState, frame: &Frame, now: u64) {
    // SAFETY: see above; the entry of `held` is this thread's.
    unsafe {
        let Some(l) = find(state, frame.object, frame.ret, frame.slot) else { return };
        let add = |cell: &core::sync::atomic::AtomicU64, by: u64| {
            cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        };
        add(&l.acquisitions, 1);
        let waited = now.saturating_sub(frame.start);
        if frame.flags & CONTENDED != 0 {
            add(&l.contended, 1);
            add(&l.wait, waited);
        } else if waited > LOST_RACE_NS * crate::arena::header().ticks_per_us as u64 / 1000 && knows() {
            // It was free when we looked and taken when the call came: as often among those not timed.
            // The sample stands for acquisitions of all locks; for this one at most for those it had.
            let room = l.acquisitions.load(Ordering::Relaxed).saturating_sub(l.contended.load(Ordering::Relaxed));
            let k = (frame.weight as u64).min(room).max(1);
            let usual = waited.min(crate::period::outlier(0, crate::arena::header().ticks_per_us as u64));
            let sum = waited + usual * (k - 1);
            add(&l.contended, k);
            add(&l.wait, sum);
            crate::wait::note(state, frame.slot, frame.object, sum, k as u32);
        }
        let h = &mut (*state).held[index(frame.object)];
        h.record = l;
        h.object = frame.object;
        h.since = arch::ticks();
    }
}

/// A lock is about to be released.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn release(state: *mut ThreadState, object: u64) {
    let now = arch::ticks();
    // SAFETY: see above; `record` points into this thread's extent while `object` is set.
    unsafe {
        let h = &mut (*state).held[index(object)];
        if h.object == object && object != 0 {
            let l = &*h.record;
            let (sum, samples) = (l.held.load(Ordering::Relaxed), l.held_samples.load(Ordering::Relaxed));
            // A holder that was preempted says nothing about the acquisitions it stands for.
            let limit = sum
                .checked_div(samples)
                .map_or(u64::MAX, |mean| crate::period::outlier(mean, crate::arena::header().ticks_per_us as u64));
            l.held.store(sum + now.saturating_sub(h.since).min(limit), Ordering::Relaxed);
            l.held_samples.store(l.held_samples.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            h.object = 0;
        }
    }
}

fn index(object: u64) -> usize {
    (object >> 4 ^ object >> 9) as usize & 7
}

unsafe fn find<'a>(state: *mut ThreadState, object: u64, caller: u64, slot: u32) -> Option<&'a LockRecord> {
    // SAFETY: the table lies in this thread's extent.
    unsafe {
        let h = (*state).header;
        let table = (h as *mut u8).add(LOCKS_OFFSET) as *const LockRecord;
        let mut i = ((object >> 3) ^ caller.wrapping_mul(0x9e37_79b9) ^ (object >> 15)) as usize;
        for _ in 0..16 {
            i &= LOCK_CAPACITY - 1;
            let l = &*table.add(i);
            let used = l.object.load(Ordering::Relaxed);
            if used == 0 {
                let around = (*(*state).top).slot;
                l.caller.store(caller, Ordering::Relaxed);
                l.slots.store(slot as u64 | (around as u64) << 32, Ordering::Relaxed);
                l.object.store(object, Ordering::Relaxed);
                return Some(l);
            }
            if used == object && l.caller.load(Ordering::Relaxed) == caller {
                return Some(l);
            }
            i += 1;
        }
        (*h).locks_refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}
