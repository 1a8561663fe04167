//! The kernel's clock told in ticks.

use crate::clock::{monotonic_ns, ticks};

/// Moments are so far apart that their own errors don't count, ns.
const LONG_ENOUGH: u64 = 1_000_000;

/// The two clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ns: u64,
    ticks: u64,
}

impl Moment {
    fn now() -> Self {
        // A thread that is put aside between the two would join moments that are apart.
        let take = |_| {
            let before = ticks();
            let ns = monotonic_ns();
            let after = ticks();
            (after.wrapping_sub(before), Self { ns, ticks: before.midpoint(after) })
        };
        let best = (0..3).map(take).min_by_key(|(width, _)| *width);
        best.map_or(Self { ns: 0, ticks: 0 }, |(_, moment)| moment)
    }
}

/// Both clocks, joined at the last time that somebody looked.
#[derive(Debug)]
pub(super) struct Clocks {
    before: Moment,
}

impl Clocks {
    /// From now on.
    pub fn start() -> Self {
        Self { before: Moment::now() }
    }

    /// Tells ticks of times (ns of `CLOCK_MONOTONIC`) since the last call.
    pub fn ticks(&mut self) -> impl Fn(u64) -> u64 + use<> {
        let (before, now) = (self.before, Moment::now());
        if now.ns.saturating_sub(before.ns) >= LONG_ENOUGH {
            self.before = now;
        }
        // Both clocks are even; between two looks they are straight lines.
        let rate = now.ticks.wrapping_sub(before.ticks) as f64 / now.ns.saturating_sub(before.ns).max(1) as f64;
        move |ns| {
            let passed = (ns.wrapping_sub(before.ns).cast_signed() as f64 * rate) as i64;
            before.ticks.wrapping_add_signed(passed)
        }
    }
}
