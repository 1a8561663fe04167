//! The kernel's clock told in ticks.

use crate::clock::ClockReading;

/// Moments are so far apart that their own errors don't count, ns.
const LONG_ENOUGH: u64 = 1_000_000;

/// Both clocks, joined at the last time that somebody looked.
#[derive(Debug)]
pub(super) struct Clocks {
    before: ClockReading,
}

impl Clocks {
    /// From now on.
    pub fn start() -> Self {
        Self { before: ClockReading::now() }
    }

    /// Tells ticks of times (ns of `CLOCK_MONOTONIC`) since the last call.
    pub fn ticks(&mut self) -> impl Fn(u64) -> u64 + use<> {
        let (before, now) = (self.before, ClockReading::now());
        if now.ns.saturating_sub(before.ns) >= LONG_ENOUGH {
            self.before = now;
        }
        // Both clocks are even; between two looks they are straight lines.
        let rate = now.rate_since(&before);
        move |ns| {
            let passed = (ns.wrapping_sub(before.ns).cast_signed() as f64 * rate) as i64;
            before.ticks.wrapping_add_signed(passed)
        }
    }
}
