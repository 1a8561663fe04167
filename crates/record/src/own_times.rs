//! Own times that agree with totals. What calls into a component take is their own time and that of the calls out of it, so the
//! totals bound the own times of all calls into it; totals rest on more, by samples, where calls were timed in part. And own
//! times of one thread's calls are disjoint: together they are no more than its life.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use transect_profile_model::{ComponentId, Flow, Profile, ThreadId};

/// Sums over the calls into a component, and out of it, on one thread, ns.
#[derive(Debug, Default, Clone, Copy)]
struct Balance {
    /// Totals of calls into it, less those of the calls out of it.
    left: f64,
    /// Variance of that, as squares of halves of intervals.
    squares: f64,
    /// Own times of calls into it: with an interval, and exact ones.
    estimated: f64,
    exact: f64,
}

/// From this part on what calls out of a component took is taken to be in calls into it: both are estimates.
const MOSTLY: f64 = 0.5;

/// Which part of what a thread's calls out of each component took was seen in calls into it, before anything is corrected: a
/// library's constructors and callbacks call, too.
#[derive(Debug)]
pub(crate) struct Inside(HashMap<(ThreadId, ComponentId), f64>);

impl Inside {
    /// Of flows as they were measured.
    pub fn of(flows: &[Flow]) -> Self {
        let mut sums: HashMap<(ThreadId, ComponentId), (f64, f64)> = HashMap::default();
        for flow in flows.iter().filter(|flow| flow.caller != flow.callee) {
            let (Some(total), Some(own)) = (flow.total_ns, flow.self_ns) else { continue };
            sums.entry((flow.thread, flow.callee)).or_default().0 += (total - own).max(0) as f64;
            sums.entry((flow.thread, flow.caller)).or_default().1 += total as f64;
        }
        let share = |(inside, out): (f64, f64)| if inside >= MOSTLY * out { 1.0 } else { inside / out };
        Self(sums.into_iter().map(|(of, both)| (of, share(both))).collect())
    }

    fn share(&self, thread: ThreadId, component: ComponentId) -> f64 {
        self.0.get(&(thread, component)).copied().unwrap_or(1.0)
    }
}

/// Brings estimates down where own times of a thread's calls are more than its life, those most that are least sure; then [`fit`].
pub(crate) fn fit_to_lives(profile: &mut Profile, inside: &Inside) {
    #[derive(Default)]
    struct Sums {
        own: f64,
        estimated: f64,
        halves: f64,
    }
    let mut sums: HashMap<ThreadId, Sums> = HashMap::default();
    for flow in &profile.flows {
        let (own, half) = (flow.exclusive_ns() as f64, half(flow.self_ns_low, flow.self_ns_high));
        let sum = sums.entry(flow.thread).or_default();
        sum.own += own;
        sum.halves += half;
        sum.estimated += if half > 0.0 { own } else { 0.0 };
    }
    for flow in &mut profile.flows {
        let lived = profile.threads.get(flow.thread as usize).map_or(0.0, |thread| thread.wall_ns as f64);
        let Some(sum) = sums.get(&flow.thread) else { continue };
        let excess = (sum.own - lived).min(sum.estimated);
        let own_half = half(flow.self_ns_low, flow.self_ns_high);
        let (Some(own), Some(total)) = (flow.self_ns, flow.total_ns) else { continue };
        if excess <= 0.0 || flow.total_ns_high.is_none() {
            continue;
        }
        let (own, total) = (own as f64, total as f64);
        let fitted = (own - excess * own_half / sum.halves).max(0.0);
        let inside = (total - own).max(0.0) * (1.0 - excess / sum.estimated);
        let interval = |value: f64, half: f64| {
            let ns = |value: f64| Some(value.clamp(0.0, lived).round() as i64);
            (ns(value), ns(value - half), ns(value + half))
        };
        let total_half = half(flow.total_ns_low, flow.total_ns_high);
        (flow.self_ns, flow.self_ns_low, flow.self_ns_high) = interval(fitted, own_half);
        (flow.total_ns, flow.total_ns_low, flow.total_ns_high) = interval(fitted + inside, total_half);
        // Shares of the total go with it.
        let share = flow.total_ns.map_or(0.0, |after| after as f64 / total.max(1.0));
        for part in [&mut flow.attributed_ns, &mut flow.criticality_ns].into_iter().flatten() {
            *part = (*part as f64 * share) as i64;
        }
    }
    fit(profile, inside);
}

/// Makes own times smaller where they are more than what the totals leave. A component in which a thread begins calls out of
/// itself outside of any call into it, and is left alone.
fn fit(profile: &mut Profile, inside: &Inside) {
    let begins = beginnings(&profile.flows);
    let mut balances: HashMap<(ThreadId, ComponentId), Balance> = HashMap::default();
    for flow in profile.flows.iter().filter(|flow| flow.caller != flow.callee) {
        let (Some(total), half) = (flow.total_ns, half(flow.total_ns_low, flow.total_ns_high)) else { continue };
        let into = balances.entry((flow.thread, flow.callee)).or_default();
        into.left += total as f64;
        into.squares += half * half;
        match flow.self_ns_high {
            Some(_) => into.estimated += flow.self_ns.unwrap_or(0) as f64,
            None => into.exact += flow.self_ns.unwrap_or(0) as f64,
        }
        let out = balances.entry((flow.thread, flow.caller)).or_default();
        let share = inside.share(flow.thread, flow.caller);
        out.left -= total as f64 * share;
        out.squares += (half * share).powi(2);
    }
    for flow in profile.flows.iter_mut().filter(|flow| flow.caller != flow.callee) {
        // Threads that begin in no component, or in several, are not understood.
        if begins.get(&flow.thread).is_none_or(|first| first.len() != 1) {
            continue;
        }
        let Some(balance) = balances.get(&(flow.thread, flow.callee)) else { continue };
        let room = (balance.left - balance.exact).max(0.0);
        if balance.estimated <= room || flow.self_ns_high.is_none() {
            continue;
        }
        let Some(own) = flow.self_ns else { continue };
        let share = own as f64 / balance.estimated;
        let fitted = room * share;
        let before = half(flow.self_ns_low, flow.self_ns_high) * room / balance.estimated;
        let half = before.hypot(balance.squares.sqrt() * share);
        flow.self_ns = Some(fitted.round() as i64);
        flow.self_ns_low = Some((fitted - half).max(0.0).round() as i64);
        flow.self_ns_high = Some((fitted + half).round().min(flow.total_ns_high.unwrap_or(i64::MAX) as f64) as i64);
    }
}

/// Components that call on a thread, and that nobody calls there.
fn beginnings(flows: &[Flow]) -> HashMap<ThreadId, HashSet<ComponentId>> {
    let called: HashSet<(ThreadId, ComponentId)> = flows.iter().map(|flow| (flow.thread, flow.callee)).collect();
    let mut begins: HashMap<ThreadId, HashSet<ComponentId>> = HashMap::default();
    for flow in flows.iter().filter(|flow| !called.contains(&(flow.thread, flow.caller))) {
        begins.entry(flow.thread).or_default().insert(flow.caller);
    }
    begins
}

fn half(low: Option<i64>, high: Option<i64>) -> f64 {
    low.zip(high).map_or(0.0, |(low, high)| (high - low).max(0) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{ApiClass, Clock, Machine, Meta, Thread};

    use super::*;

    fn flow(caller: ComponentId, callee: ComponentId, total: (i64, i64), own: (i64, i64)) -> Flow {
        let interval = |(ns, half): (i64, i64)| (half > 0).then_some((ns - half, ns + half));
        Flow {
            thread: 0,
            context: 0,
            caller,
            callee,
            api: "f".into(),
            symbol: "f".into(),
            version: String::new(),
            class: ApiClass::Compute,
            calls: 100,
            timed_calls: 10,
            abandoned_calls: 0,
            total_ns: Some(total.0),
            total_ns_low: interval(total).map(|(low, _)| low),
            total_ns_high: interval(total).map(|(_, high)| high),
            self_ns: Some(own.0),
            self_ns_low: interval(own).map(|(low, _)| low),
            self_ns_high: interval(own).map(|(_, high)| high),
            called_back_ns: 0,
            called_back_same_edge_ns: 0,
            attributed_ns: None,
            criticality_ns: None,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            bytes: None,
            dlsym: false,
        }
    }

    fn fitted(flows: Vec<Flow>) -> Vec<(i64, i64, i64)> {
        fitted_after(&[], flows)
    }

    /// What becomes of flows that were `measured` so before they were corrected.
    fn fitted_after(measured: &[Flow], flows: Vec<Flow>) -> Vec<(i64, i64, i64)> {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.flows = flows;
        fit(&mut profile, &Inside::of(measured));
        let own = |flow: &Flow| {
            let own = flow.self_ns.unwrap();
            (own, flow.self_ns_low.unwrap_or(own), flow.self_ns_high.unwrap_or(own))
        };
        profile.flows.iter().map(own).collect()
    }

    #[test]
    fn own_time_is_what_the_calls_inside_leave() {
        // 0 calls 1 for 1,200, of which calls from 1 into 2 take 600; 1,000 were said to be 1's own.
        let own = fitted(vec![flow(0, 1, (1200, 30), (1000, 50)), flow(1, 2, (600, 40), (600, 40))]);
        assert_eq!(own[0].0, 600);
        assert!((540..=551).contains(&own[0].1) && (649..=660).contains(&own[0].2), "{own:?}");
        assert_eq!(own[1], (600, 560, 640));
    }

    /// The constructor of 1 called 2, before anybody called 1; or a callback of 1 did for a third of that time.
    #[test]
    fn calls_out_of_a_component_that_are_in_none_into_it_take_nothing_from_those() {
        let flows = || vec![flow(0, 1, (1200, 30), (1200, 50)), flow(1, 2, (600, 40), (600, 40))];
        let measured = flows();
        assert_eq!(fitted_after(&measured, flows())[0], (1200, 1150, 1250));
        let measured = [flow(0, 1, (1000, 30), (800, 50)), flow(1, 2, (600, 40), (600, 40))];
        assert_eq!(fitted_after(&measured, flows())[0].0, 1000);
        let measured = [flow(0, 1, (1000, 30), (500, 50)), flow(1, 2, (600, 40), (600, 40))];
        assert_eq!(fitted_after(&measured, flows())[0].0, 600, "nearly all of it");
    }

    /// Two estimates and an exact one on a thread that lived 1,000 ns.
    #[test]
    fn own_times_of_a_thread_are_no_more_than_its_life() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.threads.push(Thread {
            process: 0,
            tid: 1,
            name: String::new(),
            group: String::new(),
            start_routine: String::new(),
            start_ns: 0,
            wall_ns: 1000,
            busy_ns: 1000,
            wait_ns: 0,
            calls: 300,
            outermost_ns: 1000,
            outermost_attributed_ns: 1000,
            attributed_ns: 1000,
        });
        let (unsure, sure, exact) = ((600, 300), (400, 20), (240, 0));
        profile.flows = vec![flow(0, 1, unsure, unsure), flow(0, 2, sure, sure), flow(0, 3, exact, exact)];
        (profile.flows[0].attributed_ns, profile.flows[0].criticality_ns) = (Some(600), Some(300));
        fit_to_lives(&mut profile, &Inside::of(&[]));
        let own: Vec<i64> = profile.flows.iter().map(|flow| flow.self_ns.unwrap()).collect();
        assert!(own[2] == 240 && (385..400).contains(&own[1]) && own.iter().sum::<i64>() <= 1001, "{own:?}");
        assert_eq!(profile.flows[0].total_ns, profile.flows[0].self_ns);
        let (all, part) = (profile.flows[0].attributed_ns.unwrap(), profile.flows[0].criticality_ns.unwrap());
        assert!((own[0] - all).abs() <= 1 && (own[0] / 2 - part).abs() <= 1, "{all} and {part} of {own:?}");
        let high = profile.flows[0].self_ns_high.unwrap();
        assert!((660..=680).contains(&high), "{high}");
    }

    #[test]
    fn own_time_that_fits_and_exact_ones_are_left_alone() {
        let own = fitted(vec![flow(0, 1, (1200, 30), (500, 50)), flow(1, 2, (600, 40), (600, 40))]);
        assert_eq!(own[0], (500, 450, 550));
        let own = fitted(vec![flow(0, 1, (1200, 0), (1000, 0)), flow(1, 2, (600, 40), (600, 40))]);
        assert_eq!(own[0], (1000, 1000, 1000));
    }

    #[test]
    fn what_calls_out_of_the_beginning_of_a_thread_is_left_alone() {
        // 1 calls back into 0: nobody knows which calls out of 0 are inside of calls into it.
        let flows = vec![flow(0, 1, (1200, 30), (1000, 50)), flow(1, 0, (900, 30), (900, 30))];
        assert_eq!(fitted(flows).iter().map(|own| own.0).collect::<Vec<_>>(), [1000, 900]);
    }
}
