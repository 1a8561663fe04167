use transect_profile_model::LatencyBucket;

/// Samples as counts per bucket, smallest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distribution<'a> {
    buckets: &'a [LatencyBucket],
    max: i64,
    samples: i64,
}

impl<'a> Distribution<'a> {
    /// The samples of `buckets`, of which the largest took `max`.
    pub(crate) fn new(buckets: &'a [LatencyBucket], max: i64) -> Self {
        let samples = buckets.iter().map(|bucket| bucket.count.max(0)).sum();
        Self { buckets, max, samples }
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> i64 {
        self.samples
    }

    /// What a share of the samples (0.0–1.0) is within, evenly interpolated inside its bucket; at
    /// most `max`. `None` without samples.
    ///
    /// The sample that has this rank lies in the same bucket, so the error is less than the bucket's width.
    pub(crate) fn quantile(&self, share: f64) -> Option<i64> {
        let rank = share * self.samples as f64;
        let mut before = 0;
        let last = self.buckets.iter().rposition(|bucket| bucket.count > 0)?;
        for (at, bucket) in self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0) {
            let through = before + bucket.count;
            if rank <= through as f64 || at == last {
                if at == last && bucket.count == 1 {
                    return Some(self.max);
                }
                let low = bucket.low.min(self.max);
                let high = match bucket.high {
                    // Nothing is longer than the maximum, so the last bucket ends there.
                    _ if at == last => self.max,
                    // One value alone.
                    high if high - bucket.low == 1 => low,
                    high => high.min(self.max),
                }
                .max(low);
                let along = ((rank - before as f64) / bucket.count as f64).clamp(0.0, 1.0);
                return Some(low + ((high - low) as f64 * along).round() as i64);
            }
            before = through;
        }
        None
    }

    /// Share of the samples' sum, 0.0–1.0, that the slowest `share` of them takes; buckets count with their middle.
    pub(crate) fn time_of_slowest(&self, share: f64) -> f64 {
        let middle = |bucket: &LatencyBucket| bucket.low.midpoint(bucket.high.min(self.max)) as f64;
        let all: f64 = self.buckets.iter().map(|bucket| bucket.count as f64 * middle(bucket)).sum();
        let mut left = share * self.samples as f64;
        let mut slow = 0.0;
        for bucket in self.buckets.iter().rev() {
            let count = left.min(bucket.count as f64).max(0.0);
            slow += count * middle(bucket);
            left -= count;
        }
        if all > 0.0 { (slow / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transect_profile_model::LatencyBucket;

    use super::*;

    /// Buckets as the agent makes them: 8 per power of two.
    fn buckets_of(durations: &[i64]) -> Vec<LatencyBucket> {
        let mut sorted: Vec<(i64, i64)> = durations.iter().map(|&ns| bounds(ns)).collect();
        sorted.sort_unstable();
        sorted
            .chunk_by(|a, b| a == b)
            .map(|same| LatencyBucket { low: same[0].0, high: same[0].1, count: same.len() as i64 })
            .collect()
    }

    fn bounds(ns: i64) -> (i64, i64) {
        if ns < 8 {
            return (ns, ns + 1);
        }
        let step = 1 << (60 - ns.leading_zeros());
        (ns / step * step, ns / step * step + step)
    }

    proptest! {
        #[test]
        fn quantiles_are_off_by_less_than_a_bucket(
            mut durations in prop::collection::vec(0_i64..1 << 40, 1..200),
            shift in 0_u32..40,
            share in 0.0_f64..1.0,
        ) {
            durations.iter_mut().for_each(|ns| *ns >>= shift);
            durations.sort_unstable();
            let max = *durations.last().unwrap();
            let buckets = buckets_of(&durations);
            let found = Distribution::new(&buckets, max).quantile(share).unwrap();
            let rank = ((share * durations.len() as f64).ceil() as usize).clamp(1, durations.len());
            let exact = durations[rank - 1];
            prop_assert!((found - exact).abs() <= (exact / 8).max(1), "{found} for {exact}");
            prop_assert!(found <= max);
        }

        #[test]
        fn quantiles_ascend(durations in prop::collection::vec(0_i64..100_000, 1..50)) {
            let buckets = buckets_of(&durations);
            let distribution = Distribution::new(&buckets, *durations.iter().max().unwrap());
            let values: Vec<i64> = (0..=100).map(|n| distribution.quantile(f64::from(n) / 100.0).unwrap()).collect();
            prop_assert!(values.is_sorted());
        }
    }

    #[test]
    fn one_sample_is_every_quantile() {
        let buckets = [LatencyBucket { low: 96, high: 104, count: 1 }];
        let distribution = Distribution::new(&buckets, 101);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| distribution.quantile(share).unwrap()), [101; 4]);
        assert_eq!(Distribution::new(&[], 0).quantile(0.5), None);
    }

    #[test]
    fn buckets_of_one_value_give_that_value() {
        let bucket = |low, count| LatencyBucket { low, high: low + 1, count };
        let buckets = [bucket(0, 29), bucket(1, 1)];
        let distribution = Distribution::new(&buckets, 1);
        assert_eq!([0.5, 0.9, 0.99].map(|share| distribution.quantile(share).unwrap()), [0, 0, 1]);
    }

    #[test]
    fn a_few_slow_calls_can_take_most_of_the_time() {
        let bucket = |low: i64, count| LatencyBucket { low, high: low + low / 8, count };
        let buckets = [bucket(1_000, 990), bucket(1_000_000, 10)];
        let share = Distribution::new(&buckets, 1_100_000).time_of_slowest(0.01);
        assert!((0.90..0.92).contains(&share), "{share}");
        assert!((Distribution::new(&buckets, 1_100_000).time_of_slowest(1.0) - 1.0).abs() < 1e-9);
    }
}
