use transect_calibrate::TimedCall;
use transect_event_abi::thread::{HISTOGRAM_BUCKETS, bucket_floor};
use transect_profile_model::LatencyBucket;

/// What handlers read to what profiles hold, for single calls and for the buckets of the shared histograms: clock ticks to
/// nanoseconds, or as it is. The only place where readings are converted.
///
/// What timing shows beside a call's duration is taken off ([`TimedCall::net`]), so the bounds of a bucket are
/// `net(floor) / rate`.
#[derive(Debug, Clone)]
pub struct BucketScale {
    rate: f64,
    call: TimedCall,
    /// Lower bound of each bucket; the last entry is where the last bucket ends.
    bounds: Vec<i64>,
}

impl BucketScale {
    /// `rate` of what is read are one of what is wanted (ticks a nanosecond).
    pub fn new(rate: f64, call: TimedCall) -> Self {
        let mut scale = Self { rate, call, bounds: Vec::with_capacity(HISTOGRAM_BUCKETS + 1) };
        for index in 0..HISTOGRAM_BUCKETS {
            scale.bounds.push(scale.amount(bucket_floor(index)));
        }
        // The last bucket takes all that is longer; 2^48 ticks are a day and more.
        scale.bounds.push(scale.amount(1 << 48));
        scale
    }

    /// What one call took.
    pub fn amount(&self, shown: u64) -> i64 {
        (self.call.net(shown as f64) / self.rate).round() as i64
    }

    /// What calls took that show the sum `shown`, and each of them what `histogram` counts.
    pub fn total(&self, shown: u64, histogram: impl IntoIterator<Item = u64>) -> i64 {
        let mut off = 0.0;
        for (index, count) in histogram.into_iter().enumerate().filter(|&(_, count)| count > 0) {
            let next = bucket_floor((index + 1).min(HISTOGRAM_BUCKETS - 1));
            let middle = (bucket_floor(index) + next.saturating_sub(1).max(bucket_floor(index))) as f64 / 2.0;
            off += count as f64 * (middle - self.call.net(middle));
        }
        ((shown as f64 - off).max(0.0) / self.rate).round() as i64
    }

    /// Ticks as they are, without anything taken off.
    pub fn ticks(&self, net: f64) -> f64 {
        net / self.rate
    }

    /// What timing shows beside a call's duration.
    pub fn added(&self) -> f64 {
        self.call.added as f64 / self.rate
    }

    /// Calls up to this are not told apart.
    pub fn hidden(&self) -> f64 {
        self.call.hidden() / self.rate
    }

    /// One bucket; `index` beyond the histogram is its last bucket.
    pub fn bucket(&self, index: usize, count: u64) -> LatencyBucket {
        let index = index.min(HISTOGRAM_BUCKETS - 1);
        LatencyBucket {
            low: self.bounds[index],
            high: self.bounds[index + 1],
            count: i64::try_from(count).unwrap_or(i64::MAX),
        }
    }

    /// A histogram without its empty buckets, shortest first. Buckets that are the same nanosecond become one.
    pub fn histogram(&self, counts: impl IntoIterator<Item = u64>) -> Vec<LatencyBucket> {
        let filled = counts.into_iter().enumerate().filter(|&(_, count)| count > 0);
        self.merged(filled)
    }

    pub(super) fn merged(&self, filled: impl Iterator<Item = (usize, u64)>) -> Vec<LatencyBucket> {
        let mut buckets: Vec<LatencyBucket> = Vec::new();
        for (index, count) in filled {
            let bucket = self.bucket(index, count);
            match buckets.last_mut() {
                Some(last) if (last.low, last.high) == (bucket.low, bucket.high) => {
                    last.count += bucket.count;
                }
                _ => buckets.push(bucket),
            }
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use transect_event_abi::thread::bucket;

    use super::*;

    fn call(empty: u64, added: u64) -> TimedCall {
        TimedCall { empty, added, cost_ticks: 100.0, empty_cost_ticks: 100.0, count_ticks: 0.0, arming_ticks: 0.0 }
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for (rate, empty, added) in [(2.1, 0, 0), (2.1, 51, 24), (1.0, 10, 10), (3.7, 101, 40), (0.4, 3, 3)] {
            let scale = BucketScale::new(rate, call(empty, added));
            for ticks in (0..20_000).chain((15..47).map(|n| (1_u64 << n) + 12_345)) {
                let bucket = scale.bucket(bucket(ticks), 1);
                let ns = scale.amount(ticks);
                assert!((bucket.low..=bucket.high).contains(&ns), "{ticks} ticks: {ns} {bucket:?}");
            }
        }
    }

    #[test]
    fn bounds_ascend_without_gaps() {
        let scale = BucketScale::new(2.1, call(51, 24));
        let buckets = scale.histogram(std::iter::repeat_n(1, HISTOGRAM_BUCKETS));
        assert!(buckets.windows(2).all(|pair| pair[0].high == pair[1].low));
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<i64>(), HISTOGRAM_BUCKETS as i64);
        assert_eq!(buckets[0].low, 0);
        assert!(buckets.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// Histogram of calls that show the same.
    fn all(count: u64, ticks: u64) -> Vec<u64> {
        let mut histogram = vec![0; HISTOGRAM_BUCKETS];
        histogram[bucket(ticks)] = count;
        histogram
    }

    #[test]
    fn what_timing_shows_is_taken_off() {
        let scale = BucketScale::new(2.0, call(50, 50));
        assert_eq!((scale.amount(250), scale.amount(20), scale.total(2_500, all(10, 250))), (100, 0, 1_000));
        assert!(scale.total(400, all(10, 40)) <= 1);
        assert!((scale.added() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn short_calls_and_long_ones_have_their_own_part_taken_off() {
        let scale = BucketScale::new(1.0, call(51, 24));
        let histogram: Vec<u64> = all(900, 51).iter().zip(all(100, 1_024)).map(|(short, long)| short + long).collect();
        let total = scale.total(900 * 51 + 100 * 1_024, histogram);
        // 900 of 0 to 27 ticks, 100 of 1,000.
        assert!((100_000 + 900 * 6..100_000 + 900 * 21).contains(&total), "{total}");
    }
}
