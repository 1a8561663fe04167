//! The recording's clock: time stamp counter against the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Both clocks at the start.
pub struct Clock {
    start: Instant,
    /// Time stamp at the start.
    pub epoch: u64,
    /// Nanoseconds since the Unix epoch at the start.
    pub started_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at the start, ns: the clock of the programs in the kernel.
    pub started_monotonic_ns: u64,
}

/// `CLOCK_MONOTONIC`, ns.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The time stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: rdtsc has no preconditions in user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

impl Clock {
    /// Starts it.
    pub fn start() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock {
            start: Instant::now(),
            epoch: ticks(),
            started_unix_ns: unix.as_nanos() as i64,
            started_monotonic_ns: monotonic_ns(),
        }
    }

    /// Ticks per nanosecond, measured from the start to now; the longer, the better (a start of 2 ms gives 1e-4).
    pub fn rate(&self) -> f64 {
        loop {
            let (t, elapsed) = (ticks(), self.start.elapsed());
            if elapsed >= Duration::from_millis(2) {
                return t.wrapping_sub(self.epoch) as f64 / elapsed.as_nanos() as f64;
            }
            std::hint::spin_loop();
        }
    }

    /// Wall time since the start, ns.
    pub fn elapsed_ns(&self) -> i64 {
        self.start.elapsed().as_nanos() as i64
    }
}
