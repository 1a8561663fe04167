//! Counts and times of sites, in nanoseconds.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::error::Error;
use crate::{arena, registry};

/// What was counted and timed at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Calls that met the probe switched on.
    pub calls: u64,
    /// Calls timed.
    pub timed: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// Mean, ns.
    pub mean_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Maximum, ns.
    pub max_ns: u64,
}

/// Shortest span over which the clocks are compared.
const SPAN_NS: u128 = 2_000_000;

static START: OnceLock<(Instant, u64)> = OnceLock::new();

fn ticks() -> u64 {
    crate::arch::ticks()
}

/// Notes the clocks' beginning.
pub fn begin() {
    START.get_or_init(|| (Instant::now(), ticks()));
}

/// Ticks of the time-stamp counter per nanosecond; waits up to 2 ms if the library has only just begun.
fn ticks_per_ns() -> f64 {
    let &(start, first) = START.get_or_init(|| (Instant::now(), ticks()));
    loop {
        let (now, last) = (start.elapsed().as_nanos(), ticks());
        if now >= SPAN_NS {
            return (last.wrapping_sub(first)) as f64 / now as f64;
        }
        std::hint::spin_loop();
    }
}

/// Calls counted. Async-signal-safe; None if there is no such site.
pub fn count(id: u32) -> Option<u64> {
    registry::slot(id)?;
    Some(arena::counters(id).map(|counters| counters.calls.load(Ordering::Relaxed)).sum())
}

/// Middle of a histogram's bucket, ticks.
fn middle(bucket: usize) -> f64 {
    if bucket < 8 {
        return bucket as f64;
    }
    let shift = (bucket - 8) / 8;
    let low = ((8 + bucket % 8) as f64) * (shift as f64).exp2();
    low + (shift as f64).exp2() / 2.0
}

/// Counts and times of a site.
///
/// # Errors
/// [`Error::NoSite`].
pub fn of(id: u32) -> Result<Times, Error> {
    registry::site(id)?;
    let mut times = Times::default();
    let mut ticks = 0_u64;
    for counters in arena::counters(id) {
        times.calls += counters.calls.load(Ordering::Relaxed);
        times.timed += counters.samples.load(Ordering::Relaxed);
        ticks += counters.ticks.load(Ordering::Relaxed);
    }
    if times.timed == 0 {
        return Ok(times);
    }
    let rate = ticks_per_ns();
    let empty = crate::empty_call::ticks() as f64;
    let ns = |ticks: f64| ((ticks - empty).max(0.0) / rate).round() as u64;
    times.total_ns = ((ticks as f64 - empty * times.timed as f64).max(0.0) / rate).round() as u64;
    times.mean_ns = (times.total_ns as f64 / times.timed as f64).round() as u64;
    times.max_ns = arena::record(id).map_or(0, |record| ns(record.max_ticks.load(Ordering::Relaxed) as f64));
    if let Some(histogram) = arena::histogram(id) {
        let buckets: Vec<u64> = histogram.iter().map(|bucket| bucket.load(Ordering::Relaxed).into()).collect();
        let all: u64 = buckets.iter().sum();
        let quantile = |share: f64| {
            let rank = (all as f64 * share).ceil().max(1.0) as u64;
            let mut seen = 0;
            let at = buckets.iter().position(|&n| {
                seen += n;
                seen >= rank
            });
            at.map_or(0, |bucket| ns(middle(bucket)).min(times.max_ns))
        };
        (times.p50_ns, times.p90_ns, times.p99_ns) = (quantile(0.5), quantile(0.9), quantile(0.99));
    }
    Ok(times)
}

/// Sets counts and times of a site to zero. Calls made meanwhile may count before or after.
///
/// # Errors
/// [`Error::NoSite`].
pub fn reset(id: u32) -> Result<(), Error> {
    registry::site(id)?;
    clear(id);
    Ok(())
}

/// The same, without asking.
pub fn clear(id: u32) {
    for counters in arena::counters(id) {
        counters.calls.store(0, Ordering::Relaxed);
        counters.samples.store(0, Ordering::Relaxed);
        counters.ticks.store(0, Ordering::Relaxed);
    }
    if let Some(record) = arena::record(id) {
        record.max_ticks.store(0, Ordering::Relaxed);
    }
    for bucket in arena::histogram(id).into_iter().flatten() {
        bucket.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::middle;
    use transect_event_abi::thread::bucket;

    #[test]
    fn middles_lie_in_their_buckets() {
        for index in 0..200 {
            assert_eq!(bucket(middle(index) as u64), index);
        }
    }
}
