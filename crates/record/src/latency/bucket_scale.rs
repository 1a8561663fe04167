use transect_event_abi::thread::{HISTOGRAM_BUCKETS, bucket_floor};
use transect_profile_model::LatencyBucket;

/// What handlers read to what profiles hold, for single calls and for the buckets of the shared histograms: clock ticks to
/// nanoseconds, or as it is. The only place where readings are converted.
///
/// What a timed call of an empty function shows is taken off, so the bounds of a bucket are
/// `(floor − empty) / rate`, not below 0.
#[derive(Debug, Clone)]
pub struct BucketScale {
    rate: f64,
    empty: u64,
    /// Lower bound of each bucket; the last entry is where the last bucket ends.
    bounds: Vec<i64>,
}

impl BucketScale {
    /// `rate` of what is read are one of what is wanted (ticks a nanosecond); an empty timed call shows `empty`.
    pub fn new(rate: f64, empty: u64) -> Self {
        let mut scale = Self { rate, empty, bounds: Vec::with_capacity(HISTOGRAM_BUCKETS + 1) };
        for index in 0..HISTOGRAM_BUCKETS {
            scale.bounds.push(scale.amount(bucket_floor(index)));
        }
        // The last bucket takes all that is longer; 2^48 ticks are a day and more.
        scale.bounds.push(scale.amount(1 << 48));
        scale
    }

    /// What one call took.
    pub fn amount(&self, ticks: u64) -> i64 {
        (ticks.saturating_sub(self.empty) as f64 / self.rate).round() as i64
    }

    /// The sum of `samples` calls.
    pub fn total(&self, ticks: u64, samples: u64) -> i64 {
        (ticks.saturating_sub(self.empty.saturating_mul(samples)) as f64 / self.rate).round() as i64
    }

    /// What a timed call of an empty function shows.
    pub fn empty(&self) -> f64 {
        self.empty as f64 / self.rate
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

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for (rate, empty) in [(2.1, 0), (2.1, 35), (1.0, 10), (3.7, 101), (0.4, 3)] {
            let scale = BucketScale::new(rate, empty);
            for ticks in (0..20_000).chain((15..47).map(|n| (1_u64 << n) + 12_345)) {
                let bucket = scale.bucket(bucket(ticks), 1);
                let ns = scale.amount(ticks);
                assert!((bucket.low..=bucket.high).contains(&ns), "{ticks} ticks: {ns} {bucket:?}");
            }
        }
    }

    #[test]
    fn bounds_ascend_without_gaps() {
        let scale = BucketScale::new(2.1, 40);
        let buckets = scale.histogram(std::iter::repeat_n(1, HISTOGRAM_BUCKETS));
        assert!(buckets.windows(2).all(|pair| pair[0].high == pair[1].low));
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<i64>(), HISTOGRAM_BUCKETS as i64);
        assert_eq!(buckets[0].low, 0);
        assert!(buckets.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn what_an_empty_call_shows_is_taken_off() {
        let scale = BucketScale::new(2.0, 50);
        assert_eq!((scale.amount(250), scale.amount(20), scale.total(2_500, 10)), (100, 0, 1_000));
        assert_eq!(scale.total(400, 10), 0);
        assert!((scale.empty() - 25.0).abs() < 1e-9);
    }
}
