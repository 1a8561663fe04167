//! The time-stamp counter: its cost and its rate.

use std::time::Instant;

/// Reads the clock, without a fence.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc only writes registers; where it is forbidden (PR_SET_TSC) the process ends by SIGSEGV, as it would
    // in every other part of Transect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the clock after everything before it is done, and before anything after it begins.
#[inline]
pub fn begin() -> u64 {
    // SAFETY: fences and rdtsc only write registers.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
}

/// Reads the clock after everything before it is done.
#[inline]
pub fn end() -> u64 {
    let mut cpu = 0;
    // SAFETY: rdtscp writes registers and the given word.
    let now = unsafe { core::arch::x86_64::__rdtscp(&mut cpu) };
    // SAFETY: a fence.
    unsafe { core::arch::x86_64::_mm_lfence() };
    now
}

/// Ticks of one clock read in a row of them: least of several batches.
pub fn read_cost() -> f64 {
    const READS: u32 = 1000;
    (0..50)
        .map(|_| {
            let start = ticks();
            let mut last = start;
            for _ in 0..READS {
                last = std::hint::black_box(ticks());
            }
            (last - start) as f64 / f64::from(READS)
        })
        .fold(f64::INFINITY, f64::min)
}

/// Ticks that [`begin`] and [`end`] show with nothing in between: the least of many.
pub fn empty_interval() -> f64 {
    (0..2000)
        .map(|_| {
            let start = begin();
            end() - start
        })
        .min()
        .map_or(0.0, |least| least as f64)
}

/// Ticks per nanosecond against the monotonic clock: the steadiest of several spans of 10 ms.
pub fn rate() -> f64 {
    let mut spans: Vec<(u64, f64)> = (0..5)
        .map(|_| {
            let (before, start) = (ticks(), Instant::now());
            while start.elapsed().as_millis() < 10 {
                std::hint::spin_loop();
            }
            let (asked, elapsed) = (ticks(), start.elapsed());
            let answered = ticks();
            // The time of the question is the uncertainty: a thread that was put aside meanwhile has a large one.
            (answered - asked, (asked - before) as f64 / elapsed.as_nanos() as f64)
        })
        .collect();
    spans.sort_by_key(|&(doubt, _)| doubt);
    let best = &mut spans[..3];
    best.sort_by(|a, b| a.1.total_cmp(&b.1));
    best[1].1
}
