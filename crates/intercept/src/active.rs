//! The clock of active threads: ∫ dt / max(1, n), n = live threads less those inside a blocking API.
//!
//! State is (time, n, integral) in 16 bytes of the process extent, changed as one unit by compare-and-swap, so that a
//! signal may arrive anywhere. (Scaler divides by *existing* threads; sleeping ones then dilute a worker's share.)
//! While the process has one thread the clock stands still and the integral is plain time. Where the kernel publishes
//! its own clock ([`published`]) this one is not used.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{arch, published};

const THREADS: u64 = 0xfff;

fn clock() -> *mut u64 {
    // SAFETY: written once at start.
    unsafe { arch::transect_active.load(Ordering::Relaxed) as *mut u64 }
}

fn epoch() -> u64 {
    // SAFETY: written once at start.
    unsafe { arch::transect_epoch.load(Ordering::Relaxed) }
}

/// True once a second thread exists.
#[inline]
pub fn parallel() -> bool {
    // SAFETY: a static of the agent.
    unsafe { arch::transect_parallel.load(Ordering::Relaxed) != 0 }
}

/// Fills the table of reciprocals.
pub fn prepare() {
    for n in 0..4096u64 {
        // SAFETY: a static of the agent.
        unsafe { arch::transect_reciprocals[n as usize].store((1 << 20) / n.max(1), Ordering::Relaxed) };
    }
}

/// Starts the clock for the first second thread: the caller is the one active thread.
pub fn start_parallel() {
    if parallel() || published::on() {
        return;
    }
    let now = arch::ticks().wrapping_sub(epoch());
    // SAFETY: the clock's words are written by this only thread before the flag makes others use them.
    unsafe {
        let at = clock();
        (*(at as *const AtomicU64)).store(now << 12 | 1, Ordering::Relaxed);
        (*(at.add(1) as *const AtomicU64)).store(now, Ordering::Relaxed);
        arch::transect_parallel.store(1, Ordering::SeqCst);
    }
}

/// Back to one thread (the child of a fork).
pub fn stop_parallel() {
    // SAFETY: a static of the agent.
    unsafe { arch::transect_parallel.store(0, Ordering::SeqCst) };
}

/// The clock's value after `now`, if `n` threads were active since `packed`.
fn advance(packed: u64, integral: u64, now: u64) -> (u64, u64) {
    let then = packed >> 12;
    let n = (packed & THREADS).max(1);
    let dt = now.saturating_sub(then);
    (then + dt, integral + dt / n)
}

/// Changes the number of active threads by `delta`.
pub fn change(delta: i64) {
    if !parallel() {
        return;
    }
    let at = clock();
    loop {
        // SAFETY: the clock's two words; a torn read fails the compare-and-swap.
        let (packed, integral) = unsafe {
            (
                (*(at as *const AtomicU64)).load(Ordering::Acquire),
                (*(at.add(1) as *const AtomicU64)).load(Ordering::Acquire),
            )
        };
        let now = arch::ticks().wrapping_sub(epoch());
        let (time, sum) = advance(packed, integral, now);
        let n = ((packed & THREADS) as i64 + delta).clamp(0, THREADS as i64) as u64;
        // SAFETY: 16-byte aligned by the layout assertion in event-abi.
        if unsafe { arch::compare_exchange_16(at, (packed, integral), (time << 12 | n, sum)) } {
            return;
        }
        core::hint::spin_loop();
    }
}

/// The integral at time stamp `ticks`.
pub fn integral(ticks: u64) -> u64 {
    let now = ticks.wrapping_sub(epoch());
    if !parallel() {
        return now;
    }
    let at = clock();
    loop {
        // SAFETY: as in `change`; the packed word is read twice, for it changes with every update.
        let (packed, sum, again) = unsafe {
            let first = (*(at as *const AtomicU64)).load(Ordering::Acquire);
            let sum = (*(at.add(1) as *const AtomicU64)).load(Ordering::Acquire);
            (first, sum, (*(at as *const AtomicU64)).load(Ordering::Acquire))
        };
        if packed == again {
            return advance(packed, sum, now).1;
        }
    }
}
