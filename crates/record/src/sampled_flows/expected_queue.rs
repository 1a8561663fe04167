//! Time without a CPU of which only each thread's sum is known: not the stacks with which CPUs were lost. Calls lose their CPU
//! in proportion to the time that they need one, so each is expected to have its share; which ones had it is chance, and the
//! intervals hold that.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use transect_profile_model::{ApiClass, ComponentId, Flow, Loss, LossKind, Profile, TaskId, ThreadId};

use super::{Estimate, Threads, Time, add_outermost, set_total};
use crate::own_times::{self, Inside};
use crate::queue_watch::Queued;

/// The share of a call may be off by this part of it, beside chance: code that enters the kernel loses its CPU more often.
const SHARE_UNSURE: f64 = 0.3;
/// Rounds in which an estimate of timed calls is divided into time on a CPU and what they met of the time without.
const ROUNDS: usize = 4;
/// Less of the threads' time is not worth a word; ns, and share of the time that they wanted a CPU.
const LEAST_NS: f64 = 30e6;
const LEAST_SHARE: f64 = 0.02;

/// How a thread lost its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lost {
    /// Time without a CPU by time on one.
    pub ratio: f64,
    /// Mean time until it had one again, ns.
    pub of_one: f64,
}

impl Lost {
    /// From sums, ns, and how often it happened; `None` if it did not.
    pub fn of(running_ns: f64, runnable_ns: f64, losses: f64) -> Option<Self> {
        (running_ns > 0.0 && runnable_ns > 0.0 && losses > 0.0)
            .then(|| Self { ratio: runnable_ns / running_ns, of_one: runnable_ns / losses })
    }
}

impl Estimate {
    /// Time without a CPU that timed calls are expected not to have met, ns.
    pub(super) fn expected_missing(self, lost: Lost, calls: f64, timed_calls: f64) -> f64 {
        let (mut on_cpu, mut missing) = (self.value, 0.0);
        for _ in 0..ROUNDS {
            let preempted_ns = on_cpu * lost.ratio;
            let expected = Time { preempted_ns, losses: preempted_ns / lost.of_one, ..Time::default() };
            missing = self.queue_missing(expected, calls, timed_calls).max(0.0);
            on_cpu = (self.value - (preempted_ns - missing)).max(self.value / (1.0 + lost.ratio));
        }
        missing
    }

    /// With the part `room` of it, which others leave: what they have may be too much, and all of it be these calls'.
    pub(super) fn with_expected(self, missing: f64, room: f64) -> Self {
        let unsure = (missing * room * SHARE_UNSURE).hypot(missing * (1.0 - room));
        Self { value: self.value + missing * room, deviation: self.deviation.hypot(unsure) }
    }

    /// As unsure as chance makes it that so many of the losses of a CPU were in these calls, of which the share `untimed` was
    /// not timed: their number is Poisson's, their lengths are about exponential.
    pub(super) fn unsure_of_chance(self, lost: Lost, untimed: f64) -> Self {
        let preempted = self.value * lost.ratio / (1.0 + lost.ratio);
        Self { deviation: self.deviation.hypot((2.0 * preempted * lost.of_one).sqrt() * untimed), ..self }
    }
}

/// What the sums of a user's own threads tell; `preemptions` by thread.
pub(super) fn lost_of_tasks(
    profile: &Profile,
    threads: &Threads,
    preemptions: &HashMap<TaskId, u64>,
) -> HashMap<ThreadId, Lost> {
    let mut sums: HashMap<ThreadId, [f64; 3]> = HashMap::default();
    for (id, candidates) in threads {
        let Some(task) = profile.sched.tasks.get(*id as usize) else { continue };
        let losses = preemptions.get(id).copied().unwrap_or(0);
        for thread in candidates {
            let sum = sums.entry(*thread).or_default();
            let more = [task.running_ns as f64, task.runnable_ns as f64, losses as f64];
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    sums.into_iter()
        .filter_map(|(thread, [running, runnable, losses])| Some((thread, Lost::of(running, runnable, losses)?)))
        .collect()
}

/// Corrects times of flows of which not every call was timed, where there are neither samples nor the scheduler's events;
/// `queued`: what the kernel's sums of each thread say, by process and thread number. Says so in the profile's losses.
pub(crate) fn correct(profile: &mut Profile, queued: &HashMap<(u32, u32), Queued>) {
    let mut lost: HashMap<ThreadId, (Lost, Queued)> = HashMap::default();
    let (mut preempted, mut wanted) = (0.0, 0.0);
    for (id, thread) in (0..).zip(&profile.threads) {
        let Some(pid) = profile.processes.get(thread.process as usize).map(|process| process.pid) else { continue };
        let Some(queued) = queued.get(&(pid.cast_unsigned(), thread.tid.cast_unsigned())) else { continue };
        preempted += queued.preempted_ns();
        wanted += queued.preempted_ns() + queued.on_cpu_ns as f64;
        let of = Lost::of(queued.on_cpu_ns as f64, queued.preempted_ns(), queued.involuntary as f64);
        lost.extend(of.map(|of| (id, (of, *queued))));
    }
    if preempted < LEAST_NS || preempted < LEAST_SHARE * wanted {
        return;
    }
    let inside = Inside::of(&profile.flows);
    let called: HashSet<(ThreadId, ComponentId)> =
        profile.flows.iter().map(|flow| (flow.thread, flow.callee)).collect();
    let missing: Vec<(f64, f64)> = profile.flows.iter().map(|flow| missing(flow, &lost)).collect();
    let mut sums: HashMap<ThreadId, (f64, f64)> = HashMap::default();
    for (flow, (total, own)) in profile.flows.iter().zip(&missing) {
        let sum = sums.entry(flow.thread).or_default();
        sum.0 += if called.contains(&(flow.thread, flow.caller)) { 0.0 } else { *total };
        sum.1 += own;
    }
    let share: HashMap<ThreadId, f64> = sums
        .into_iter()
        .map(|(id, (outermost, own))| {
            let thread = &profile.threads[id as usize];
            let room = (thread.wall_ns - thread.outermost_ns).max(0) as f64;
            let most = lost.get(&id).map_or(0.0, |(_, queued)| queued.preempted_ns());
            (id, (room / outermost.max(1.0)).min(most / own.max(1.0)).min(1.0))
        })
        .collect();
    for (flow, (total_missing, own_missing)) in profile.flows.iter_mut().zip(missing) {
        let Some((lost, _)) = lost.get(&flow.thread).filter(|_| is_of_cpu(flow)) else { continue };
        let share = share.get(&flow.thread).copied().unwrap_or(1.0);
        let thread = &mut profile.threads[flow.thread as usize];
        let lived = thread.wall_ns as f64;
        let untimed = 1.0 - flow.timed_calls as f64 / flow.calls.max(1) as f64;
        let together =
            |timed: Estimate, missing: f64| timed.with_expected(missing, share).unsure_of_chance(*lost, untimed);
        if let Some(timed) = Estimate::of_calls(flow.total_ns, flow.total_ns_low, flow.total_ns_high) {
            let together = together(timed, total_missing);
            if !called.contains(&(flow.thread, flow.caller)) {
                add_outermost(thread, (together.value.min(lived) - timed.value) as i64);
            }
            set_total(flow, together, timed.value, lived);
        }
        if let Some(own) = Estimate::of_calls(flow.self_ns, flow.self_ns_low, flow.self_ns_high) {
            (flow.self_ns, flow.self_ns_low, flow.self_ns_high) = together(own, own_missing).interval(lived);
        }
    }
    own_times::fit_to_lives(profile, &inside);
    profile.loss.push(Loss {
        what: LossKind::QueuedTime,
        place: "threads".to_owned(),
        count: (preempted / 1e6) as i64,
        reason: format!(
            "threads lost their CPU to others for {:.0} % of the time that they wanted one; which calls that hit is an \
             estimate, and intervals are wider for it (sched records it)",
            100.0 * preempted / wanted
        ),
    });
}

fn is_of_cpu(flow: &Flow) -> bool {
    matches!(flow.class, ApiClass::Compute | ApiClass::Io)
}

/// Of a flow's total and own time, ns.
fn missing(flow: &Flow, lost: &HashMap<ThreadId, (Lost, Queued)>) -> (f64, f64) {
    let Some((lost, queued)) = lost.get(&flow.thread).filter(|_| is_of_cpu(flow)) else { return (0.0, 0.0) };
    let (calls, timed_calls) = (flow.calls.max(1) as f64, flow.timed_calls.max(1) as f64);
    let of = |timed: Option<Estimate>| {
        let Some(timed) = timed else { return 0.0 };
        // What a call waits for otherwise needs no CPU.
        let value = timed.value.min(queued.on_cpu_ns as f64 + queued.preempted_ns());
        Estimate { value, ..timed }.expected_missing(*lost, calls, timed_calls)
    };
    (
        of(Estimate::of_calls(flow.total_ns, flow.total_ns_low, flow.total_ns_high)),
        of(Estimate::of_calls(flow.self_ns, flow.self_ns_low, flow.self_ns_high)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million calls of 1 µs, one in a thousand timed; their thread had a CPU for a third of the time, and lost it 100 times.
    #[test]
    fn calls_have_their_share_of_the_time_without_a_cpu() {
        let lost = Lost::of(1e9, 2e9, 100.0).unwrap();
        assert_eq!(lost, Lost { ratio: 2.0, of_one: 20e6 });
        let clean = Estimate { value: 1e9, deviation: 1e6 };
        let missing = clean.expected_missing(lost, 1e6, 1e3);
        assert!((1.9e9..=2e9).contains(&missing), "{missing}");
        let all = clean.with_expected(missing, 1.0).unsure_of_chance(lost, 0.999);
        // Some 100 losses by chance: 14 % of their time, and 30 % for the share.
        assert!((0.6e9..0.75e9).contains(&all.deviation), "{all:?}");
        // Others take the room: the interval holds it all the same.
        let half = clean.with_expected(missing, 0.5);
        assert!(half.value < 2.1e9 && half.value + half.deviation > 2.9e9, "{half:?}");
    }

    #[test]
    fn calls_that_were_timed_have_met_it() {
        let lost = Lost::of(1e9, 2e9, 100.0).unwrap();
        let all = Estimate { value: 3e9, deviation: 1e6 };
        assert!(all.expected_missing(lost, 1000.0, 999.0) < 0.01e9);
        assert!(all.unsure_of_chance(lost, 0.001).deviation < 2e6);
    }

    #[test]
    fn nothing_is_known_of_a_thread_that_kept_its_cpu() {
        assert_eq!((Lost::of(1e9, 0.0, 3.0), Lost::of(1e9, 5.0, 0.0), Lost::of(0.0, 5.0, 1.0)), (None, None, None));
    }
}
