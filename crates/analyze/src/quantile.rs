//! Quantiles of a sum of threads, from the quantiles of each.

use transect_profile_model::Flow;

/// Durations of one recorded row: how many calls, and where its median, 99th percentile and maximum lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    calls: f64,
    /// Natural logarithms of (smallest assumed, median, 99th percentile, maximum).
    log_ns: [f64; 4],
}

/// Shares of calls at or below each of [`Part::log_ns`].
const SHARES: [f64; 4] = [0.0, 0.50, 0.99, 1.0];
/// Nothing is known below the median; half of it is taken as the smallest call.
const SMALLEST_OF_MEDIAN: f64 = 0.5;
/// Halvings of the interval that holds the answer: enough for a nanosecond in an hour.
const BISECTIONS: u32 = 60;

impl Part {
    /// The part of one recorded row; `None` without a histogram.
    pub(crate) fn of(flow: &Flow) -> Option<Self> {
        let (p50, p99, max) = (flow.p50_ns?, flow.p99_ns?, flow.max_ns?);
        let log = |ns: f64| ns.max(0.5).ln();
        let p50 = p50 as f64;
        let log_ns = [log(p50 * SMALLEST_OF_MEDIAN), log(p50), log(p99 as f64), log(max as f64)];
        Some(Self { calls: flow.timed_calls.max(1) as f64, log_ns })
    }

    /// Share of the part's calls that took at most exp(`log_ns`), log-linear between the known points.
    fn share_below(&self, log_ns: f64) -> f64 {
        let points = &self.log_ns;
        if log_ns >= points[3] {
            return 1.0;
        }
        let segment = (0..3).rev().find(|&i| log_ns >= points[i]);
        segment.map_or(0.0, |i| {
            let width = points[i + 1] - points[i];
            let along = if width > 0.0 { ((log_ns - points[i]) / width).min(1.0) } else { 1.0 };
            SHARES[i] + along * (SHARES[i + 1] - SHARES[i])
        })
    }

    /// Duration that `share` of all parts' calls stay within, ns: exact for one part, interpolated for several.
    pub(crate) fn quantile(parts: &[Self], share: f64) -> Option<i64> {
        let known = SHARES.iter().position(|&known| known == share)?;
        let values = || parts.iter().map(|part| part.log_ns[known]);
        let (mut low, mut high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let calls: f64 = parts.iter().map(|part| part.calls).sum();
        for _ in 0..BISECTIONS {
            if high - low < 1e-9 {
                break;
            }
            let middle = f64::midpoint(low, high);
            let below: f64 = parts.iter().map(|part| part.calls * part.share_below(middle)).sum();
            if below < share * calls { low = middle } else { high = middle }
        }
        Some(high.exp().round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(calls: i64, p50: f64, p99: f64, max: f64) -> Part {
        Part { calls: calls as f64, log_ns: [(p50 / 2.0).ln(), p50.ln(), p99.ln(), max.ln()] }
    }

    #[test]
    fn one_part_keeps_its_quantiles() {
        let parts = [part(7, 120.0, 4_567.0, 1e6)];
        assert_eq!(Part::quantile(&parts, 0.50), Some(120));
        assert_eq!(Part::quantile(&parts, 0.99), Some(4_567));
        assert_eq!(Part::quantile(&[], 0.50), None);
    }

    #[test]
    fn many_fast_calls_outvote_a_few_slow_ones() {
        let parts = [part(1_000_000, 100.0, 200.0, 400.0), part(10, 1e6, 2e6, 4e6)];
        let median = Part::quantile(&parts, 0.50).unwrap();
        let p99 = Part::quantile(&parts, 0.99).unwrap();
        assert!((100..=101).contains(&median), "{median}");
        assert!((200..=210).contains(&p99), "{p99}");
    }

    #[test]
    fn equal_halves_meet_between() {
        let parts = [part(50, 100.0, 200.0, 400.0), part(50, 10_000.0, 20_000.0, 40_000.0)];
        let median = Part::quantile(&parts, 0.50).unwrap();
        assert!((200..=10_000).contains(&median), "{median}");
    }
}
