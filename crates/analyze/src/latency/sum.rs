use rustc_hash::FxHashMap;
use transect_profile_model::{Latency, LatencyBucket, LatencyId, LatencySession, Metric};

use crate::Selection;
use crate::matching::{Pattern, chosen_components};
use crate::prepared::Prepared;

/// Most of a sum that may be calls which are not told from nothing: more is no estimate.
const MOST_BLURRED: f64 = 0.5;

/// The sum of all calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// `None` where it is not known, but for the bounds.
    pub estimate: Option<i64>,
    /// It is at least this.
    pub low: Option<i64>,
    /// It is at most this.
    pub high: Option<i64>,
}

/// All that was sampled of one function, over its processes.
#[derive(Debug, Clone)]
pub(crate) struct Sum<'a> {
    /// One of the recorded rows, for the names.
    pub first: &'a Latency,
    /// Row numbers in the profile.
    pub ids: Vec<LatencyId>,
    /// Process id, where processes are told apart.
    pub process: Option<i32>,
    /// Calls that met the probe switched on.
    pub calls_seen: i64,
    /// Calls timed.
    pub samples: i64,
    /// Their sum, in the unit of the metric.
    pub sampled: i64,
    /// The largest.
    pub max: i64,
    /// Estimate of all calls; `None` if one process' is not known.
    pub calls_estimated: Option<i64>,
    /// Estimate of the sum of all calls.
    pub total: f64,
    /// Squares of half the 95 % intervals about both estimates; `None` if one process' is not known.
    pub squared_errors: Option<(f64, f64)>,
    /// Samples that took too little to be told from nothing, and their sum as it was taken to be.
    pub blurred: (i64, f64),
    /// Smallest first, bounds distinct.
    pub histogram: Vec<LatencyBucket>,
}

impl Sum<'_> {
    /// Mean of the samples.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sampled as f64 / self.samples as f64)
    }

    /// The sum of all calls: an estimate, or a bound where that says nothing.
    pub(crate) fn time(&self, session: Option<&LatencySession>) -> Total {
        if self.samples == 0 {
            return Total::default();
        }
        let (sampled, blurred) = (self.sampled.max(1) as f64, self.blurred);
        // Of faults and other events neither is known.
        let session = session.filter(|session| matches!(session.metric, Metric::Wall | Metric::Cpu));
        let hidden = session.map_or(0.0, |session| session.hidden_ns);
        // What they take for nothing, and for all that they may take.
        let less = (blurred.1 / sampled).min(1.0);
        let more = (blurred.0 as f64 * hidden / sampled - less).max(0.0);
        let least = (sampled * (1.0 - less)).min(self.total).round() as i64;
        let room = session.map(|session| session.thread_ns).filter(|&ns| ns > 0);
        if self.calls_estimated.is_none() {
            // That it is no less than nothing is no news.
            return Total {
                low: Some(least).filter(|&ns| ns > 0 || room.is_some()),
                high: room.filter(|_| least == 0),
                ..Total::default()
            };
        }
        let estimate = self.total.round() as i64;
        let Some((_, squared)) = self.squared_errors else {
            return Total { estimate: Some(estimate), ..Total::default() };
        };
        let error = |blur: f64| (squared + (self.total * blur).powi(2)).sqrt();
        let low = ((self.total - error(less)).round() as i64).max(least);
        let high = (self.total + error(more)).round() as i64;
        let high = high.min(room.unwrap_or(i64::MAX).max(estimate));
        Total { estimate: (less <= MOST_BLURRED).then_some(estimate), low: Some(low), high: Some(high) }
    }

    fn add(&mut self, id: LatencyId, latency: &Latency, hidden: f64) {
        self.ids.push(id);
        self.calls_seen += latency.calls_seen;
        self.samples += latency.samples;
        self.sampled = self.sampled.saturating_add(latency.total);
        self.max = self.max.max(latency.max);
        let seen = latency.calls_seen.max(latency.samples);
        let estimated = latency.calls_estimated.map(|calls| calls.max(seen));
        self.calls_estimated = self.calls_estimated.zip(estimated).map(|(a, b)| a.saturating_add(b));
        let whole = latency.whole(estimated.unwrap_or(seen)).unwrap_or(0.0);
        self.total += whole;
        self.squared_errors =
            self.squared_errors.zip(squared_errors(latency, whole)).map(|(a, b)| (a.0 + b.0, a.1 + b.1));
        for bucket in latency.histogram.iter().filter(|bucket| bucket.high as f64 <= hidden) {
            self.blurred.0 += bucket.count;
            self.blurred.1 += bucket.count as f64 * bucket.low.midpoint(bucket.high) as f64;
        }
        self.histogram.extend_from_slice(&latency.histogram);
    }

    fn finish(&mut self) {
        if self.ids.len() > 1 {
            self.histogram = merged(std::mem::take(&mut self.histogram));
        }
    }
}

/// Of the number of calls, and of their sum, which is unsure by their number and by what those took that were not seen.
fn squared_errors(latency: &Latency, whole: f64) -> Option<(f64, f64)> {
    let error = latency.calls_error? as f64;
    let seen = latency.calls_seen.max(latency.samples);
    let unseen = (latency.calls_estimated? - seen) as f64;
    let samples = latency.samples as f64;
    if unseen <= 0.0 || samples == 0.0 {
        return Some((error * error, (error * whole / seen.max(1) as f64).powi(2)));
    }
    let mean = latency.total as f64 / samples;
    let unseen_sum = (whole - mean * seen as f64).max(0.0);
    let squares = latency
        .histogram
        .iter()
        .map(|bucket| bucket.count as f64 * (bucket.low.midpoint(bucket.high) as f64 - mean).powi(2));
    let of_mean = 1.96 * (squares.sum::<f64>() / samples / samples).sqrt() / mean.max(f64::MIN_POSITIVE);
    let relative = (error / unseen).hypot(of_mean);
    Some((error * error, (unseen_sum * relative).powi(2)))
}

/// Buckets of several histograms as one.
pub(super) fn merged(mut buckets: Vec<LatencyBucket>) -> Vec<LatencyBucket> {
    buckets.sort_unstable_by_key(|bucket| (bucket.low, bucket.high));
    buckets.dedup_by(|bucket, kept| {
        let same = (bucket.low, bucket.high) == (kept.low, kept.high);
        if same {
            kept.count += bucket.count;
        }
        same
    });
    buckets
}

/// The chosen functions, summed over processes unless these are to be told apart.
pub(crate) fn sums<'a>(prepared: &Prepared<'a>, selection: &Selection) -> Vec<Sum<'a>> {
    let profile = prepared.profile;
    let chosen = chosen_components(profile, &prepared.names, selection.component.as_deref());
    let pattern = selection.api.as_deref().map(Pattern::new);
    let mut index: FxHashMap<(u32, i64, &str, Option<u32>), usize> = FxHashMap::default();
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let hidden = profile.meta.latency.as_ref().map_or(0.0, |session| session.hidden_ns);
    for (id, latency) in (0..).zip(&profile.latency) {
        let elsewhere = chosen.as_ref().is_some_and(|chosen| !chosen[latency.component as usize]);
        if elsewhere || pattern.as_ref().is_some_and(|pattern| !pattern.matches_api(&latency.function, &latency.symbol))
        {
            continue;
        }
        let process = selection.by.process.then_some(latency.process);
        let key = (latency.component, latency.address, latency.function.as_str(), process);
        let position = *index.entry(key).or_insert_with(|| {
            sums.push(Sum {
                first: latency,
                ids: Vec::new(),
                process: process.map(|process| profile.processes[process as usize].pid),
                calls_seen: 0,
                samples: 0,
                sampled: 0,
                max: 0,
                calls_estimated: Some(0),
                total: 0.0,
                squared_errors: Some((0.0, 0.0)),
                blurred: (0, 0.0),
                histogram: Vec::new(),
            });
            sums.len() - 1
        });
        sums[position].add(id, latency, hidden);
    }
    sums.iter_mut().for_each(Sum::finish);
    sums
}
