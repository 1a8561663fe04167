//! Windows of time for which one probe was on, and what they say of the calls in between.
//!
//! A window lasts from the probe's arming to the call that finds its grant used up: the sooner the more calls there
//! are. Probes are armed at the epochs' ends, a systematic sample of the program's time: what each says of the rate of calls at that
//! moment stands for the epoch after it ([`super::unseen`]). The rate is the window's own from its first call on, if that came at once,
//! and less of it the later it came: between bursts it is 0. Where timing takes most of a window, the length that is left of it
//! is mostly error, and the median of the last windows' rates is taken: a mean would follow the few that were much too short by
//! chance. Time is *busy time*, in which a thread of
//! the process runs; a window is no longer than the busy time since its arming, however long the process had to wait
//! for a CPU. One that is longer than the process runs at a time has waits in it, which are taken off.
//!
//! Calls in between are taken to last as those in the windows on both sides: a function may be fast now and slow later. The first window has
//! the function's first calls, often its slowest, and says nothing of others unless there is no other. And calls take no
//! longer than all threads together had time.

use std::sync::atomic::Ordering::Relaxed;

use transect_calibrate::TimedCall;
use transect_event_abi::probe_arena::{SiteRecord, UNTIL_FIRST_SHIFT};

use super::cpu_time::Runs;
use super::disturbance::Span;
use super::unseen::{Doubt, Unsampled, Unseen, UnseenCalls};

/// The kernel brings another process' CPU time up to date at its clock ticks (every 4 ms, or 1): no window is
/// called shorter than that for want of CPU time, in ticks.
const CLOCK_LAG_TICKS: f64 = 10_000_000.0;
/// What the start and the end of a process take, of its C library and of the kernel, ticks.
const END_TICKS: f64 = 1_000_000.0;
/// The least part of a window that is taken to be the program's own time.
const LEAST_UNDISTURBED: f64 = 0.05;
/// Windows until a function may be called hot.
const ENOUGH: u32 = 2;
/// Windows whose median rate counts.
const MEDIAN_OF: usize = 9;
/// A first call within so many ticks of the arming comes at once: it takes a while until another CPU sees the jump.
const AT_ONCE_TICKS: f64 = 40_000.0;
/// So does one within so many of the window's own intervals: of random calls one in twenty is later.
const AT_ONCE_INTERVALS: f64 = 3.0;
/// A window that lasts this many times as long from its first call on as up to it holds the gaps between bursts, too.
const HOLDS_GAPS: f64 = 2.0;
/// Such a window is this much longer than one that does not, in calls.
const LONGER: u32 = 8;
/// Fewer granted calls say little of the rate.
const FEW: u32 = 8;
/// A CPU counts a call while it works on the function: this part of what counting costs an empty one shows, as a rule, ...
const COUNTING_SEEN: f64 = 0.75;
/// ... to within this part of that.
const COUNTING_ERROR: f64 = 0.33;
/// What timing took is known to within this part, and ...
const COST_ERROR: f64 = 0.25;
/// ... how much longer it took at first, of code and data that are in no cache, to within so many ticks.
const FIRST_CALL_ERROR: f64 = 8_000.0;
/// Even of calls that come evenly the number is known to within this part of those that were not seen: busy time is.
const LEAST_ERROR: f64 = 0.03;
/// What idle time adds to [`BusyTime::unsure`].
const IDLE_ERROR: f64 = 0.6;
/// The part of the time without a CPU of so many threads that they are not asked.
const UNKNOWN_CROWDING: f64 = 0.5;
/// A window of timed calls that leaves more unsure than this part of their number says nothing beside counted ones.
const MOST_DOUBT: f64 = 0.5;
/// Most of a window's length that may be error.
const MOST_ERROR: f64 = 0.9;
/// Calls after a window of bursts, most of which belong to the last one, are known to within this multiple of their number.
const LAST_BURST_ERROR: f64 = 1.5;
/// A process that runs less than this part of the time may not have run when it was armed.
const ALWAYS_RUNS: f64 = 0.95;

/// CPU time of a process, and the part of the wall time in which any of its threads runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct BusyTime {
    began: u64,
    at: u64,
    cpu_ns: f64,
    /// Share of the last epoch in which it ran, at most 1.
    share: f64,
    /// Busy ticks so far.
    pub ticks: f64,
    /// Ticks so far in which it did not run.
    waited: f64,
    /// Ticks so far that all threads together had.
    thread_ticks: f64,
    /// Threads at the last epoch.
    threads: f64,
    /// CPU time that earlier epochs had no room for: the kernel updates it once per clock tick.
    ahead: f64,
    /// How often its threads have run so far.
    runs: Option<Runs>,
    /// Runs of threads, CPU time, epochs' lengths and times in the queue for a CPU in ticks, late epochs weighing most.
    late: [f64; 4],
    /// How far the CPU time may be behind, ticks.
    lag: f64,
    /// Busy ticks of an epoch, as a rule.
    epoch: f64,
    /// When the last one began.
    from: u64,
}

/// Weight of an epoch in the next one.
const FADING: f64 = 0.9;

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

/// For how long a site has been switched on so far, ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnTime {
    /// From first calls to those that found the grant used up.
    calls: u64,
    /// Before first calls, in units of [`UNTIL_FIRST_SHIFT`].
    until_first: u32,
}

impl OnTime {
    /// As the process has noted it.
    pub fn of(record: &SiteRecord) -> Self {
        Self { calls: record.on_ticks.load(Relaxed), until_first: record.until_first.load(Relaxed) }
    }

    /// What is between: (before a first call, from there on).
    fn since(self, before: Self) -> (f64, f64) {
        let until_first = u64::from(self.until_first.wrapping_sub(before.until_first)) << UNTIL_FIRST_SHIFT;
        (until_first as f64, self.calls.saturating_sub(before.calls) as f64)
    }
}

impl BusyTime {
    /// Begins, while the process stands or at a moment at which its CPU time is known.
    pub fn start(&mut self, now: u64, cpu_ns: f64) {
        *self = Self {
            began: now,
            at: now,
            cpu_ns,
            share: 1.0,
            ticks: 0.0,
            waited: 0.0,
            thread_ticks: 0.0,
            threads: 1.0,
            ahead: 0.0,
            runs: None,
            late: [0.0; 4],
            lag: CLOCK_LAG_TICKS,
            epoch: 0.0,
            from: now,
        };
    }

    /// An epoch is over, and the process has so many threads, which have run so often; gives the CPU time that
    /// it used in it, in ticks.
    pub fn advance(&mut self, now: u64, cpu_ns: f64, ticks_per_ns: f64, threads: usize, runs: Option<Runs>) -> f64 {
        self.threads = threads.max(1) as f64;
        let used = (cpu_ns - self.cpu_ns).max(0.0) * ticks_per_ns;
        let elapsed = now.saturating_sub(self.at).max(1) as f64;
        let ran = (self.ahead + used).min(elapsed);
        self.ahead = (self.ahead + used - ran).min(CLOCK_LAG_TICKS);
        self.share = ran / elapsed;
        self.epoch = if self.epoch > 0.0 { FADING * self.epoch + (1.0 - FADING) * ran } else { ran };
        let (new, queued) = match (std::mem::replace(&mut self.runs, runs), runs) {
            (Some(before), Some(runs)) => {
                let queued = runs.queued_ns.saturating_sub(before.queued_ns) as f64 * ticks_per_ns;
                (runs.count.saturating_sub(before.count) as f64, queued)
            }
            _ => (0.0, 0.0),
        };
        self.late = std::array::from_fn(|part| FADING * self.late[part] + [new, used, elapsed, queued][part]);
        self.ticks += self.share * elapsed;
        self.thread_ticks += elapsed * self.threads;
        self.waited += self.waited_in(elapsed - ran, queued);
        self.from = std::mem::replace(&mut self.at, now);
        self.cpu_ns = cpu_ns;
        used
    }
}

impl BusyTime {
    /// How long it did not run in the last epoch, ticks, of which its clock says `idle`. That clock steps: of a process that always runs, as
    /// a rule, nothing is to be believed; of a thread that always wants to, the time in the queue is exact.
    fn waited_in(&self, idle: f64, queued: f64) -> f64 {
        let [_, used, elapsed, waits] = self.late;
        let queued = if self.threads > 1.0 { 0.0 } else { queued };
        let waits = if self.threads > 1.0 { 0.0 } else { waits };
        if used + waits >= ALWAYS_RUNS * elapsed { queued } else { idle.max(queued) }
    }

    /// How many threads ran at once while any did, at least 1.
    fn at_once(&self) -> f64 {
        let [_, used, elapsed, _] = self.late;
        (used / elapsed.max(1.0)).max(1.0)
    }

    /// How much of `length` ticks on end, at the end of which the process runs, it has run as a rule.
    fn ran_in(&self, length: f64) -> f64 {
        let [runs, used, elapsed, _] = self.late;
        let rest = elapsed - used;
        if self.runs.is_none() || runs < 1.0 || used <= 0.0 || rest <= 0.0 {
            return length;
        }
        let share = used / elapsed;
        // The median of how many waits there are in it, as they come at random.
        let waits = (length * share * runs / used + 1.0 / 3.0).floor();
        (length - waits * rest / runs).max(length * share / 2.0)
    }

    /// How unsure busy time is, as a part of it: the kernel brings it up to date in steps, which hides where in an epoch a process
    /// ran that slept or was kept from its CPU for the rest.
    fn unsure(&self) -> f64 {
        let [_, used, elapsed, queued] = self.late;
        let crowded = match self.runs {
            Some(_) => queued / (used + queued).max(1.0),
            None if self.threads > 1.0 => UNKNOWN_CROWDING,
            None => return 0.0,
        };
        crowded + IDLE_ERROR * (1.0 - (used + queued) / elapsed.max(1.0)).max(0.0)
    }

    /// Busy ticks of an epoch, as a rule.
    pub fn usual_epoch(&self) -> f64 {
        self.epoch
    }

    /// Ticks that all threads together had up to `now`.
    pub fn thread_ticks(&self, now: u64) -> f64 {
        self.thread_ticks + self.since(now) * self.threads
    }

    /// Ticks since the last epoch's end.
    pub fn since(&self, now: u64) -> f64 {
        now.saturating_sub(self.at) as f64
    }

    /// How many threads there were at the last epoch.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// The process has ended: nothing of its CPU time is left to be told, and its functions were not called in its end.
    pub fn ended(&mut self) {
        self.lag = 0.0;
        self.ticks = (self.ticks - END_TICKS).max(0.0);
    }

    /// The process has ended, or is let go, and its CPU time is not known: since the last epoch it has run as it did before. Before
    /// the first one nothing is known: most of so short a life may be its end.
    pub fn end(&mut self, now: u64) {
        let share = if self.at == self.began { 0.0 } else { self.share };
        self.ticks += share * now.saturating_sub(self.at) as f64;
        self.at = now;
    }
}

/// The windows of one probe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Windows {
    grant: u32,
    /// The site's ticks switched on, at the last close.
    on: OnTime,
    /// Busy ticks at the last arming, and the busy length of the window since, once it is closed.
    armed_at: f64,
    length: Option<f64>,
    /// [`BusyTime::waited`] at the last arming.
    waited_at: f64,
    /// Calls per busy tick and granted calls of the last windows, a ring.
    rates: [(f32, u32); MEDIAN_OF],
    count: u32,
    /// Calls that were not seen, so far.
    unseen: Unseen,
    /// The time since the last window, of which calls are estimated when the next one closes.
    pending: Unsampled,
    /// All calls timed up to the last close, those of the first window left out, and those of the last window.
    timed: Timed,
    last: Timed,
    /// When it was armed last, and for how long it was on since.
    armed_wall: u64,
    on_wall: f64,
    /// Calls per busy tick, cooling down.
    recent: f64,
    /// Calls that were counted and not timed.
    counted: u64,
    /// Those per busy tick, late ones weighing most.
    average: f64,
    /// Whether a window was closed since the last turn.
    fresh: bool,
    /// Ticks before first calls that did not come at once, and from first calls on, late windows weighing most.
    late: [f64; 2],
}

impl Windows {
    /// The probe is switched on.
    pub fn arm(&mut self, grant: u32, busy: &BusyTime) {
        self.account(busy);
        (self.grant, self.armed_at, self.length, self.armed_wall) = (grant, busy.ticks, None, busy.at);
        self.waited_at = busy.waited;
    }

    /// The stretch in which the probe, which has switched itself off having been `on` for so long in all, timed calls.
    /// `timed` and `call`: as for [`Windows::close`].
    pub fn span(&self, on: OnTime, timed: Timed, call: &TimedCall, busy: &BusyTime) -> Span {
        let mean = timed.since(self.timed).with(self.last).mean();
        let (until_first, calls) = on.since(self.on);
        let start = self.armed_wall.max(busy.began) as f64 + until_first;
        Span { start, length: calls, cost: f64::from(self.grant) * call.cost(mean.unwrap_or(f64::INFINITY)) }
    }

    /// The probe has switched itself off, having been `on` for so long in all. `timed`: calls timed so far, without those of
    /// the first window; `call`: what timing adds to one; `disturbed`: what timing took in its stretch ([`Windows::span`]),
    /// that of other functions' calls included, ticks.
    pub fn close(&mut self, on: OnTime, timed: Timed, call: &TimedCall, disturbed: f64, busy: &BusyTime) {
        let before = std::mem::replace(&mut self.last, timed.since(self.timed));
        self.timed = timed;
        let mean = self.last.with(before).mean();
        let (until_first_wall, calls) = on.since(std::mem::replace(&mut self.on, on));
        let longest = (busy.ticks - self.armed_at).max(busy.lag);
        let ran = busy.ran_in(calls).min(longest);
        self.on_wall = until_first_wall + calls;
        // Who was armed while the process did not run could not be called.
        let until_first = (until_first_wall - (busy.waited - self.waited_at)).max(0.0);
        self.length = Some((until_first + ran).min(longest));
        // Calls follow each other faster where none is timed. Nor do they take less time than they were seen to take, however dear
        // timing was when its cost was measured. Of calls inside each other, or side by side, that is not known: they took more
        // than there was time.
        let overlap = self.last.ticks as f64 > calls;
        let calls_took = match self.last.mean() {
            Some(mean) if !overlap => call.net(mean) * self.last.samples as f64,
            _ => 0.0,
        };
        let calls_took = calls_took / busy.at_once();
        let length = (ran - disturbed / busy.at_once()).max(ran * LEAST_UNDISTURBED).max(calls_took.min(ran));
        if length > 0.0 {
            // The first of the granted calls begins it, and the one after the last ends it. Of random arrivals' sums of n intervals
            // the median is n - 1/3 mean intervals.
            let own = (f64::from(self.grant) - 1.0 / 3.0) / length;
            self.rates[self.count as usize % MEDIAN_OF] = (own as f32, self.grant);
            let at_once = AT_ONCE_TICKS.max(AT_ONCE_INTERVALS * calls / f64::from(self.grant.max(1)));
            let late = |waited: f64| (waited - at_once).max(0.0);
            if self.count > 0 {
                self.late = [FADING * self.late[0] + late(until_first), FADING * self.late[1] + calls];
            }
            self.count = self.count.saturating_add(1);
            let usual = self.rate_while_called();
            self.recent = if self.count < ENOUGH { 0.0 } else { usual };
            self.fresh = true;
            let timing = disturbed / busy.at_once();
            let is_certain = self.grant >= FEW && timing < ran / 2.0;
            let doubt = self.doubt(calls, length, timing, overlap && timing > ran / 4.0, busy);
            // At the last epoch's end before its first call the probe was on, too.
            let first = self.armed_wall.max(busy.began) as f64 + until_first_wall - busy.from as f64;
            let waited = until_first.min(if first >= 0.0 { first } else { first.rem_euclid(busy.epoch.max(1.0)) });
            let began = (1.0 - late(waited) / calls.max(1.0)).max(0.0);
            // Where calls are counted, that says how many there are.
            if self.counted > 0 && doubt.part > MOST_DOUBT {
                self.unseen.again();
            } else {
                self.unseen.moment(if is_certain { own } else { usual }, began, doubt);
            }
        }
        let mean = mean.map(|mean| call.net(mean));
        self.unseen.settle(std::mem::take(&mut self.pending), busy.epoch, mean);
    }

    /// What a window of `calls` ticks leaves unsure, of which `length` are the program's own; timing took `timing`, and where it took
    /// much of calls that `overlap` nothing says how short those are.
    fn doubt(&self, calls: f64, length: f64, timing: f64, overlap: bool, busy: &BusyTime) -> Doubt {
        let least = LEAST_ERROR + busy.unsure();
        if calls > busy.epoch {
            // It may hold bursts, the last of which, of fewer calls than it, goes on: where there are pauses before first calls.
            let [before, from_there] = self.late;
            let pauses = (10.0 * before / from_there.max(1.0)).min(1.0);
            return Doubt { part: LAST_BURST_ERROR * pauses, calls: self.grant.into(), least };
        }
        let error = if overlap { MOST_ERROR } else { (COST_ERROR * timing + FIRST_CALL_ERROR) / length };
        let error = error.min(MOST_ERROR);
        Doubt { part: error / (1.0 - error), calls: f64::INFINITY, least }
    }

    /// From the last epoch's end on the probe counts calls.
    pub fn count(&mut self, busy: &BusyTime) {
        self.account(busy);
    }

    /// Since then it has counted so many, each of which took `cost` ticks for it. A stretch of time that begins and ends when we want
    /// says how often a function is called without any regard to how its calls come.
    pub fn counted(&mut self, calls: u64, cost: f64, call: &TimedCall, busy: &BusyTime) {
        let length = busy.ticks - self.armed_at;
        let wall = busy.at.saturating_sub(self.armed_wall) as f64;
        (self.armed_at, self.armed_wall) = (busy.ticks, busy.at);
        if length <= 0.0 {
            return;
        }
        let counting = COUNTING_SEEN * calls as f64 * cost / busy.at_once();
        let own = (length - counting).max(length * LEAST_UNDISTURBED);
        let rate = calls as f64 / own;
        let doubt =
            Doubt { part: COUNTING_ERROR * counting / own, calls: f64::INFINITY, least: LEAST_ERROR + busy.unsure() };
        self.unseen.moment(rate, 1.0, doubt);
        self.unseen.counted(calls as f64, wall * busy.threads);
        let mean = self.last.mean().map(|mean| call.net(mean));
        self.unseen.settle(std::mem::take(&mut self.pending), busy.epoch, mean);
        self.average = if self.counted == 0 { rate } else { self.average.midpoint(rate) };
        self.recent = self.average;
        self.counted += calls;
        self.fresh = true;
    }

    /// Calls that were counted and not timed.
    pub fn calls_counted(&self) -> u64 {
        self.counted
    }

    /// The probe is switched off before its grant is used up, by us.
    pub fn cut(&mut self, on: OnTime, busy: &BusyTime) {
        if self.length.is_none() && busy.ticks - self.armed_at > busy.epoch && on.since(self.on).1 == 0.0 {
            self.unseen.silence(std::mem::take(&mut self.pending), busy.epoch);
        }
        self.on = on;
        // What was seen counts; the window says nothing about the time to come.
        (self.armed_at, self.length) = (busy.ticks, Some(0.0));
    }

    /// Whether the probe has ever used up its grant.
    pub fn has_closed(&self) -> bool {
        self.count > 0 || self.on.calls > 0
    }

    /// Whether windows end within bursts of calls.
    fn is_within_bursts(&self) -> bool {
        let [before, from_there] = self.late;
        before * HOLDS_GAPS > from_there
    }

    /// Most samples for the next window, which is to have calls for `span` ticks, and between `least` and `most` of them: functions come
    /// in bursts, and a window within one says nothing of the time between them.
    pub fn wanted(&self, span: f64, least: u32, most: u32) -> u32 {
        let calls = ((self.rate_while_called() * span) as u32).clamp(least, most / LONGER);
        if self.is_within_bursts() {
            calls.max(self.grant.saturating_mul(LONGER)).min(most)
        } else {
            calls.max(self.grant)
        }
    }

    /// Median of the last windows' rates, each as often as it has calls: of bursts, windows longer than one say more.
    fn rate_while_called(&self) -> f64 {
        let mut rates = self.rates;
        let filled = &mut rates[..(self.count as usize).min(MEDIAN_OF)];
        filled.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = filled.iter().map(|&(_, calls)| u64::from(calls)).sum::<u64>() / 2;
        let median = filled.iter().find(|&&(_, calls)| {
            let found = left < u64::from(calls);
            left = left.saturating_sub(calls.into());
            found
        });
        median.map_or(0.0, |&(rate, _)| rate.into())
    }

    /// Calls of the time since the last window, which nobody saw.
    fn account(&mut self, busy: &BusyTime) {
        if let Some(length) = self.length {
            self.pending.ticks += (busy.ticks - self.armed_at - length).max(0.0);
            // What was armed before the beginning can't have been called.
            let wall = busy.at.saturating_sub(self.armed_wall.max(busy.began));
            self.pending.thread_ticks += (wall as f64 - self.on_wall).max(0.0) * busy.threads;
            (self.armed_at, self.length, self.armed_wall) = (busy.ticks, Some(0.0), busy.at);
            self.on_wall = 0.0;
        }
    }

    /// Calls that were not seen, and the ticks that they took, net of what timing adds. `first`: those of the first window.
    pub fn unseen(mut self, first: Timed, call: &TimedCall, busy: &BusyTime) -> UnseenCalls {
        self.account(busy);
        let mean = self.last.mean().or(self.timed.mean()).or(first.mean());
        self.unseen.settle_last(self.pending, busy.epoch, mean.map(|mean| call.net(mean)))
    }

    /// Calls per busy tick, weighing late windows most.
    pub fn recent_rate(&self) -> f64 {
        self.recent
    }

    /// A turn is over. A function without news cools down slowly: a parked one is looked at again in the end.
    pub fn age(&mut self, busy: &BusyTime) {
        if std::mem::take(&mut self.fresh) {
            return;
        }
        self.recent *= 0.98;
        // It is on, and its grant is not used up.
        if self.length.is_none() && busy.ticks > self.armed_at {
            self.recent = self.recent.min(f64::from(self.grant + 1) / (busy.ticks - self.armed_at));
        }
    }
}

#[cfg(test)]
mod tests;
