//! How long locks are held: from where an acquisition returns to the program to where it calls the release.
//!
//! Both time stamps are taken by the trampoline, the first as the last thing before the return, the second as the first thing
//! after the call: what the agent does in between is longer than many a lock is held. What remains of it is measured at start
//! (`hold_cost.rs`) and taken off by the recorder, of all holds together: time stamps come in steps that may be longer than
//! a hold, so that a single one tells little.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::api_table::handler;
use transect_event_abi::thread::LockRecord;

use crate::thread::ThreadState;
use crate::{arch, arena, cpu_time, hold_cost, lock, period, slot};

/// Where a lock is held this long in the mean, each of its acquisitions is timed, which costs it 4 % at most; microseconds.
const LONG_HOLD_US: u64 = 25;

/// A hold that is longer than [`period::OUTLIER_MEANS`](transect_event_abi::thread::OUTLIER_MEANS) others and this may have lost
/// its CPU; microseconds.
const DOUBTFUL_US: u64 = 20;

/// The time stamp counter of many CPUs counts in steps of up to 10 ns, and whoever reads it waits for the next step: a hold that
/// begins at one would show whole steps, whatever it takes. So it is lengthened by up to so many cycles by chance, two steps or
/// more; what that adds in the mean is in what an empty hold shows.
const DITHER: u32 = 64;

/// See [`spread`].
const MOST_OFTEN: f64 = 4.0;

/// A lock whose acquisition time was taken.
#[repr(C)]
pub struct Held {
    object: u64,
    record: *const LockRecord,
    since: u64,
}

/// What else is known of a [`Held`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Weight {
    /// Acquisitions that it stands for.
    calls: u64,
    /// Ticks held before waits on a condition.
    before: u64,
}

/// Locks held by a thread whose acquisition time was taken.
#[repr(C)]
pub struct Holds {
    /// By address.
    pub held: [Held; 8],
    /// When the release that is being entered was called; 0: not known.
    pub released: u64,
    /// Where the return that is under way leaves its time; null: nowhere.
    pub stamp: *mut u64,
    /// How many cycles the return that is under way is lengthened by: see `DITHER`.
    pub dither: u32,
    weights: [Weight; 8],
    /// The mutex that was given away to wait on a condition.
    lent: Held,
    lent_weight: Weight,
}

impl Held {
    const fn none() -> Self {
        Held { object: 0, record: core::ptr::null(), since: 0 }
    }
}

impl Holds {
    /// None is held.
    pub const fn none() -> Self {
        const NOTHING: Weight = Weight { calls: 0, before: 0 };
        Holds {
            held: [const { Held::none() }; 8],
            released: 0,
            stamp: core::ptr::null_mut(),
            dither: 1,
            weights: [NOTHING; 8],
            lent: Held::none(),
            lent_weight: NOTHING,
        }
    }

    /// True if no hold time is being taken.
    pub fn is_empty(&self) -> bool {
        self.held.iter().all(|held| held.object == 0)
    }

    /// The record of a lock whose hold time is being taken; null if it is not.
    pub fn record(&self, object: u64) -> *const LockRecord {
        let held = &self.held[index(object)];
        if held.object == object { held.record } else { core::ptr::null() }
    }
}

fn index(object: u64) -> usize {
    (object >> 4 ^ object >> 9) as usize & 7
}

/// From where the acquisition returns on the lock's hold time is taken. `returns`: through the trampoline's own path, which notes
/// when.
///
/// # Safety
/// `state` is the calling thread's; `l` lies in its extent.
pub unsafe fn begin(state: *mut ThreadState, object: u64, l: *const LockRecord, calls: u64, returns: bool) {
    // SAFETY: see above.
    unsafe { hold(state, Held { object, record: l, since: 0 }, Weight { calls, before: 0 }, returns) }
}

unsafe fn hold(state: *mut ThreadState, held: Held, weight: Weight, returns: bool) {
    // SAFETY: the calling thread's own.
    unsafe {
        lock::end_leases();
        let holds = &mut (*state).holds;
        let at = index(held.object);
        holds.weights[at] = weight;
        holds.held[at] = Held { since: arch::ticks(), ..held };
        if returns && (*state).stopped == 0 {
            holds.stamp = &raw mut holds.held[at].since;
            (*state).random = period::random((*state).random);
            holds.dither = 1 + (((*state).random as u64 * u64::from(DITHER)) >> 32) as u32;
        }
    }
}

/// A lock is about to be released.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn release(state: *mut ThreadState, object: u64) {
    // SAFETY: see above; `record` points into this thread's extent while `object` is set.
    unsafe {
        let holds = &mut (*state).holds;
        let now = core::mem::take(&mut holds.released);
        let now = if now == 0 { arch::ticks() } else { now };
        let at = index(object);
        let h = &mut holds.held[at];
        if h.object != object || object == 0 {
            return;
        }
        let l = &*h.record;
        let of_mutex = slot::kind(l.slots.load(Ordering::Relaxed) as u32).handler == handler::LOCK_ACQUIRE;
        if of_mutex && lock::is_nested(object) {
            return;
        }
        h.object = 0;
        let Weight { calls, before } = holds.weights[at];
        let ticks = before + now.saturating_sub(h.since);
        fold(state, l, ticks, calls);
        if is_long(l) {
            lock::forget_quick(state, object, l);
        }
    }
}

/// A mutex is about to be given away for a wait on a condition. True if its hold time is being taken: it goes on after the wait
/// ([`reacquired`]).
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn release_to_wait(state: *mut ThreadState, object: u64) -> bool {
    let now = arch::ticks();
    // SAFETY: as in `release`.
    unsafe {
        let holds = &mut (*state).holds;
        let at = index(object);
        let h = &mut holds.held[at];
        if h.object != object || object == 0 {
            return false;
        }
        holds.lent_weight = holds.weights[at];
        // The release at the end takes off what one empty hold shows.
        holds.lent_weight.before += hold_cost::less_empty(now.saturating_sub(h.since));
        holds.lent = core::mem::replace(h, Held::none());
        true
    }
}

/// The wait is over, and the mutex held again.
///
/// # Safety
/// `state` is the calling thread's.
pub unsafe fn reacquired(state: *mut ThreadState, returns: bool) {
    // SAFETY: see above.
    unsafe {
        let held = core::mem::replace(&mut (*state).holds.lent, Held::none());
        if held.object != 0 {
            hold(state, held, (*state).holds.lent_weight, returns);
        }
    }
}

/// Adds a hold that stands for so many acquisitions.
unsafe fn fold(state: *const ThreadState, l: &LockRecord, ticks: u64, calls: u64) {
    let (held, samples) = (l.held.load(Ordering::Relaxed), l.held_samples.load(Ordering::Relaxed));
    let between = if calls > 1 {
        let mean = held / samples.max(1);
        let rate = arena::header().ticks_per_us as u64;
        // SAFETY: `state` is the calling thread's.
        let before = unsafe { (*state).switches };
        if !is_outlier(ticks, mean, rate, || cpu_time::switches() != before) || has_tail(l, held) {
            ticks
        } else {
            mean
        }
    } else {
        ticks
    };
    l.held.store(held + ticks + between * (calls - 1), Ordering::Relaxed);
    l.held_samples.store(samples + calls, Ordering::Relaxed);
    if calls > 1 {
        let (k, d) = ((calls as f64) * (calls - 1) as f64, ticks as f64);
        add(&l.squares, k * d * d);
        add(&l.products, k * d);
        add(&l.weights, k);
    }
}

/// A hold that lost its CPU says nothing of those it stands for: it is much longer than others, and its thread has `lost` its CPU
/// lately, or it took as long as a time slice.
fn is_outlier(ticks: u64, mean: u64, rate: u64, lost: impl FnOnce() -> bool) -> bool {
    ticks > period::outlier(mean, rate) || ticks > period::outlier(mean, 0) + DOUBTFUL_US * rate && lost()
}

/// Some of the holds, each for those it stands for, are half of the time: from then on they are no accident.
fn has_tail(l: &LockRecord, held: u64) -> bool {
    period::has_tail(sum(&l.squares) as f32, held)
}

/// How many times as often as others holds are timed whose times differ by more than their mean: what that gains is in proportion to
/// their standard deviation (Neyman's allocation), and it costs 4 % at most.
pub fn spread(l: &LockRecord) -> u64 {
    let mean = sum(&l.products) / sum(&l.weights).max(1.0);
    let square = sum(&l.squares) / sum(&l.weights).max(1.0);
    times_as_often(mean, square)
}

fn times_as_often(mean: f64, square: f64) -> u64 {
    let ratio = square / (mean * mean).max(1.0);
    if ratio > 1.0 + MOST_OFTEN * MOST_OFTEN {
        MOST_OFTEN as u64
    } else if ratio > 1.0 + 4.0 {
        2
    } else {
        1
    }
}

fn sum(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Ordering::Relaxed))
}

fn add(cell: &AtomicU64, by: f64) {
    cell.store((sum(cell) + by).to_bits(), Ordering::Relaxed);
}

/// Timing each of its acquisitions costs little.
pub fn is_long(l: &LockRecord) -> bool {
    let samples = l.held_samples.load(Ordering::Relaxed);
    l.held.load(Ordering::Relaxed) > samples.saturating_mul(LONG_HOLD_US * arena::header().ticks_per_us as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_that_differ_are_timed_more_often() {
        assert_eq!(times_as_often(0.0, 0.0), 1);
        assert_eq!(times_as_often(100.0, 11_000.0), 1);
        assert_eq!(times_as_often(100.0, 60_000.0), 2);
        assert_eq!(times_as_often(100.0, 260_000.0), 4, "one in 100 takes 50 times as long");
    }

    #[test]
    fn a_hold_that_lost_its_cpu_stands_for_itself() {
        let rate = 2000;
        assert!(!is_outlier(100_000, 60, rate, || false), "50 µs");
        assert!(is_outlier(100_000, 60, rate, || true));
        assert!(!is_outlier(30_000, 60, rate, || true), "15 µs");
        assert!(!is_outlier(100_000, 10_000, rate, || true), "many are as long");
        assert!(is_outlier(3_000_000, 60, rate, || false), "a time slice of others");
    }
}
