//! Stack samples beside timed calls. Of a flow's calls one in *k* is timed, so that few calls that take long among many
//! short ones are hardly ever among them: what they take is in the samples. A flow that by its samples takes more time than
//! its timed calls show, by more than chance, gets the samples' time; where both agree, each counts by its precision.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use transect_profile_model::{
    ApiClass, ComponentId, Flow, FrameId, Origin, Profile, Space, StackId, Task, TaskId, Thread, ThreadId, bare_name,
};

use crate::launch::AGENT_FILE;
use crate::own_times::Inside;
use crate::sched::{StackFacts, Timeline};
use crate::{attributed, own_times};

mod estimate;
pub(crate) mod expected_queue;

use estimate::{CHANCE, Estimate, HALF, LEAST_SAMPLES, Queue, Time};
use expected_queue::lost_of_tasks;

/// Calls that take less, ns, overlap with each other.
const SHORT_NS: f64 = 1000.0;
/// What calls `main`: it is around everything.
const START: &str = "__libc_start_";
/// A flow is recursive if one in so many of its samples has it twice.
const RECURSIVE: f64 = 16.0;

/// A call from one component into another: on a thread, by the name of what is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Edge {
    thread: ThreadId,
    caller: ComponentId,
    callee: ComponentId,
    api: String,
}

/// What samples and waits tell of an edge.
#[derive(Debug, Clone, Default)]
struct Seen {
    total: Time,
    /// Without what calls took that the callee made into other components. What its callbacks called is in it.
    own: Time,
    /// Of `own`, in calls that callbacks made; of these, between the same two components; ns.
    called_back: (f64, f64),
    /// Of `total`, by the call around it; `None` where there is none.
    inside: HashMap<Option<Edge>, f64>,
    /// Of `total`, with another such call inside.
    recursive_ns: f64,
}

/// Corrects times of flows of which not every call was timed, and all attributed times by them.
pub fn correct(profile: &mut Profile, timeline: Option<&Timeline>) {
    if let Some(facts) = timeline.map(Timeline::stacks) {
        by_samples(profile, facts);
    }
    attributed::fit(profile);
}

fn by_samples(profile: &mut Profile, facts: &StackFacts) {
    // In contexts of regions one flow is several rows.
    if profile.sched.samples.is_empty() || profile.flows.iter().any(|flow| flow.context != 0) {
        return;
    }
    let inside = Inside::of(&profile.flows);
    mark_requested(profile);
    let tasks = threads(profile);
    let (seen, between) = seen(profile, facts, &tasks);
    let queued = queued(profile, &tasks);
    let lost = facts.preemptions.as_ref().map(|preemptions| lost_of_tasks(profile, &tasks, preemptions));
    let mut around_more: HashMap<Edge, f64> = HashMap::default();
    let unseen = Seen::default();
    // What no thread calls is around all that it calls.
    let called: HashSet<(ThreadId, ComponentId)> =
        profile.flows.iter().map(|flow| (flow.thread, flow.callee)).collect();
    for flow in profile.flows.iter_mut().filter(|flow| matches!(flow.class, ApiClass::Compute | ApiClass::Io)) {
        let seen = seen.get(&edge(flow)).unwrap_or(&unseen);
        let thread = &mut profile.threads[flow.thread as usize];
        let lived = thread.wall_ns as f64;
        let (calls, timed_calls) = (flow.calls.max(1) as f64, flow.timed_calls.max(1) as f64);
        let queued = queued.get(&flow.thread).copied().unwrap_or(0.0);
        let samples_only = seen.is_recursive() && flow.timed_calls < flow.calls * 9 / 10;
        let most = between.most(flow);
        let class = flow.class;
        let of_thread = between.threads.get(&flow.thread).copied().unwrap_or_default();
        let preempted = of_thread.preempted_ns > 0.0;
        let lost = lost.as_ref().and_then(|lost| lost.get(&flow.thread)).copied();
        let short = class == ApiClass::Compute
            && timed_calls < calls
            && flow.total_ns.is_some_and(|total| (total as f64) < SHORT_NS * calls);
        let meets = class == ApiClass::Compute && between.samples(flow) >= LEAST_SAMPLES;
        let together = |timed: Estimate, sampled: Time| {
            let few = sampled.of_few(of_thread.of_one(), class);
            let together = if samples_only {
                sampled.unconditional(class)
            } else if (preempted || lost.is_some()) && !sampled.is_empty() && timed.gives_way_to(few) {
                few
            } else if let Some(lost) = lost {
                let expected = timed.with_expected(timed.expected_missing(lost, calls, timed_calls), 1.0);
                let known = Queue { missing_ns: Some(0.0), ..Queue::default() };
                expected.with_samples(sampled.estimate(class), known).with_few_samples(sampled, class).at_most(most)
            } else {
                let missing_ns = preempted.then(|| timed.queue_missing(sampled, calls, timed_calls));
                let queue = Queue { share: queued, missing_ns };
                timed.with_samples(sampled.estimate(class), queue).with_few_samples(sampled, class).at_most(most)
            };
            let together = if short { together.of_short_calls(sampled, class) } else { together };
            let together = if meets { together.with_hits(sampled, of_thread.of_one()) } else { together };
            let untimed = 1.0 - timed_calls / calls;
            let together = together.unsure_of_losses(sampled, untimed);
            lost.map_or(together, |lost| together.unsure_of_chance(lost, untimed))
        };
        if let Some(timed) = Estimate::of_calls(flow.total_ns, flow.total_ns_low, flow.total_ns_high) {
            let together = together(timed, seen.total);
            let more = together.value.min(lived) - timed.value;
            for (around, ns) in &seen.inside {
                let part = more * ns / seen.total.ns();
                match around {
                    Some(around) => *around_more.entry(around.clone()).or_default() += part,
                    None => add_outermost(thread, part as i64),
                }
            }
            if seen.inside.is_empty() && !called.contains(&(flow.thread, flow.caller)) {
                add_outermost(thread, more as i64);
            }
            if together != timed {
                set_total(flow, together, timed.value, lived);
            }
        }
        if let Some(own) = Estimate::of_calls(flow.self_ns, flow.self_ns_low, flow.self_ns_high) {
            let together = together(own, seen.own);
            if together != own {
                (flow.self_ns, flow.self_ns_low, flow.self_ns_high) = together.interval(lived);
                let part = |ns: f64| (flow.self_ns.unwrap_or(0) as f64 * ns / seen.own.ns().max(1.0)) as i64;
                // A callback that left by a jump is on no stack: calls tell more of it.
                flow.called_back_ns = part(seen.called_back.0).max(flow.called_back_ns);
                flow.called_back_same_edge_ns = part(seen.called_back.1).max(flow.called_back_same_edge_ns);
            }
        }
        // No call's own time is above all of it.
        for (own, total) in [(&mut flow.self_ns, flow.total_ns), (&mut flow.self_ns_high, flow.total_ns_high)] {
            *own = own.zip(total).map(|(own, total)| own.min(total));
        }
        flow.self_ns_low = flow.self_ns_low.zip(flow.self_ns).map(|(low, own)| low.min(own));
    }
    // A call around it of which every call was timed has that time in its total, and took it for its own.
    for flow in profile.flows.iter_mut().filter(|flow| flow.total_ns_low.is_none()) {
        let edge = edge(flow);
        if let Some(more) = around_more.get(&edge)
            && let Some(own) = &mut flow.self_ns
        {
            // Calls inside it that seemed to be longer than all of it had left nothing: samples tell what it was.
            let sampled = seen.get(&edge).and_then(|seen| seen.own.estimate(flow.class));
            let most = sampled.map_or(f64::INFINITY, |own| own.value + HALF * own.deviation).max(*own as f64);
            *own = (*own as f64 - more).clamp(0.0, most) as i64;
            *own = (*own).min(flow.total_ns.unwrap_or(*own));
        }
    }
    own_times::fit_to_lives(profile, &inside);
}

fn edge(flow: &Flow) -> Edge {
    Edge { thread: flow.thread, caller: flow.caller, callee: flow.callee, api: bare_name(&flow.api).to_owned() }
}

/// Calls of functions that were asked for with dlsym go by a pointer, and are counted all the same.
fn mark_requested(profile: &mut Profile) {
    let requested: HashSet<(ComponentId, ComponentId, String)> = profile
        .flows
        .iter()
        .filter(|flow| flow.dlsym)
        .map(|flow| (flow.caller, flow.callee, bare_name(&flow.api).to_owned()))
        .collect();
    if requested.is_empty() {
        return;
    }
    for stack in 0..profile.sched.stacks.len() {
        for call in calls(profile, stack as StackId) {
            if !call.linked && requested.contains(&(call.caller, call.callee, call.api)) {
                profile.sched.stacks[stack].link(call.depth);
            }
        }
    }
}

/// The outermost call takes so much more of its thread's life.
fn add_outermost(thread: &mut Thread, ns: i64) {
    thread.outermost_ns = (thread.outermost_ns + ns).clamp(0, thread.wall_ns);
    thread.outermost_attributed_ns = (thread.outermost_attributed_ns + ns).clamp(0, thread.attributed_ns);
}

fn set_total(flow: &mut Flow, total: Estimate, before: f64, lived: f64) {
    (flow.total_ns, flow.total_ns_low, flow.total_ns_high) = total.interval(lived);
    for part in [&mut flow.attributed_ns, &mut flow.criticality_ns].into_iter().flatten() {
        // What reading the clock takes is off the total only: of short calls that is most of it.
        let share = if before > 0.0 { (*part as f64 / before).min(1.0) } else { 1.0 };
        *part = (total.value.min(lived) * share) as i64;
    }
}

impl Seen {
    /// Of a recursion a timed call may be within one that was not, and counts all the same: samples alone tell, however few.
    fn is_recursive(&self) -> bool {
        self.recursive_ns * RECURSIVE > self.total.ns()
    }
}

/// What samples and waits tell of all calls of a thread from one component into another, whatever their names.
#[derive(Debug, Default)]
struct Between {
    calls: HashMap<(ThreadId, ComponentId, ComponentId), Time>,
    threads: HashMap<ThreadId, Time>,
}

impl Between {
    /// What a flow takes at most, ns: by chance few samples, or none, may have met it.
    fn most(&self, flow: &Flow) -> f64 {
        let Some(all) = self.threads.get(&flow.thread).filter(|all| all.samples > 0.0) else { return f64::INFINITY };
        let few = LEAST_SAMPLES * all.sampled_ns / all.samples;
        let met = self.calls.get(&(flow.thread, flow.caller, flow.callee)).copied().unwrap_or_default();
        let met = met.unconditional(flow.class);
        (met.value + CHANCE * met.deviation).max(few)
    }

    /// Samples of the thread's calls from the one component into the other.
    fn samples(&self, flow: &Flow) -> f64 {
        self.calls.get(&(flow.thread, flow.caller, flow.callee)).map_or(0.0, |met| met.samples)
    }

    fn add(&mut self, thread: ThreadId, path: &[Call], time: Time) {
        self.threads.entry(thread).or_default().add(time);
        let mut pairs: Vec<(ComponentId, ComponentId)> =
            path.iter().filter(|call| !call.api.starts_with(START)).map(|call| (call.caller, call.callee)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for (caller, callee) in pairs {
            self.calls.entry((thread, caller, callee)).or_default().add(time);
        }
    }
}

/// Which calls were on the stacks of samples and waits, for how long.
fn seen(profile: &Profile, facts: &StackFacts, threads: &Threads) -> (HashMap<Edge, Seen>, Between) {
    // Calls that are only counted are around everything, and tell nothing.
    let known: HashSet<Edge> = profile.flows.iter().filter(|flow| flow.total_ns.is_some()).map(edge).collect();
    let mut seen: HashMap<Edge, Seen> = HashMap::default();
    let mut between = Between::default();
    let mut paths: HashMap<StackId, Vec<Call>> = HashMap::default();
    let sampled = profile.sched.samples.iter().map(|sample| {
        // Stacks at the end of a slice have time, too: that which passed in a queue.
        let sampled_ns = sample.active_ns as f64;
        let count = sample.samples as f64;
        let time = match sample.origin {
            Origin::Sample => Time { samples: count, sampled_ns, ..Time::default() },
            Origin::StackTop => Time { losses: count, sampled_ns, preempted_ns: sampled_ns, ..Time::default() },
        };
        (sample.task, sample.stack, time)
    });
    let waited = facts.waited.iter().map(|wait| {
        let time = Time { waits: wait.count as f64, waited_ns: wait.ns as f64, ..Time::default() };
        (wait.task, wait.stack, time)
    });
    for (task, stack, time) in sampled.chain(waited) {
        let path = paths.entry(stack).or_insert_with(|| calls(profile, stack));
        let candidates = threads.get(&task).map_or(&[][..], Vec::as_slice);
        candidates.iter().for_each(|&thread| between.add(thread, path, time));
        let known_edge = |call: &Call| {
            let of =
                |&thread: &ThreadId| Edge { thread, caller: call.caller, callee: call.callee, api: call.api.clone() };
            // Of a thread that has become another program, the one that makes such calls.
            let mut matching = candidates.iter().map(of).filter(|edge| known.contains(edge));
            matching.next().filter(|_| matching.next().is_none())
        };
        let edges: Vec<Edge> = path.iter().filter(|call| call.linked).filter_map(known_edge).collect();
        for (at, edge) in edges.iter().enumerate() {
            // Of a recursion the first call holds the others.
            if edges[..at].contains(edge) {
                continue;
            }
            let seen = seen.entry(edge.clone()).or_default();
            if edges[at + 1..].contains(edge) {
                seen.recursive_ns += time.ns();
            }
            seen.total.add(time);
            let around = at.checked_sub(1).map(|around| edges[around].clone());
            *seen.inside.entry(around).or_default() += time.ns();
        }
        for (at, edge) in edges.iter().enumerate() {
            let inner = edges.get(at + 1);
            let is_own = |at: usize| edges.get(at + 1).is_none_or(|inner| inner.caller != edges[at].callee);
            // Of a recursion it counts once.
            if !is_own(at) || (0..at).any(|before| edges[before] == *edge && is_own(before)) {
                continue;
            }
            let Some(seen) = seen.get_mut(edge) else { continue };
            seen.own.add(time);
            if let Some(inner) = inner.filter(|&inner| inner != edge) {
                let same_edge = (inner.caller, inner.callee) == (edge.caller, edge.callee);
                seen.called_back.0 += time.ns();
                seen.called_back.1 += if same_edge { time.ns() } else { 0.0 };
            }
        }
    }
    (seen, between)
}

/// A call from one component into another on a stack.
struct Call {
    caller: ComponentId,
    callee: ComponentId,
    /// The first function in there.
    api: String,
    /// By the caller's linkage table: others are counted in no flow.
    linked: bool,
    /// Where on the stack.
    depth: usize,
}

/// The calls between components on a stack, outermost first.
fn calls(profile: &Profile, stack: StackId) -> Vec<Call> {
    let frame = |id: &FrameId| profile.sched.frames.get(*id as usize);
    let is_agent = |component: ComponentId| {
        profile.components.get(component as usize).is_some_and(|component| component.path.ends_with(AGENT_FILE))
    };
    let Some(stack) = profile.sched.stacks.get(stack as usize) else { return Vec::new() };
    let mut before = None;
    let mut found = Vec::new();
    for (at, frame) in stack.frames.iter().enumerate().filter_map(|(at, id)| Some((at, frame(id)?))) {
        let Some(component) = frame.component.filter(|&component| !is_agent(component)) else { continue };
        let caller = before.replace(component).filter(|&caller| caller != component);
        if let Some(caller) = caller
            && frame.space == Space::User
        {
            let api = bare_name(&frame.function).to_owned();
            found.push(Call { caller, callee: component, api, linked: stack.is_linked(at), depth: at });
        }
    }
    found
}

/// Share of each thread's time outside waits in which it had no CPU.
fn queued(profile: &Profile, threads: &Threads) -> HashMap<ThreadId, f64> {
    let mut times: HashMap<ThreadId, (f64, f64)> = HashMap::default();
    for (task, candidates) in threads {
        let Some(task) = profile.sched.tasks.get(*task as usize) else { continue };
        for thread in candidates {
            let (queued, all) = times.entry(*thread).or_default();
            *queued += task.runnable_ns as f64;
            *all += (task.runnable_ns + task.running_ns) as f64;
        }
    }
    times.into_iter().map(|(thread, (queued, all))| (thread, queued / all.max(1.0))).collect()
}

/// The flows' threads of each of the scheduler's.
pub(crate) type Threads = HashMap<TaskId, Vec<ThreadId>>;

/// See above: several where a program was replaced by another.
pub(crate) fn threads(profile: &Profile) -> Threads {
    let pid = |process: u32| profile.processes.get(process as usize).map(|process| process.pid);
    let mut by_number: HashMap<(Option<i32>, i32), Vec<ThreadId>> = HashMap::default();
    for (number, thread) in (0..).zip(&profile.threads) {
        by_number.entry((pid(thread.process), thread.tid)).or_default().push(number);
    }
    let of_task = |(number, task): (TaskId, &Task)| {
        let overlaps = |thread: &ThreadId| {
            let thread = &profile.threads[*thread as usize];
            thread.start_ns <= task.end_ns && task.start_ns <= thread.start_ns + thread.wall_ns
        };
        let threads = by_number.get(&(pid(task.process), task.tid))?;
        Some((number, threads.iter().copied().filter(overlaps).collect()))
    };
    (0..).zip(&profile.sched.tasks).filter_map(of_task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(share: f64) -> Queue {
        Queue { share, missing_ns: None }
    }

    #[test]
    fn calls_that_were_never_timed_are_told_by_samples() {
        let timed = Estimate { value: 5e6, deviation: 1e6 };
        let sampled =
            Time { samples: 170.0, sampled_ns: 170e6, ..Time::default() }.estimate(ApiClass::Compute).unwrap();
        assert_eq!(timed.with_samples(Some(sampled), queue(0.0)), sampled);
        let waited = Time { waits: 95.0, waited_ns: 199e6, ..Time::default() }.estimate(ApiClass::Compute).unwrap();
        assert_eq!(timed.with_samples(Some(waited), queue(0.0)), waited);
    }

    #[test]
    fn no_end_is_above_the_threads_life() {
        let estimate = Estimate { value: 90.0, deviation: 20.0 };
        assert_eq!(estimate.interval(100.0), (Some(90), Some(51), Some(100)));
    }

    #[test]
    fn what_agrees_is_weighed() {
        let wide = Estimate { value: 100.0, deviation: 40.0 };
        let sampled = Estimate { value: 120.0, deviation: 20.0 };
        let both = wide.with_samples(Some(sampled), queue(0.0));
        assert!((both.value - 116.0).abs() < 1e-9 && both.deviation < 20.0, "{both:?}");
        // A precise one is not made worse.
        let precise = Estimate { value: 100.0, deviation: 1.0 };
        assert_eq!(precise.with_samples(Some(sampled), queue(0.0)), precise);
    }

    #[test]
    fn an_unsure_time_is_less_where_samples_seldom_met_it() {
        let hits = |samples: f64| Time { samples, sampled_ns: samples * 4e6, ..Time::default() };
        let timed = Estimate { value: 372e6, deviation: 130e6 };
        // 93 hits were to be expected.
        let seldom = timed.with_hits(hits(9.0), 4e6);
        assert!((30e6..100e6).contains(&seldom.value), "{seldom:?}");
        assert!(timed.with_hits(hits(1.0), 4e6).value < seldom.value);
        let expected = Estimate { value: 20e6, deviation: 10e6 };
        let agrees = expected.with_hits(hits(5.0), 4e6);
        assert!((agrees.value - 20e6).abs() < 1e3 && agrees.deviation < expected.deviation, "{agrees:?}");
        assert_eq!(timed.with_hits(hits(0.0), 4e6), timed, "names may be lost");
        let nothing = Estimate { value: 0.0, deviation: 20e6 };
        assert!(nothing.with_hits(hits(9.0), 4e6).value > 20e6);
        let sure = Estimate { value: 372e6, deviation: 30e6 };
        assert_eq!(sure.with_hits(hits(1.0), 4e6), sure);
    }

    #[test]
    fn short_calls_take_what_samples_say() {
        let hits = |samples: f64| Time { samples, sampled_ns: samples * 1e6, ..Time::default() };
        let timed = Estimate { value: 290e6, deviation: 17e6 };
        assert_eq!(timed.of_short_calls(hits(64.0), ApiClass::Compute).value, 64e6);
        assert_eq!(timed.of_short_calls(hits(280.0), ApiClass::Compute), timed);
        let few = timed.of_short_calls(hits(4.0), ApiClass::Compute);
        assert!(few.value == 290e6 && few.with_hits(hits(4.0), 1e6).value < 20e6);
        assert_eq!(timed.of_short_calls(hits(0.0), ApiClass::Compute), timed);
    }

    #[test]
    fn samples_that_may_have_met_rare_long_calls_widen_the_interval() {
        let timed = Estimate { value: 7e6, deviation: 0.2e6 };
        let sampled = Estimate { value: 25e6, deviation: 7e6 };
        let both = timed.with_samples(Some(sampled), queue(0.0));
        assert_eq!(both.value, 7e6);
        assert!(both.value + HALF * both.deviation >= 26e6, "{both:?}");
        let few = |samples| Time { samples, sampled_ns: samples * 9e6, ..Time::default() };
        let wide = timed.with_few_samples(few(4.0), ApiClass::Compute);
        assert!(wide.value == 7e6 && wide.value + HALF * wide.deviation >= 36e6, "{wide:?}");
        assert_eq!(
            (timed.with_few_samples(few(3.0), ApiClass::Compute), timed.with_few_samples(few(1.0), ApiClass::Compute)),
            (timed, timed)
        );
        // One standard deviation is nothing.
        let near = Estimate { value: 13e6, deviation: 6e6 };
        assert_eq!(timed.with_samples(Some(near), queue(0.0)), timed);
    }

    /// A hundred deep: timed calls inside of calls that were not count again and again, and three samples tell better.
    #[test]
    fn a_recursion_is_one_by_however_few_samples() {
        let total = Time { samples: 3.0, sampled_ns: 29e6, ..Time::default() };
        assert!(Seen { total, recursive_ns: 29e6, ..Seen::default() }.is_recursive());
        assert!(!Seen { total, recursive_ns: 1e6, ..Seen::default() }.is_recursive());
        assert!(!Seen::default().is_recursive());
    }

    /// Its thread was without a CPU for a tenth of the time, and no timed call met that.
    #[test]
    fn time_without_a_cpu_is_within_the_interval() {
        let timed = Estimate { value: 90.0, deviation: 0.5 };
        let both = timed.with_samples(Some(Estimate { value: 101.0, deviation: 5.0 }), queue(0.1));
        assert!(both.value > 95.0 && both.value + HALF * both.deviation > 100.0, "{both:?}");
        let alone = timed.with_samples(None, queue(0.1));
        assert!(alone.value == 90.0 && alone.value + HALF * alone.deviation > 100.0, "{alone:?}");
        // Where it lost its CPU is known: the rest of that was in other calls, or all of it in this one's.
        let known = |missing_ns| timed.with_samples(None, Queue { missing_ns: Some(missing_ns), ..queue(0.9) });
        assert_eq!(known(0.0), timed);
        assert_eq!(known(700.0).value, 790.0);
    }

    /// A thousand calls of 1 µs, one in ten timed; their thread lost its CPU fifty times there.
    #[test]
    fn time_without_a_cpu_that_timed_calls_cannot_tell_is_missing() {
        let sure = Estimate { value: 1e6, deviation: 1e4 };
        let lost = |of_one: f64| Time {
            losses: 50.0,
            sampled_ns: 50.0 * of_one,
            preempted_ns: 50.0 * of_one,
            ..Time::default()
        };
        let missing = |timed: Estimate, of_one| timed.queue_missing(lost(of_one), 1000.0, 100.0) / (50.0 * of_one);
        // No timed call was among them: all of it.
        assert!((0.9..=1.0).contains(&missing(sure, 20e6)), "{}", missing(sure, 20e6));
        // Timed calls differ by as much as if they had met five losses.
        let met = Estimate { value: 101e6, deviation: (5.0 * 20e6 * 20e6 * 10.0 * 9.0f64).sqrt() };
        let part = missing(met, 20e6);
        assert!((0.88..=0.9).contains(&part), "{part}");
        // Nearly all are timed, each for itself alone.
        let all = sure.queue_missing(lost(20e6), 1000.0, 990.0) / 1e9;
        assert!(all < 0.011, "{all}");
        // So short that a timed call counts for its neighbours.
        assert!(missing(sure, 50e3) < 0.001, "{}", missing(sure, 50e3));
    }

    /// Of the flows with a timed call without a CPU the estimates are high, and their deviations: samples alone are right.
    #[test]
    fn an_unsure_estimate_gives_way_to_a_surer_one() {
        let unsure = Estimate { value: 400e6, deviation: 300e6 };
        let seen = Time { samples: 4.0, sampled_ns: 104e6, losses: 8.0, preempted_ns: 100e6, ..Time::default() };
        let few = seen.of_few(1e6, ApiClass::Compute);
        assert_eq!(few.value, 104e6);
        assert!(few.deviation < 12e6 && unsure.gives_way_to(few), "{few:?}");
        assert!(!Estimate { value: 90e6, deviation: 1e6 }.gives_way_to(few));
        assert!(!Estimate { value: 400e6, deviation: 110e6 }.gives_way_to(Estimate { value: 10e6, deviation: 9e6 }));
        // What no sample has met may be as much as one stands for.
        assert_eq!(Time { losses: 1.0, ..Time::default() }.of_few(1e6, ApiClass::Compute).deviation, 1e6);
    }

    #[test]
    fn few_losses_of_a_cpu_are_surer_than_none_but_less_than_many() {
        let known = Estimate { value: 100e6, deviation: 3e6 };
        let of = |losses, untimed| {
            let seen = Time { losses, preempted_ns: 80e6, ..Time::default() };
            known.unsure_of_losses(seen, untimed).deviation
        };
        assert!((22e6..25e6).contains(&of(4.0, 1.0)) && (5e6..6e6).contains(&of(100.0, 1.0)));
        assert_eq!((of(4.0, 0.0), of(4.0, 1.0) > of(4.0, 0.5)), (3e6, true));
    }

    #[test]
    fn samples_that_miss_a_name_take_nothing_away() {
        let timed = Estimate { value: 100.0, deviation: 1.0 };
        assert_eq!(timed.with_samples(Some(Estimate { value: 10.0, deviation: 2.0 }), queue(0.5)), timed);
        assert!(Time { samples: 9.0, sampled_ns: 9e6, ..Time::default() }.estimate(ApiClass::Compute).is_none());
    }

    /// One of few timed calls lost its CPU, and stands for thousands.
    #[test]
    fn what_a_handful_of_calls_told_gives_way_to_samples() {
        let timed = Estimate { value: 3.9e9, deviation: 1.15e9 };
        let sampled = Estimate { value: 25e6, deviation: 5e6 };
        let both = timed.with_samples(Some(sampled), queue(0.3));
        assert!((both.value - 25e6).abs() < 1e6, "{both:?}");
        let bounded = timed.with_samples(None, queue(0.3)).at_most(60e6);
        assert!(bounded.value == 60e6 && bounded.value - HALF * bounded.deviation <= 0.0, "{bounded:?}");
        let sure = Estimate { value: 100e6, deviation: 1e6 };
        assert_eq!(sure.at_most(60e6), sure);
    }

    #[test]
    fn names_of_the_c_library_are_compared_without_prefix() {
        assert_eq!(bare_name("__libc_malloc"), bare_name("malloc"));
        assert_eq!(bare_name("_IO_fwrite"), bare_name("fwrite"));
        assert_eq!(bare_name("std::sort"), "std::sort");
    }
}
