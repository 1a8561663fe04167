//! What an empty hold shows, measured at start. From the time that an acquisition ends to the one that its release begins passes
//! what the agent does at both, which is longer than many a lock is held.

use core::sync::atomic::{AtomicU64, Ordering};

use transect_event_abi::api_table::{API_NAME_CAPACITY, ApiEntry, NO_SIZE, class, handler};
use transect_event_abi::process::SLOT_INTERNAL;

use crate::thread::ThreadState;
use crate::{arch, lock, slot};

/// Pairs of an acquisition and a release of each kind.
const PAIRS: usize = 15;

/// Ticks of an empty hold.
static EMPTY: AtomicU64 = AtomicU64::new(0);

/// The hold time that was meant by a measured one, ticks.
pub fn less_empty(ticks: u64) -> u64 {
    ticks.saturating_sub(EMPTY.load(Ordering::Relaxed))
}

/// Measures it, on slots of our own that no report lists. `chain` is a function whose instructions wait for each other, and takes
/// `true_chain` ticks: what is done in a hold overlaps with what the agent does, so the middle is taken between a hold of nothing
/// and one of these, less what they take.
///
/// # Safety
/// `state` is the calling thread's, and no lock was called through a slot yet.
pub unsafe fn calibrate(state: *mut ThreadState, chain: extern "C" fn(u64) -> u64, true_chain: u64) {
    let Some(first) = slot::reserve(2) else { return };
    for (s, handler) in [(first, handler::LOCK_ACQUIRE), (first + 1, handler::LOCK_RELEASE)] {
        let class = if handler == handler::LOCK_ACQUIRE { class::LOCK } else { class::COMPUTE };
        let api = ApiEntry { hash: 1, class, handler, size_arg: NO_SIZE, reserved: 0, name: [0; API_NAME_CAPACITY] };
        slot::describe(s, u16::MAX, 0, 0, Some(&api), b"", SLOT_INTERNAL);
        slot::set_target(s, done as *const () as u64);
    }
    /// As large as any lock: free, whatever its kind.
    static LOCK: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let object = LOCK.as_ptr() as u64;
    let nothing = core::hint::black_box(same as extern "C" fn(u64) -> u64);
    // SAFETY: these are the slots that were described above; tables and state are this thread's.
    let (empty, with_chain) =
        unsafe { (median(|| hold(state, first, object, nothing)), median(|| hold(state, first, object, chain))) };
    lock::forget_releases();
    EMPTY.store((empty + with_chain.saturating_sub(true_chain)) / 2, Ordering::Relaxed);
}

/// How long the lock is held while `inside` is called, as it would be shown, ticks. One place in the code, for the lock's record
/// goes by that.
///
/// # Safety
/// `state` is the calling thread's; slots `first` and the next one acquire and release.
#[inline(never)]
unsafe fn hold(state: *mut ThreadState, first: u32, object: u64, inside: extern "C" fn(u64) -> u64) -> u64 {
    // SAFETY: see above; the stubs of our own slots enter `done`.
    unsafe {
        let call = |s: u32| core::mem::transmute::<u64, extern "C" fn(u64) -> i32>(arch::stub(s))(object);
        call(first);
        let record = lock::being_held(state, object);
        core::hint::black_box(inside(1));
        call(first + 1);
        if record.is_null() {
            return 0;
        }
        let held = (*record).held.load(Ordering::Relaxed);
        // Nobody else's lock is in the table yet.
        core::ptr::write_bytes(record.cast_mut(), 0, 1);
        held
    }
}

/// The median of several: an interrupt spoils one of them at most.
fn median(mut measure: impl FnMut() -> u64) -> u64 {
    let mut all: [u64; PAIRS] = core::array::from_fn(|_| measure());
    all.sort_unstable();
    all[PAIRS / 2]
}

extern "C" fn done(_: u64) -> i32 {
    0
}

extern "C" fn same(x: u64) -> u64 {
    x
}
