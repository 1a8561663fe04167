//! What timed calls and samples together say of a time: values with their standard deviations.

use transect_event_abi::thread::{OUTLIER_MEANS, OUTLIER_US};
use transect_profile_model::ApiClass;

/// Fewer samples tell nothing.
pub(super) const LEAST_SAMPLES: f64 = 10.0;
/// So few can contradict what is known, if less was to be expected.
const FEWEST_SAMPLES: f64 = 3.0;
/// Samples stand for different times, since their rate changes: as many of one length tell as much as this share of them.
const EVEN: f64 = 0.75;
/// So many standard deviations are no chance, among some hundred flows.
pub(super) const CHANCE: f64 = 3.0;
/// So many may be one.
const LIKELY: f64 = 1.5;
/// An estimate with a standard deviation of more than this part of it rests on a handful of calls that took long, or had no
/// CPU. What samples saw of the call, or of all calls between the two components, is surer.
const UNSURE: f64 = 0.25;
/// Time without a CPU is known by the stacks with which CPUs were lost to no more than this part of it: of losses in quick
/// succession one has its stack.
const QUEUE_UNSURE: f64 = 0.1;
/// Losses of a CPU that are charged to the call before or after, or take as long as several, are fewer beside the more there are:
/// the standard deviation of their sum is this part of it, over the root of their number.
const LOSS_UNSURE: f64 = 0.6;
/// Samples of kernel code are off by about this part where it keeps interrupts off: they are taken when it allows them again,
/// in waking another thread more often than in falling asleep.
const SKID: f64 = 0.2;
/// No thread is taken to be without a CPU for more of its time.
const MOST_QUEUED: f64 = 0.95;
/// Half of a 95 % interval, in standard deviations.
pub(super) const HALF: f64 = 1.96;

/// Time of samples, and of waits, whose time is exact.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Time {
    pub(super) samples: f64,
    pub(super) sampled_ns: f64,
    /// Of `sampled_ns`, after the thread had lost its CPU there.
    pub(super) preempted_ns: f64,
    /// How often it lost it there.
    pub(super) losses: f64,
    pub(super) waits: f64,
    pub(super) waited_ns: f64,
}

impl Time {
    pub(super) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.sampled_ns += other.sampled_ns;
        self.preempted_ns += other.preempted_ns;
        self.losses += other.losses;
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
    }

    pub(super) fn ns(self) -> f64 {
        self.sampled_ns + self.waited_ns
    }

    pub(super) fn estimate(self, class: ApiClass) -> Option<Estimate> {
        (self.samples + self.waits >= LEAST_SAMPLES).then(|| self.unconditional(class))
    }

    /// Of however few samples. Nearly every loss of a CPU has its stack.
    pub(super) fn unconditional(self, class: ApiClass) -> Estimate {
        let skid = if class == ApiClass::Io { SKID } else { 0.0 };
        let part = (self.samples.max(1.0) * EVEN).sqrt().recip().hypot(skid);
        let running = (self.sampled_ns - self.preempted_ns) * part;
        Estimate { value: self.ns(), deviation: running.hypot(self.preempted_ns * QUEUE_UNSURE) }
    }

    /// Where few samples, or none, have met the calls: `one_ns` is what one would have stood for.
    pub(super) fn of_few(self, one_ns: f64, class: ApiClass) -> Estimate {
        let estimate = self.unconditional(class);
        Estimate { deviation: estimate.deviation.max(one_ns), ..estimate }
    }

    pub(super) fn is_empty(self) -> bool {
        self.ns() == 0.0
    }

    /// What a sample stands for, ns.
    pub(super) fn of_one(self) -> f64 {
        (self.sampled_ns - self.preempted_ns) / self.samples.max(1.0)
    }
}

/// Time in which the thread of a flow had no CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queue {
    /// Of the thread's time outside waits.
    pub(super) share: f64,
    /// In calls of the flow that were not timed, ns: by the stacks with which the thread lost its CPU. None if there are no such
    /// stacks of the thread.
    pub(super) missing_ns: Option<f64>,
}

/// An estimate, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) deviation: f64,
}

impl Estimate {
    pub(super) fn of_calls(value: Option<i64>, low: Option<i64>, high: Option<i64>) -> Option<Self> {
        let (value, low, high) = (value? as f64, low? as f64, high? as f64);
        Some(Self { value, deviation: (high - low).max(0.0) / 2.0 / HALF })
    }

    /// Few timed calls may have met none of the times in which their thread had no CPU, `share` of its time.
    pub(super) fn unsure_of_queue(self, share: f64) -> Self {
        let ratio = share / (1.0 - share.min(MOST_QUEUED));
        Self { deviation: self.deviation.hypot(self.value * ratio), ..self }
    }

    /// Time without a CPU that timed calls do not tell of, ns. Short losses count for all calls that a timed one stands for,
    /// outliers ([`OUTLIER_MEANS`]) once. Of those, what was in timed calls has by chance their share, but no more than
    /// agrees with how far timed calls differ: each that lost its CPU for d adds k(k-1)·d² to the estimate's variance.
    pub(super) fn queue_missing(self, sampled: Time, calls: f64, timed_calls: f64) -> f64 {
        let (share, k) = (timed_calls / calls, calls / timed_calls);
        let of_one = sampled.preempted_ns / sampled.losses.max(1.0);
        let limit = (1e3 * OUTLIER_US as f64 + OUTLIER_MEANS as f64 * self.value / calls) / of_one.max(1.0);
        // Of losses whose lengths are exponential, the time of those beyond the limit.
        let clipped = sampled.preempted_ns * (1.0 + limit) * (-limit).exp();
        let agrees = self.deviation * self.deviation / (of_one * k * (k - 1.0)).max(1.0);
        let by_share = clipped * share;
        // Where most calls are timed, most stand for themselves alone, and add nothing to the variance.
        let alone = 1.0 - (1.0 - share).powi(2);
        clipped - by_share.min(by_share * alone + agrees)
    }

    /// With the time without a CPU that was in calls which were not timed. An unsure one may have it already, for all of them.
    pub(super) fn with_queue(self, queue: Queue) -> Self {
        match queue.missing_ns {
            Some(missing) if !self.is_unsure() => {
                Self { value: self.value + missing, deviation: self.deviation.hypot(missing * QUEUE_UNSURE) }
            }
            _ => self.unsure_of_queue(queue.share),
        }
    }

    /// As unsure as the losses of a CPU among calls of which the share `untimed` was not timed.
    pub(super) fn unsure_of_losses(self, seen: Time, untimed: f64) -> Self {
        let unsure = seen.preempted_ns * LOSS_UNSURE / seen.losses.max(1.0).sqrt() * untimed;
        Self { deviation: self.deviation.hypot(unsure), ..self }
    }

    /// What timed calls and samples together say; `queue` makes the truth larger only.
    pub(super) fn with_samples(self, samples: Option<Self>, queue: Queue) -> Self {
        let mut longer = self.with_queue(queue);
        let Some(samples) = samples else { return longer };
        // The stacks that make it longer are among the samples.
        longer.value = longer.value.min(self.value.max(samples.value + HALF * samples.deviation));
        if samples.value > self.value { longer.weighed(samples) } else { self.weighed(samples) }
    }

    pub(super) fn weighed(self, samples: Self) -> Self {
        let apart = samples.value - self.value;
        let chance = self.deviation.hypot(samples.deviation);
        if apart > CHANCE * chance {
            samples
        } else if apart > LIKELY * chance && samples.deviation > self.deviation {
            // Few calls that took long, as few samples say, may be missing among those timed.
            Self { deviation: (apart + samples.deviation) / HALF, ..self }
        } else if (apart >= -CHANCE * chance || self.is_unsure()) && samples.deviation < self.deviation {
            let (one, other) = (self.deviation.powi(-2), samples.deviation.max(1.0).powi(-2));
            let value = (self.value * one + samples.value * other) / (one + other);
            Self { value, deviation: (one + other).sqrt().recip() }
        } else {
            self
        }
    }

    /// Samples too few for an estimate may still be far more than the timed calls let expect.
    pub(super) fn with_few_samples(self, seen: Time, class: ApiClass) -> Self {
        if seen.samples < FEWEST_SAMPLES || seen.samples >= LEAST_SAMPLES {
            return self;
        }
        let expected = self.value * seen.samples / seen.sampled_ns.max(1.0);
        if seen.samples - expected <= CHANCE * expected.max(0.1).sqrt() {
            return self;
        }
        let samples = seen.unconditional(class);
        let apart = samples.value + samples.deviation - self.value;
        Self { deviation: self.deviation.max(apart / HALF), ..self }
    }

    /// How seldom samples met the calls tells of an unsure estimate, too: it is taken for a gamma distribution, the conjugate of
    /// the Poisson distribution of hits. `one_ns`: what a sample stands for.
    pub(super) fn with_hits(self, seen: Time, one_ns: f64) -> Self {
        let exact = seen.preempted_ns + seen.waited_ns;
        // Where none met them, their names may have been lost.
        let few = (1.0..LEAST_SAMPLES).contains(&seen.samples);
        if !self.is_unsure() || !few || one_ns <= 0.0 || exact > 0.0 {
            return self;
        }
        let value = self.value.max(1.0);
        let shape = (value / self.deviation.max(1.0)).powi(2);
        let hits = shape + EVEN * seen.samples;
        let rate = shape / value + EVEN / one_ns;
        Self { value: hits / rate, deviation: hits.sqrt() / rate }
    }

    /// Times of short calls are too long: each that is timed waits for what was begun before it, and so for its own cache misses. Of
    /// calls in a row these overlap. Samples, where they met such calls often, know better; else the time is unsure.
    pub(super) fn of_short_calls(self, seen: Time, class: ApiClass) -> Self {
        let samples = seen.unconditional(class);
        if seen.samples >= LEAST_SAMPLES && samples.value + HALF * samples.deviation < self.value {
            return samples;
        }
        match (1.0..LEAST_SAMPLES).contains(&seen.samples) {
            true => Self { deviation: self.deviation.max(self.value / 2.0), ..self },
            false => self,
        }
    }

    pub(super) fn is_unsure(self) -> bool {
        self.deviation > UNSURE * self.value
    }

    /// True if it is unsure, and more so than the other. An estimate that was high by chance has the larger deviation, so that
    /// both are held to their values: to weigh them by deviations would be too low in the mean.
    pub(super) fn gives_way_to(self, other: Self) -> bool {
        self.is_unsure() && other.deviation * self.value < self.deviation * other.value
    }

    /// Not above what all calls between the two components took by samples, if it is unsure.
    pub(super) fn at_most(self, most: f64) -> Self {
        if !self.is_unsure() {
            return self;
        }
        let value = self.value.min(most);
        Self { value, deviation: self.deviation.min((most - value).max(value) / HALF) }
    }

    /// Value and interval, none of them above `most`: a value that is held to that is as unsure as before.
    pub(super) fn interval(self, most: f64) -> (Option<i64>, Option<i64>, Option<i64>) {
        let ns = |value: f64| Some(value.clamp(0.0, most.max(0.0)).round() as i64);
        let value = self.value.min(most);
        (ns(value), ns(value - HALF * self.deviation), ns(value + HALF * self.deviation))
    }
}
