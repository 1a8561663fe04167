//! How long a thread had a CPU: where there are more threads than CPUs, the time between its calls says little of what timing
//! them may cost.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::arch::syscall as sys;
use crate::{arena, confinement};

const UNKNOWN: u32 = 0;
const READABLE: u32 = 1;
const FILTERED: u32 = 2;
/// Whether a filter of system calls was there when the first thread asked.
static CLOCK: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Ticks for which the calling thread had a CPU since its CPU time was `before` ns, and what that is now. Of a thread whose system
/// calls are filtered it is not asked: then all of `elapsed` counts.
pub fn since(before: u64, elapsed: u64) -> (u64, u64) {
    if confinement::confined() || !readable() {
        return (elapsed, before);
    }
    let now = sys::thread_cpu_ns();
    // The thread of a child of fork begins anew.
    let ran = if now < before { now } else { now - before };
    (ran * u64::from(arena::header().ticks_per_us) / 1000, now)
}

/// How often the calling thread has lost its CPU; 0 if that may not be asked.
pub fn switches() -> u64 {
    if confinement::confined() || !readable() { 0 } else { sys::thread_preempted() }
}

fn readable() -> bool {
    let known = match CLOCK.load(Ordering::Relaxed) {
        UNKNOWN if sys::is_filtered() => FILTERED,
        UNKNOWN => READABLE,
        known => known,
    };
    CLOCK.store(known, Ordering::Relaxed);
    known == READABLE
}
