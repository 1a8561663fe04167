//! Calls of one function while its probe was off, and how sure their number is.
//!
//! The ends of epochs at which a probe is armed are a systematic sample of the run: the rate at that moment times the epoch, summed,
//! is the number of calls without bias, whatever the pattern, as long as that is none of the epochs' own. How far consecutive
//! moments differ says how sure it is (the successive-difference estimator of a systematic sample's variance; Wolter,
//! "Introduction to Variance Estimation", 2007, chapter 8). Longer stretches, of a probe that waited for its turn, have a moment
//! at each end, and what is between is as likely to be a pause as moments are.

/// 95 % of a normal distribution lie within so many standard deviations.
const NORMAL_95: f64 = 1.96;

/// Half of an interval that is wider, in parts of the estimate, says that nothing is known.
const MOST_UNSURE: f64 = 2.0;

/// Calls that were not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnseenCalls {
    /// How many.
    pub calls: f64,
    /// Half of the 95 % interval about it.
    pub error: f64,
    /// What they took, ticks, with those that were counted and not timed.
    pub ticks: f64,
}

/// Time for which a probe was off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unsampled {
    /// Busy ticks.
    pub ticks: f64,
    /// Ticks that all threads together had in it.
    pub thread_ticks: f64,
}

/// What a window leaves unsure of the calls after it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doubt {
    /// This part of them, ...
    pub part: f64,
    /// ... at most so many, ...
    pub calls: f64,
    /// ... and this part in any case.
    pub least: f64,
}

/// The estimate so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unseen {
    calls: f64,
    ticks: f64,
    /// Variance of `calls` by the choice of moments, and what the cost of timing leaves unsure of it, the same way each time.
    variance: f64,
    unsure: f64,
    /// Calls whose length is not estimated yet, and the most ticks that those can take.
    unpriced: f64,
    limit: f64,
    /// Calls per busy tick at the last two moments.
    rate: f64,
    before: f64,
    /// Calls per busy tick while it is called, at the last moment.
    called: f64,
    doubt: Doubt,
    /// Moments, and those that were within a burst.
    moments: f64,
    within: f64,
}

impl UnseenCalls {
    /// Whether the number means anything: the interval is no wider than a few times it.
    pub fn is_known(&self, seen: u64) -> bool {
        self.error <= MOST_UNSURE * (self.calls + seen as f64)
    }
}

impl Unseen {
    /// A probe was armed: while the function is called there are `called` calls per busy tick, known but for the `doubt`; the
    /// moment is `within` (1.0) or outside (0.0) of such a time.
    pub fn moment(&mut self, called: f64, within: f64, doubt: Doubt) {
        self.before = if self.moments == 0.0 { called * within } else { self.rate };
        (self.rate, self.called, self.doubt) = (called * within, called, doubt);
        self.moments += 1.0;
        self.within += within;
    }

    /// The last moment says more of the time since then than the one now: there is none.
    pub fn again(&mut self) {
        self.before = self.rate;
    }

    /// So many calls were counted and not timed, in `limit` ticks that all threads together had. They are priced with the others.
    pub fn counted(&mut self, calls: f64, limit: f64) {
        self.unpriced += calls;
        self.limit += limit;
    }

    /// The probe was on for an epoch and longer after a stretch of time, and nobody called.
    pub fn silence(&mut self, stretch: Unsampled, epoch: f64) {
        self.moment(self.called, 0.0, self.doubt);
        self.settle(stretch, epoch, None);
    }

    /// A stretch between the last two moments is over. `mean`: what a call took about then, if known.
    pub fn settle(&mut self, stretch: Unsampled, epoch: f64, mean: Option<f64>) {
        self.add(stretch, epoch, self.before, self.rate, mean);
    }

    /// The stretch after the last moment, and the whole.
    pub fn settle_last(mut self, stretch: Unsampled, epoch: f64, mean: Option<f64>) -> UnseenCalls {
        self.add(stretch, epoch, self.rate, self.rate, mean);
        let error = NORMAL_95 * (self.variance + self.unsure * self.unsure).sqrt();
        UnseenCalls { calls: self.calls, error, ticks: self.ticks }
    }

    fn add(&mut self, stretch: Unsampled, epoch: f64, from: f64, to: f64, mean: Option<f64>) {
        // The moment at its beginning stands for an epoch, both ends for what is beyond.
        let beyond = (stretch.ticks - epoch).max(0.0);
        let calls = from * (stretch.ticks - beyond) + from.midpoint(to) * beyond;
        let within = (self.within + 0.5) / (self.moments + 1.0);
        self.variance +=
            (stretch.ticks * (from - to)).powi(2) / 2.0 + (beyond * self.called).powi(2) * within * (1.0 - within);
        self.unsure += (calls * self.doubt.part).min(self.doubt.calls).max(calls * self.doubt.least);
        self.calls += calls;
        self.unpriced += calls;
        self.limit += stretch.thread_ticks;
        if let Some(mean) = mean {
            self.ticks += (self.unpriced * mean).min(self.limit);
            (self.unpriced, self.limit) = (0.0, 0.0);
        }
    }
}
