//! The recording's clock: time stamp counter against the monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Readings of which the closest is taken.
const READINGS: usize = 5;
/// Shortest time over which a rate is measured: two milliseconds at the start give 1e-4 or better.
const SHORTEST_RATE: Duration = Duration::from_millis(2);

/// The first instant that this process knows on both clocks: rates are measured from it on.
static FIRST: OnceLock<ClockReading> = OnceLock::new();

/// A recording is being prepared: the longer before it starts, the less it waits for its clock's rate.
pub(crate) fn prepare() {
    FIRST.get_or_init(ClockReading::now);
}

/// One instant on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    /// Time stamp.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, ns: the clock of the programs in the kernel.
    pub ns: u64,
}

impl ClockReading {
    /// Now. The clocks can only be read one after the other, and a thread that is put aside in between would join
    /// instants that are milliseconds apart: the closest of several readings is taken.
    pub fn now() -> ClockReading {
        let read = || {
            let before = ticks();
            let ns = monotonic_ns();
            let apart = ticks().wrapping_sub(before);
            (apart, ClockReading { ticks: before.wrapping_add(apart / 2), ns })
        };
        let mut best = read();
        for _ in 1..READINGS {
            let other = read();
            if other.0 < best.0 {
                best = other;
            }
        }
        best.1
    }

    /// Ticks per nanosecond since an earlier moment.
    pub fn rate_since(&self, earlier: &ClockReading) -> f64 {
        self.ticks.wrapping_sub(earlier.ticks) as f64 / self.ns.saturating_sub(earlier.ns).max(1) as f64
    }
}

/// Both clocks at the start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: ClockReading,
    /// Nanoseconds since the Unix epoch at the start.
    pub started_unix_ns: i64,
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
    /// Nanoseconds from the start to an instant by the time stamp counter.
    pub fn ns_at(&self, ticks: u64) -> i64 {
        (ticks.saturating_sub(self.start.ticks) as f64 / self.rate()) as i64
    }

    /// Starts it.
    pub fn start() -> Clock {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Clock { start: ClockReading::now(), started_unix_ns: unix.as_nanos() as i64 }
    }

    /// Starts it as if that had been so long ago.
    pub fn start_after(passed: Duration) -> Clock {
        let mut clock = Clock::start();
        if !passed.is_zero() {
            let ns = passed.as_nanos() as u64;
            clock.start.ticks = clock.start.ticks.saturating_sub((ns as f64 * clock.rate()) as u64);
            clock.start.ns = clock.start.ns.saturating_sub(ns);
            clock.started_unix_ns -= ns.cast_signed();
        }
        clock
    }

    /// Time stamp at the start.
    pub fn epoch(&self) -> u64 {
        self.start.ticks
    }

    /// `CLOCK_MONOTONIC` at the start, ns: the clock of the programs in the kernel.
    pub fn started_monotonic_ns(&self) -> u64 {
        self.start.ns
    }

    /// Ticks per nanosecond, measured up to now since the start, or since [`prepare`]; the longer, the better.
    pub fn rate(&self) -> f64 {
        let since = FIRST.get_or_init(|| self.start);
        let passed = Duration::from_nanos(monotonic_ns().saturating_sub(since.ns));
        let until = Instant::now() + SHORTEST_RATE.saturating_sub(passed);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        ClockReading::now().rate_since(since)
    }

    /// Wall time since the start, ns.
    pub fn elapsed_ns(&self) -> i64 {
        monotonic_ns().saturating_sub(self.start.ns).cast_signed()
    }
}
