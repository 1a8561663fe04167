//! One thread: its times, what it gained, and where samples met it.

use std::collections::HashMap;

use transect_bpf_collect::record::{FRACTION_BITS, sched_task, task_event};

use super::stop_skid::Callers;
use super::thread_times::ThreadTimes;
use super::waits_for::WaitsFor;
use crate::sched::call_stack::{NO_STACK, StackNumber};
use crate::sched::cause::{CauseNumber, UNKNOWN_CAUSE};
use crate::sched::collection::Collection;
use crate::sched::sample::{RawTimedSample, SampleKey, SampleSum};
use crate::sched::timeline::RawWait;

/// Running time that samples may miss without it being looked where it was: they begin late, and end early.
const MISSED: f64 = 0.02;

/// Standard deviations that are no chance.
const SURE: f64 = 3.0;

/// So many samples say where all of a thread's time is; of fewer, others of its kind tell more (`sched::short_threads`).
const WELL_SAMPLED: u64 = 8;

/// Samples with one stack at one number of active threads.
#[derive(Debug, Clone, Copy, Default)]
struct Sampled {
    count: u64,
    /// What they stand for divided by the active threads.
    weight: f64,
    ns: f64,
}

type Place = (StackNumber, u32);

/// A wait that was looked at and has lasted so long most likely goes on, ns.
const SLEEPS_ON: u64 = 50_000_000;

/// Where a wait was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    pub stack: StackNumber,
    pub cause: CauseNumber,
    pub what: WaitsFor,
    /// Between this look and the one before, ns.
    pub gap: u64,
    /// Its time limit, ns, and its cause if that ends it.
    pub limit: Option<(u64, CauseNumber)>,
}

#[derive(Debug)]
struct OpenWait {
    begin: u64,
    looked: Option<Looked>,
    /// Time in which nobody was active that it has ended already, ns.
    idle: u64,
}

/// What waits with one stack and cause stand for among those that were not looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    ns: f64,
    idle: f64,
}

/// Waits that were not looked at.
#[derive(Debug, Default)]
struct Unseen {
    count: u64,
    ns: u64,
    idle: u64,
    begin: u64,
    end: u64,
}

/// See above.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Its number in the records.
    pub task: u32,
    /// That of who made it, 0 if unknown.
    pub parent: u32,
    pub tid: i32,
    pub tgid: i32,
    pub parent_tgid: i32,
    pub name: String,
    pub times: ThreadTimes,
    /// When it ended.
    pub end: Option<u64>,
    criticality: f64,
    /// The clock when it became active.
    since: f64,
    samples: HashMap<Place, Sampled>,
    /// The time that they stand for, ns.
    sampled_ns: f64,
    /// Stops of it in system calls, and elsewhere.
    stops: [HashMap<Place, Sampled>; 2],
    /// When each of them was.
    stop_times: [Vec<(u64, Place)>; 2],
    wait: Option<OpenWait>,
    /// When it was last looked whether it waits.
    pub tried: Option<u64>,
    /// It was seen waiting at some instant up to then.
    expected: Option<(u64, Looked)>,
    shares: HashMap<(StackNumber, CauseNumber), Share>,
    unseen: Unseen,
}

impl Thread {
    /// A thread that was not heard of before.
    pub fn new(task: u32, (tgid, tid): (i32, i32), times: ThreadTimes) -> Self {
        Self {
            task,
            parent: 0,
            tid,
            tgid,
            parent_tgid: 0,
            name: String::new(),
            times,
            end: None,
            criticality: 0.0,
            since: 0.0,
            samples: HashMap::new(),
            sampled_ns: 0.0,
            stops: Default::default(),
            stop_times: Default::default(),
            wait: None,
            tried: None,
            expected: None,
            shares: HashMap::new(),
            unseen: Unseen::default(),
        }
    }

    /// A record of it as the kernel would write it.
    pub fn record(&self, event: u32, time: u64) -> sched_task {
        let exact = self.times.exact();
        let mut record = sched_task {
            event,
            task: self.task,
            parent: self.parent,
            tid: self.tid,
            tgid: self.tgid,
            parent_tgid: self.parent_tgid,
            time,
            criticality: fixed(self.criticality),
            running_ns: exact.running as u64,
            runnable_ns: exact.runnable as u64,
            blocked_ns: exact.blocked as u64,
            ..sched_task::default()
        };
        for (at, byte) in record.comm.iter_mut().zip(self.name.bytes().take(15)) {
            *at = byte as _;
        }
        record
    }

    /// It is active from now on: the clock has reached `gained`.
    pub fn becomes_active(&mut self, gained: f64) {
        self.since = gained;
    }

    /// It is not any more.
    pub fn stops_being_active(&mut self, gained: f64) {
        self.criticality += gained - self.since;
    }

    /// It waits from now on.
    pub fn begins_wait(&mut self, time: u64) {
        let looked = self.expected.take().filter(|(until, _)| time <= *until).map(|(_, looked)| looked);
        self.wait = Some(OpenWait { begin: time, looked, idle: 0 });
    }

    /// When the wait began that it is in.
    pub fn waits_since(&self) -> Option<u64> {
        self.wait.as_ref().map(|wait| wait.begin)
    }

    /// Whether it is in a wait that was looked at.
    pub fn is_looked_at_now(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.looked.is_some())
    }

    /// Whether it has been in such a wait for long.
    pub fn sleeps_on(&self, now: u64) -> bool {
        self.is_looked_at_now() && self.waits_since().is_some_and(|since| since + SLEEPS_ON < now)
    }

    /// It waits there, now or from some instant up to `until` on.
    pub fn is_looked_at(&mut self, looked: Looked, until: u64) {
        match &mut self.wait {
            Some(wait) => drop(wait.looked.get_or_insert(looked)),
            None => self.expected = Some((until, looked)),
        }
    }

    /// What it waits for, as far as is known.
    pub fn waits_for(&self) -> WaitsFor {
        let looked = self.wait.as_ref().and_then(|wait| wait.looked);
        looked.map_or(WaitsFor::Unknown, |looked| looked.what)
    }

    /// The end of its wait has ended so long a time in which nobody was active, ns.
    pub fn has_ended(&mut self, idle: u64) {
        if let Some(wait) = &mut self.wait {
            wait.idle += idle;
        }
    }

    /// Its wait is over, and with it `idle` ns in which nobody was active.
    pub fn ends_wait(&mut self, time: u64, idle: u64, collection: &mut Collection) {
        let Some(OpenWait { begin, looked, idle: before }) = self.wait.take() else { return };
        let (ns, idle) = (time.saturating_sub(begin), before + idle);
        let Some(Looked { stack, cause, gap, limit, .. }) = looked else {
            let unseen = &mut self.unseen;
            unseen.begin = if unseen.count == 0 { begin } else { unseen.begin.min(begin) };
            unseen.end = unseen.end.max(time);
            (unseen.count, unseen.ns, unseen.idle) = (unseen.count + 1, unseen.ns + ns, unseen.idle + idle);
            return;
        };
        let cause = limit.filter(|(limit, _)| ns >= limit - limit / 50).map_or(cause, |(_, cause)| cause);
        // One that is shorter than the time between two looks is met by chance: it stands for those that were not.
        let others = gap.saturating_sub(ns) as f64;
        let share = self.shares.entry((stack, cause)).or_default();
        share.ns += others;
        share.idle += others * idle as f64 / f64::max(ns as f64, 1.0);
        collection.user_wait(RawWait { begin, end: time, idle_ns: idle, ..self.waits(stack, cause) });
    }

    fn waits(&self, stack: StackNumber, cause: CauseNumber) -> RawWait {
        RawWait {
            task: self.task,
            stack,
            cause,
            holder: 0,
            holder_stack: NO_STACK,
            waker: 0,
            waker_stack: NO_STACK,
            begin: 0,
            end: 0,
            idle_ns: 0,
            holder_gain_ns: 0,
            waker_gain_ns: 0,
        }
    }

    /// It was met running, while `active` threads were.
    pub fn is_sampled(&mut self, stack: StackNumber, active: u32, period: u64) {
        let active = active.max(1);
        let sampled = self.samples.entry((stack, active)).or_default();
        sampled.count += 1;
        sampled.weight += period as f64 / f64::from(active);
        sampled.ns += period as f64;
        self.sampled_ns += period as f64;
    }

    /// It was stopped there while it ran.
    pub fn is_stopped(&mut self, stack: StackNumber, active: u32, in_call: bool, time: u64) {
        let active = active.max(1);
        self.stop_times[usize::from(!in_call)].push((time, (stack, active)));
        let stopped = self.stops[usize::from(!in_call)].entry((stack, active)).or_default();
        stopped.count += 1;
        stopped.weight += 1.0 / f64::from(active);
        stopped.ns += 1.0;
    }

    /// Running time that no sample stands for: in the kernel.
    pub fn unsampled_ns(&self, time: u64) -> (f64, f64) {
        let running = self.times.running_at(time) as f64;
        (running - self.sampled_ns, running)
    }

    /// Samples and what is left of waits go to the collection; `whole`: samples see the kernel's time, too.
    pub fn finish(&mut self, now: u64, whole: bool, collection: &mut Collection) {
        self.give_samples(whole, collection);
        self.give_waits(collection);
        let event = if self.end.is_some() { task_event::EXIT } else { task_event::BORN };
        collection.user_totals(&self.record(event, self.end.unwrap_or(now)));
    }

    /// What it gained is shared out among where it was met: as much to samples as they stand for of its running time, the
    /// rest, which is the kernel's, to where it was stopped. Of a thread that was never stopped that is not known.
    fn give_samples(&self, whole: bool, collection: &mut Collection) {
        let exact = self.times.exact();
        let unsampled = (exact.running - self.sampled_ns).max(0.0);
        let stops = self.stops.each_ref().map(|stops| stops.values().map(|stop| stop.count).sum::<u64>());
        let all: u64 = stops.iter().sum();
        let corrected = self.without_late_stops(stops, exact.running, collection);
        let in_calls = corrected.as_ref().unwrap_or(&self.stops[0]);
        let mut parts = vec![(&self.samples, self.sampled_ns, None)];
        let mut total = exact.running.max(self.sampled_ns);
        if all > 0 && (unsampled > MISSED * exact.running || self.samples.is_empty()) {
            // A stop meets system calls, faults and the program's own code as they take time: what stands in that beyond what
            // samples say of it, and beyond chance, are faults.
            let calls = match stops {
                [_, 0] => unsampled,
                [0, _] => 0.0,
                [calls, others] => {
                    let own = (self.sampled_ns / exact.running.max(1.0)).clamp(0.0, 1.0);
                    let faults = others as f64 - own * all as f64;
                    let chance = SURE * (all as f64 * own * (1.0 - own)).sqrt();
                    if faults > chance { unsampled * calls as f64 / (calls as f64 + faults) } else { unsampled }
                }
            };
            let [in_call, other] = &self.stop_times;
            parts.extend([(in_calls, calls, Some(in_call)), (&self.stops[1], unsampled - calls, Some(other))]);
        } else if unsampled < 2.0 * MISSED * exact.running || whole && self.is_well_sampled() {
            total = self.sampled_ns;
        }
        parts.retain(|(places, ns, _)| !places.is_empty() && *ns > 0.0);
        for (places, ns, times) in parts {
            let (weight, time) = places.values().fold((0.0, 0.0), |sum, s| (sum.0 + s.weight, sum.1 + s.ns));
            let criticality = self.criticality * ns / total;
            let active = (exact.running + exact.runnable) * ns / total;
            for (&(stack, n), sampled) in places {
                let sum = SampleSum {
                    count: sampled.count,
                    criticality: fixed(criticality * sampled.weight / weight),
                    active_ns: (active * sampled.ns / time) as u64,
                };
                collection.user_samples(SampleKey { task: self.task, stack, n, stack_top: false }, sum);
            }
            // A stop stands for time on a CPU at one instant, as a sample does.
            for &(at, place) in times.into_iter().flatten() {
                let Some(stopped) = places.get(&place) else { continue };
                let period = (ns * stopped.ns / time / stopped.count as f64) as u64;
                collection.user_moment(RawTimedSample { time: at, task: self.task, stack: place.0, period });
            }
        }
    }

    /// Stops in system calls without those that came late, if more of them did than chance explains.
    fn without_late_stops(
        &self,
        [calls, others]: [u64; 2],
        running: f64,
        collection: &Collection,
    ) -> Option<HashMap<Place, Sampled>> {
        let all = (calls + others) as f64;
        let own = (self.sampled_ns / running.max(1.0)).clamp(0.0, 1.0);
        if own * all - others as f64 <= SURE * (all * own * (1.0 - own)).sqrt() {
            return None;
        }
        let mut callers = Callers::new();
        for (&(stack, _), sampled) in &self.samples {
            let chain = callers.chain(collection.user_callers(stack));
            callers.misses(chain, all * sampled.ns / running);
        }
        for (&(stack, _), stopped) in &self.stops[1] {
            let chain = callers.chain(collection.user_callers(stack));
            callers.misses(chain, -(stopped.count as f64));
        }
        let mut corrected = self.stops[0].clone();
        let mut chains = Vec::new();
        for (&(stack, n), stopped) in &corrected {
            let chain = callers.chain(collection.user_callers(stack));
            callers.met_in_call(chain, stopped.count as f64);
            chains.push(((stack, n), chain));
        }
        let in_time = callers.in_time()?;
        for (place, chain) in chains {
            if let Some(stopped) = corrected.get_mut(&place) {
                stopped.weight *= in_time[chain];
                stopped.ns *= in_time[chain];
            }
        }
        corrected.retain(|_, stopped| stopped.ns > 0.0);
        Some(corrected)
    }

    fn is_well_sampled(&self) -> bool {
        self.samples.values().map(|sampled| sampled.count).sum::<u64>() >= WELL_SAMPLED
    }

    fn give_waits(&self, collection: &mut Collection) {
        let Unseen { count, ns, idle, begin, end } = self.unseen;
        if count == 0 {
            return;
        }
        let base = |stack, cause, idle_ns| RawWait { begin, end, idle_ns, ..self.waits(stack, cause) };
        let mut shares: Vec<_> = self.shares.iter().filter(|(_, share)| share.ns > 0.0).collect();
        shares.sort_by_key(|(key, _)| **key);
        let (all_ns, all_idle) = shares.iter().fold((0.0, 0.0), |sum, (_, s)| (sum.0 + s.ns, sum.1 + s.idle));
        let (mut left, mut left_ns, mut left_idle) = (count, ns, idle);
        for (&(stack, cause), share) in shares {
            let part = share.ns / all_ns;
            let (part_ns, part_count) = ((ns as f64 * part) as u64, (count as f64 * part) as u64);
            let part_idle = if all_idle > 0.0 { (idle as f64 * share.idle / all_idle) as u64 } else { 0 };
            if part_count > 0 {
                collection.user_waits(base(stack, cause, part_idle), part_count, part_ns);
                (left, left_ns, left_idle) = (left - part_count, left_ns - part_ns, left_idle - part_idle);
            }
        }
        if left > 0 && left_ns + left_idle > 0 {
            collection.user_waits(base(NO_STACK, UNKNOWN_CAUSE, left_idle), left, left_ns);
        }
    }
}

fn fixed(ns: f64) -> u64 {
    (ns * f64::from(1_u32 << FRACTION_BITS)) as u64
}
