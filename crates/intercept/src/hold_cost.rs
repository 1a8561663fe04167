//! What the hold time of a lock shows that is held for nothing, measured at start: from the time stamp of its acquisition to that of
//! its release passes what the agent does between the two.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use transect_event_abi::api_table::{API_NAME_CAPACITY, ApiEntry, NO_SIZE, class, handler};
use transect_event_abi::process::{HOLD_SCALE, SLOT_INTERNAL};

use crate::thread::ThreadState;
use crate::{arch, lock, period, process, slot};

/// Holds whose time is taken, of each kind: time stamps come in steps, so that it takes many to know a part of one.
const TIMED: usize = 48;
/// Where not all are timed, so many are only counted before each, at most: the CPU predicts those.
const COUNTED: u32 = 7;

/// Steps of a hold of known time: more cycles than the agent's work in a hold takes.
const CHAIN: u32 = 48;

/// Ticks of an empty hold.
static EMPTY: AtomicU32 = AtomicU32::new(0);

/// A part of a hold less what an empty one shows, ticks.
pub fn less_empty(ticks: u64) -> u64 {
    ticks.saturating_sub(EMPTY.load(Ordering::Relaxed).into())
}

/// Measures it, on slots of our own that no report lists. What is done in a hold goes on while the agent works, which hides a part:
/// how much is seen by holds that take a known time.
///
/// # Safety
/// `state` is the calling thread's, and no lock was called through a slot yet.
pub unsafe fn calibrate(state: *mut ThreadState) {
    let Some(first) = slot::reserve(2) else { return };
    for (s, handler) in [(first, handler::LOCK_ACQUIRE), (first + 1, handler::LOCK_RELEASE)] {
        let class = if handler == handler::LOCK_ACQUIRE { class::LOCK } else { class::COMPUTE };
        let api = ApiEntry { hash: 1, class, handler, size_arg: NO_SIZE, reserved: 0, name: [0; API_NAME_CAPACITY] };
        slot::describe(s, u16::MAX, 0, 0, Some(&api), b"", SLOT_INTERNAL);
        slot::set_target(s, done as *const () as u64);
    }
    let true_chain = true_chain();
    let chain = core::hint::black_box(chain as extern "C" fn(u64) -> u64);
    let nothing = core::hint::black_box(same as extern "C" fn(u64) -> u64);
    // SAFETY: these are the slots that were described above; tables and state are this thread's.
    let least = |inside| unsafe { mean(state, first, inside).min(mean(state, first, inside)) };
    // The first ones meet cold caches.
    least(nothing);
    let (empty, with_chain) = (least(nothing), least(chain));
    lock::forget_releases();
    let scale = u64::from(HOLD_SCALE);
    let hidden = (empty + true_chain).saturating_sub(with_chain).min(empty);
    EMPTY.store((empty / scale) as u32, Ordering::Relaxed);
    process::header().empty_hold.store(empty as u32, Ordering::Relaxed);
    process::header().hidden_hold.store(hidden as u32, Ordering::Relaxed);
}

/// What holds show in which `inside` is called, in the mean, in the unit of [`HOLD_SCALE`]. One place in the code, for the lock's
/// record goes by that.
///
/// # Safety
/// `state` is the calling thread's; slots `first` and the next one acquire and release.
#[inline(never)]
unsafe fn mean(state: *mut ThreadState, first: u32, inside: extern "C" fn(u64) -> u64) -> u64 {
    /// As large as any lock: free, whatever its kind.
    static LOCK: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let object = LOCK.as_ptr() as u64;
    let (mut shown, mut number, mut random, mut counted) = ([0; TIMED], 0, 0x1234_5678, 0);
    // SAFETY: see above; the stubs of our own slots enter `done`.
    unsafe {
        let call = |s: u32| core::mem::transmute::<u64, extern "C" fn(u64) -> i32>(arch::stub(s))(object);
        // Without times there are no records.
        for _ in 0..TIMED * (COUNTED as usize + 1) {
            if number == TIMED {
                break;
            }
            (*state).hold_countdown = counted;
            call(first);
            let record = (*state).holds.record(object);
            core::hint::black_box(inside(1));
            if record.is_null() {
                call(first + 1);
                counted = (*state).hold_countdown;
                continue;
            }
            let sums = || ((*record).held.load(Ordering::Relaxed), (*record).held_samples.load(Ordering::Relaxed));
            let before = sums();
            call(first + 1);
            let after = sums();
            shown[number] = (after.0 - before.0) / (after.1 - before.1).max(1);
            number += 1;
            random = period::random(random);
            counted = ((u64::from(random) * u64::from(COUNTED + 1)) >> 32) as u32;
            if number == TIMED {
                // Nobody else's lock is in the table yet.
                lock::forget_quick(state, object, &*record);
                core::ptr::write_bytes(record.cast_mut(), 0, 1);
            }
        }
        (*state).hold_countdown = 0;
    }
    if number == TIMED { trimmed_mean(&mut shown) } else { 0 }
}

/// The mean of those that no interrupt met, in the unit of [`HOLD_SCALE`].
fn trimmed_mean(shown: &mut [u64; TIMED]) -> u64 {
    shown.sort_unstable();
    let most = shown[TIMED / 2] * 3;
    let (sum, number) =
        shown.iter().filter(|&&ticks| ticks <= most).fold((0, 0), |(sum, number), ticks| (sum + ticks, number + 1));
    sum * u64::from(HOLD_SCALE) / number.max(1)
}

/// What [`chain`] takes, in the unit of [`HOLD_SCALE`].
fn true_chain() -> u64 {
    let chain = core::hint::black_box(chain as extern "C" fn(u64) -> u64);
    let mut times = [0; 9];
    for time in &mut times {
        let start = arch::ticks();
        let mut x = 1;
        for _ in 0..HOLD_SCALE {
            x = chain(x);
        }
        core::hint::black_box(x);
        *time = arch::ticks() - start;
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Each step waits for the one before.
extern "C" fn chain(mut x: u64) -> u64 {
    for _ in 0..CHAIN {
        x = core::hint::black_box(x).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x
}

extern "C" fn done(_: u64) -> i32 {
    0
}

extern "C" fn same(x: u64) -> u64 {
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_none_of_an_empty_hold() {
        let mut shown: [u64; TIMED] = core::array::from_fn(|i| if i % 2 == 0 { 26 } else { 52 });
        assert_eq!(trimmed_mean(&mut shown), 39 * u64::from(HOLD_SCALE));
        shown[0] = 20_000;
        assert!(trimmed_mean(&mut shown) < 40 * u64::from(HOLD_SCALE));
    }
}
