//! Windows of time for which one probe was on, and what they say of the calls in between.
//!
//! A window lasts from the probe's arming to the call that finds its grant used up: the sooner the more calls there
//! are. So calls over time, both summed, would weigh just those windows in which the function was not called. Instead
//! the median of the last windows' own rates is taken for the time up to the next arming: a mean would follow the few
//! windows that were much too short by chance. That time is *busy time*, in which a thread of
//! the process runs; a window is no longer than the busy time since its arming, however long the process had to wait
//! for a processor.
//!
//! Calls in between are taken to last as those in the windows on both sides: a function may be fast now and slow later. The first window has
//! the function's first calls, often its slowest, and says nothing of others unless there is no other. And calls take no
//! longer than all threads together had time.

/// The kernel brings another process' processor time up to date at its clock ticks (every 4 ms, or 1): no window is
/// called shorter than that for want of processor time, in ticks.
const CLOCK_LAG_TICKS: f64 = 10_000_000.0;
/// Windows until a function may be called hot.
const ENOUGH: u32 = 2;
/// Windows whose median rate counts.
const MEDIAN_OF: usize = 9;

/// Processor time of a process, and the part of the wall time in which any of its threads runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct BusyTime {
    began: u64,
    at: u64,
    processor_ns: f64,
    /// Share of the last epoch in which it ran, at most 1.
    share: f64,
    /// Busy ticks so far.
    pub ticks: f64,
    /// Threads at the last epoch.
    threads: f64,
}

/// Calls that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// How many.
    pub samples: u64,
    /// Their ticks.
    pub ticks: u64,
}

impl Timed {
    fn since(self, before: Self) -> Self {
        let (samples, ticks) = (self.samples.saturating_sub(before.samples), self.ticks.saturating_sub(before.ticks));
        Self { samples, ticks }
    }

    fn with(self, other: Self) -> Self {
        Self { samples: self.samples + other.samples, ticks: self.ticks + other.ticks }
    }

    fn mean(self) -> Option<f64> {
        (self.samples > 0).then(|| self.ticks as f64 / self.samples as f64)
    }
}

impl BusyTime {
    /// Begins.
    pub fn start(&mut self, now: u64, processor_ns: f64) {
        *self = Self { began: now, at: now, processor_ns, share: 1.0, ticks: 0.0, threads: 1.0 };
    }

    /// An epoch is over, and the process has so many threads; gives the processor time that it used in it, in ticks.
    pub fn advance(&mut self, now: u64, processor_ns: f64, ticks_per_ns: f64, threads: usize) -> f64 {
        self.threads = threads.max(1) as f64;
        let used = (processor_ns - self.processor_ns).max(0.0) * ticks_per_ns;
        let elapsed = now.saturating_sub(self.at).max(1) as f64;
        self.share = (used / elapsed).min(1.0);
        self.ticks += self.share * elapsed;
        (self.at, self.processor_ns) = (now, processor_ns);
        used
    }
}

impl BusyTime {
    /// The process has ended, or is let go: since the last epoch it has run as it did before.
    pub fn end(&mut self, now: u64) {
        self.ticks += self.share * now.saturating_sub(self.at) as f64;
        self.at = now;
    }
}

/// The windows of one probe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Windows {
    grant: u32,
    /// The site's ticks switched on, at the last close.
    on_ticks: u64,
    /// Busy ticks at the last arming, and the busy length of the window since, once it is closed.
    armed_at: f64,
    length: Option<f64>,
    /// Calls per busy tick in the last windows, a ring.
    rates: [f32; MEDIAN_OF],
    count: u32,
    /// Calls that were not seen, so far, and what they took, ticks.
    unseen: f64,
    unseen_ticks: f64,
    /// Those since the last window, whose length is estimated when the next one closes, and the most ticks that they can take.
    pending: f64,
    pending_limit: f64,
    /// All calls timed up to the last close, those of the first window left out, and those of the last window.
    timed: Timed,
    last: Timed,
    /// When it was armed last.
    armed_wall: u64,
    /// Calls per busy tick, cooling down.
    recent: f64,
    /// Whether a window was closed since the last turn.
    fresh: bool,
}

impl Windows {
    /// The probe is switched on.
    pub fn arm(&mut self, grant: u32, busy: &BusyTime) {
        self.account(busy);
        (self.grant, self.armed_at, self.length, self.armed_wall) = (grant, busy.ticks, None, busy.at);
    }

    /// The probe has switched itself off, having been on for so many ticks in all. `timed`: calls timed so far, without those of
    /// the first window.
    pub fn close(&mut self, on_ticks: u64, timed: Timed, busy: &BusyTime) {
        let before = std::mem::replace(&mut self.last, timed.since(self.timed));
        self.timed = timed;
        if let Some(mean) = self.last.with(before).mean() {
            self.settle(mean);
        }
        let length = on_ticks.saturating_sub(std::mem::replace(&mut self.on_ticks, on_ticks)) as f64;
        let length = length.min((busy.ticks - self.armed_at).max(CLOCK_LAG_TICKS));
        self.length = Some(length);
        if length > 0.0 {
            // The call after the last one granted ends it. Of random arrivals' sums of n + 1 intervals the median is
            // n + 2/3 mean intervals.
            let rate = (f64::from(self.grant) + 2.0 / 3.0) / length;
            self.rates[self.count as usize % MEDIAN_OF] = rate as f32;
            self.count = self.count.saturating_add(1);
            self.recent = if self.count < ENOUGH { 0.0 } else { self.rate() };
            self.fresh = true;
        }
    }

    /// The probe is switched off before its grant is used up, by us.
    pub fn cut(&mut self, on_ticks: u64, busy: &BusyTime) {
        self.on_ticks = on_ticks;
        // What was seen counts; the window says nothing about the time to come.
        (self.armed_at, self.length) = (busy.ticks, Some(0.0));
    }

    /// Whether the probe has ever used up its grant.
    pub fn has_closed(&self) -> bool {
        self.count > 0 || self.on_ticks > 0
    }

    /// Median of the last windows' rates.
    fn rate(&self) -> f64 {
        let mut rates = self.rates;
        let filled = &mut rates[..(self.count as usize).min(MEDIAN_OF)];
        filled.sort_by(f32::total_cmp);
        filled.get(filled.len() / 2).copied().unwrap_or(0.0).into()
    }

    /// Calls of the time since the last window, which nobody saw.
    fn account(&mut self, busy: &BusyTime) {
        if let Some(length) = self.length {
            let unseen = self.rate() * (busy.ticks - self.armed_at - length).max(0.0);
            self.unseen += unseen;
            self.pending += unseen;
            // What was armed before the beginning can't have been called.
            let wall = busy.at.saturating_sub(self.armed_wall.max(busy.began));
            self.pending_limit += wall as f64 * busy.threads;
            (self.armed_at, self.length, self.armed_wall) = (busy.ticks, Some(0.0), busy.at);
        }
    }

    /// Calls that were not seen took so many ticks each.
    fn settle(&mut self, mean: f64) {
        self.unseen_ticks += (self.pending * mean).min(self.pending_limit);
        (self.pending, self.pending_limit) = (0.0, 0.0);
    }

    /// Calls that were not seen, and the ticks that they took. `first`: those of the first window.
    pub fn unseen(mut self, first: Timed, busy: &BusyTime) -> (u64, f64) {
        self.account(busy);
        if let Some(mean) = self.last.mean().or(self.timed.mean()).or(first.mean()) {
            self.settle(mean);
        }
        (self.unseen as u64, self.unseen_ticks)
    }

    /// Calls per busy tick, weighing late windows most.
    pub fn recent_rate(&self) -> f64 {
        self.recent
    }

    /// A turn is over. A function without news cools down slowly: a parked one is looked at again in the end.
    pub fn age(&mut self) {
        if !std::mem::take(&mut self.fresh) {
            self.recent *= 0.98;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 20_000_000;

    /// One call each `interval` busy ticks; the process runs for `share` of each epoch, in one piece.
    fn estimate(interval: f64, share: f64, epochs: u64) -> (f64, f64) {
        let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
        busy.start(0, 0.0);
        let (grant, mut seen, mut on) = (100, 0, 0u64);
        for epoch in 0..epochs {
            if epoch > 0 {
                busy.advance(epoch * EPOCH, share * (epoch * EPOCH) as f64, 1.0, 1);
            }
            if epoch > 0 {
                windows.close(on, Timed::default(), &busy);
            }
            windows.arm(grant, &busy);
            // Armed at a random place of the epoch: it runs, or it will after the wait.
            let waits = (epoch * 7919 % 1000) as f64 >= share * 1000.0;
            let needed = interval * f64::from(grant + 1);
            on += (needed + if waits { (1.0 - share) * EPOCH as f64 / 2.0 } else { 0.0 }) as u64;
            seen += u64::from(grant) + 1;
        }
        busy.advance(epochs * EPOCH, share * (epochs * EPOCH) as f64, 1.0, 1);
        windows.close(on, Timed::default(), &busy);
        let truth = share * (epochs * EPOCH) as f64 / interval;
        ((seen + windows.unseen(Timed::default(), &busy).0) as f64, truth)
    }

    #[test]
    fn hot_functions_of_a_process_that_always_runs() {
        for interval in [5.0, 50.0, 2_000.0] {
            let (calls, truth) = estimate(interval, 1.0, 500);
            assert!((calls / truth - 1.0).abs() < 0.03, "{interval}: {calls} of {truth}");
        }
    }

    #[test]
    fn a_process_that_waits_for_processors_does_not_look_idle() {
        let (calls, truth) = estimate(10.0, 0.6, 2_000);
        // Windows that met a wait say too little, the others the truth: within a factor of four, not of a thousand.
        assert!(calls / truth > 0.25 && calls / truth < 1.2, "{calls} of {truth}");
    }

    #[test]
    fn single_random_calls_have_no_heavy_tail() {
        // Poisson arrivals, one granted call per window: lengths are sums of two exponential intervals.
        let (mut busy, mut windows) = (BusyTime::default(), Windows::default());
        busy.start(0, 0.0);
        let (mut on, mut random) = (0u64, 12_345_u64);
        let mut uniform = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64
        };
        let epochs = 5_000;
        windows.arm(1, &busy);
        for epoch in 1..epochs {
            busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, 1);
            on += (-(uniform().ln() + uniform().ln()) * 1_000.0) as u64 + 1;
            windows.close(on, Timed::default(), &busy);
            windows.arm(1, &busy);
        }
        let truth = (epochs * EPOCH) as f64 / 1_000.0;
        let ratio = windows.unseen(Timed::default(), &busy).0 as f64 / truth;
        assert!((ratio - 1.0).abs() < 0.25, "{ratio}");
    }

    #[test]
    fn a_probe_that_was_never_used_up_has_seen_all() {
        let mut busy = BusyTime::default();
        busy.start(0, 0.0);
        let mut windows = Windows::default();
        windows.arm(100, &busy);
        busy.advance(EPOCH * 100, EPOCH as f64 * 100.0, 1.0, 1);
        assert_eq!(windows.unseen(Timed::default(), &busy), (0, 0.0));
    }

    /// Ten calls in each of 100 epochs, of which one is seen; the i-th epoch's take `took(i)` ticks.
    fn estimated_ticks(took: impl Fn(u64) -> u64, first: Timed, threads: usize) -> f64 {
        let (mut busy, mut windows, mut timed) = (BusyTime::default(), Windows::default(), Timed::default());
        busy.start(0, 0.0);
        windows.arm(1, &busy);
        for epoch in 1..=100 {
            busy.advance(epoch * EPOCH, (epoch * EPOCH) as f64, 1.0, threads);
            if epoch > 1 {
                timed = timed.with(Timed { samples: 1, ticks: took(epoch) });
            }
            // So long that the calls come at a rate of ten in an epoch: the one after the last granted ends a window.
            windows.close(epoch * EPOCH / 6, timed, &busy);
            windows.arm(1, &busy);
        }
        windows.unseen(first, &busy).1
    }

    #[test]
    fn calls_that_are_not_seen_take_what_those_about_them_take() {
        let first = Timed { samples: 1, ticks: EPOCH };
        let even = estimated_ticks(|_| 1_000, first, 1);
        let (slow, fast) = (estimated_ticks(|epoch| if epoch > 50 { 30_000 } else { 1_000 }, first, 1), even);
        // Half of the epochs take 30 times as long: 15.5 times in all.
        assert!((slow / fast / 15.5 - 1.0).abs() < 0.05, "{slow} {fast}");
    }

    #[test]
    fn calls_take_no_longer_than_the_threads_have_time() {
        let first = Timed { samples: 1, ticks: EPOCH };
        let one = estimated_ticks(|_| EPOCH, first, 1);
        let four = estimated_ticks(|_| EPOCH, first, 4);
        assert!(one <= 100.0 * EPOCH as f64 && one > 80.0 * EPOCH as f64, "{one}");
        assert!((four / one / 4.0 - 1.0).abs() < 0.05, "{four}");
    }
}
