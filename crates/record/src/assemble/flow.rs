//! Rows of flows: from the counters of one slot on one thread to times of all its calls.

use std::collections::HashMap;

use transect_event_abi::thread::bucket_floor;
use transect_profile_model::{ComponentId, Flow, ThreadId};

use super::{Assembler, Named};
use crate::extent::{self, Counters};

/// Ticks in a thread's outermost calls, raw and attributed, from those that no timed call was around. Where one call in `every` is
/// timed, so is one in so many of those around a call: that many times as much was inside others as is known to be. What is
/// outermost is no less than any one flow, and no more than all calls take by themselves.
pub(super) fn outermost<'a>(
    (ticks, attributed): (u64, u64),
    every: Option<u32>,
    flows: impl Iterator<Item = &'a Counters>,
) -> (u64, u64) {
    let (mut own, mut total, mut longest) = (0_i128, 0_i128, 0_i128);
    for c in flows {
        let of_flow = i128::from(c.total);
        (own, total, longest) = (own + i128::from(c.own.max(0)), total + of_flow, longest.max(of_flow));
    }
    let known = i128::from(ticks);
    let inside = (total - known).max(0);
    let alone = every.map_or(known, |every| (total - inside * i128::from(every)).max(longest));
    let most = u64::try_from(own.min(alone)).unwrap_or(u64::MAX).min(ticks);
    (most, (attributed as f64 * most as f64 / ticks.max(1) as f64) as u64)
}

/// What a thread's life leaves room for. A timed call's cache misses overlap with nothing else's, and a long one may stand
/// for many short ones, so that what all calls are estimated to take together can be more than there was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Ticks in which calls could end.
    lived: f64,
    /// What all outermost calls are estimated to take beyond that, by each tick of doubt ([`doubt`]) in the estimates.
    excess: f64,
    /// What is left of an estimate of calls inside others.
    fit: f64,
    /// By how much a timed call may take longer than others, ticks.
    longer: f64,
    /// Part of the thread's life that is attributed to it.
    attributed: f64,
}

impl Room {
    /// Of a thread that lived `lived` ticks, the last `open` of them in a wait that hasn't ended, and whose outermost calls
    /// are estimated at `outermost` ticks. What is known of `flows` is no estimate and is kept. `rate`: ticks per ns.
    pub fn of<'a>(lived: u64, open: u64, outermost: u64, rate: f64, flows: impl Iterator<Item = &'a Counters>) -> Self {
        let lived = lived.saturating_sub(open) as f64;
        let longer = UNSURE_NS * rate;
        let (doubts, estimated) = flows
            .filter(|c| is_sampled(c))
            .fold((0.0, 0.0), |(doubts, estimated), c| (doubts + doubt(c, longer), estimated + c.own.max(0) as f64));
        let excess = (outermost as f64 - lived).max(0.0);
        let fit = (1.0 - excess / f64::max(estimated, 1.0)).max(0.0);
        Room { lived, excess: excess / f64::max(doubts, 1.0), fit, longer, attributed: 1.0 }
    }

    /// Of a thread to which this part of its life is attributed.
    pub fn with_attributed(self, attributed: f64) -> Self {
        Room { attributed, ..self }
    }

    /// A flow's own ticks and its total.
    fn fitted(self, c: &Counters, own: f64, total: f64) -> (f64, f64) {
        let fitted = (own - self.excess * doubt(c, self.longer)).max(0.0);
        (fitted.min(self.lived), (fitted + (total - own).max(0.0) * self.fit).min(self.lived))
    }
}

/// How far a flow's own time may be off, ticks: by chance, and by the `longer` ticks that each timed call takes more than others,
/// which of short calls is most of it.
fn doubt(c: &Counters, longer: f64) -> f64 {
    let extrapolated = 1.0 - (c.timed as f64 / (c.calls as f64).max(1.0)).min(1.0);
    half_interval(c) + extrapolated * (longer * c.calls as f64).min(c.own.max(0) as f64)
}

/// Half of the 95 % interval of the ticks known, by the differences between timed calls.
fn half_interval(c: &Counters) -> f64 {
    let mean = c.total as f64 / (c.calls as f64 - unrepresented(c)).max(1.0);
    1.96 * (c.variance.0 as f64 - mean * mean * c.variance.1 as f64).max(0.0).sqrt()
}

/// Calls since the last timed one.
fn unrepresented(c: &Counters) -> f64 {
    if c.timed > 0 { (c.calls - c.represented).max(0) as f64 } else { 0.0 }
}

/// True if not every call was timed.
fn is_sampled(c: &Counters) -> bool {
    c.variance.1 > 0.0 || unrepresented(c) > 0.0
}

/// Factor from the calls that timed ones stand for to all of them.
fn to_all(c: &Counters) -> f64 {
    (c.calls as f64 / (c.calls as f64 - unrepresented(c)).max(1.0)).max(1.0)
}

/// How far the own time of calls into each component is off for what is sampled of the calls out of it.
#[derive(Debug, Default)]
pub(super) struct Inside(HashMap<ComponentId, Out>);

#[derive(Debug, Default, Clone, Copy)]
struct Out {
    /// Σ k(k−1)·d² of the calls out of the component.
    squares: f64,
    /// Ticks that calls into it are known to have spent in them.
    ticks: f64,
}

impl Inside {
    /// Notes a flow.
    pub fn add(&mut self, flow: &Named, c: &Counters) {
        self.0.entry(flow.caller).or_default().squares += f64::from(c.variance.0);
        self.0.entry(flow.callee).or_default().ticks += spent_inside(c);
    }

    /// Half of the 95 % interval that the calls out of its callee add to a flow's own time, ticks: what is timed inside
    /// of a timed call stands for the calls between, if those were made there or not (Horvitz–Thompson).
    fn half(&self, flow: &Named, c: &Counters) -> f64 {
        let out = self.0.get(&flow.callee).copied().unwrap_or_default();
        let share = spent_inside(c) / out.ticks.max(1.0);
        let period = c.calls as f64 / (c.timed as f64).max(1.0);
        1.96 * (out.squares * share * period).sqrt()
    }
}

fn spent_inside(c: &Counters) -> f64 {
    (c.total as f64 - c.own as f64).max(0.0)
}

/// A call that is timed does not overlap with those around it, and finds caches and predictions displaced: so many ns more or less, by
/// calls of known length on busy and on idle machines.
const UNSURE_NS: f64 = 15.0;

/// An estimate with the ends of its 95 % interval, ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    ticks: f64,
    /// `None` where every call was timed.
    interval: Option<(f64, f64)>,
}

/// Times of a flow's calls, ticks.
#[derive(Debug, PartialEq)]
struct Times {
    total: Estimate,
    own: Estimate,
    /// Of `own`, in calls that callbacks made; of these, between the same two components.
    called_back: (f64, f64),
    attributed: f64,
    criticality: f64,
}

impl Times {
    /// From the counters of timed calls; `open` ticks were spent in a wait that hasn't ended, which is in no counter.
    /// `inside`: [`Inside::half`] of the flow. `unsure`: what timing itself may have done to all calls together.
    fn of(c: &Counters, open: u64, room: Room, inside: f64, unsure: f64) -> Self {
        let open = open as f64;
        // Calls since the last timed one are taken to be like the others.
        let all = to_all(c);
        let sampled = is_sampled(c);
        // Both are of the timed calls' sum.
        let half = half_interval(c).hypot(unsure / all);
        let half_own = half.hypot(inside);
        let (own, total) = (c.own.max(0) as f64, c.total as f64);
        let (fitted_own, fitted_total) = room.fitted(c, own * all, total * all);
        let estimate = |known: f64, fitted: f64, half: f64| {
            if !sampled && half == 0.0 {
                return Estimate { ticks: known + open, interval: None };
            }
            let low = (known.min(fitted) - half).max(0.0);
            let high = (known * all + half * all).min(room.lived).max(fitted);
            Estimate { ticks: fitted + open, interval: Some((low + open, high + open)) }
        };
        let total = estimate(total, fitted_total, half);
        let own = estimate(own, fitted_own, half_own);
        let of_own = |part: u64| (part as f64 * all).min(own.ticks - open).max(0.0);
        let of_total = |part: u64| if c.total > 0 { part as f64 / c.total as f64 } else { 1.0 };
        Times {
            total,
            own,
            called_back: (of_own(c.called_back.0), of_own(c.called_back.1)),
            // What the wait that hasn't ended counted for is in no counter.
            attributed: (total.ticks - open) * of_total(c.attributed) + open * room.attributed,
            criticality: c.criticality as f64 * if c.total > 0 { (total.ticks - open) / c.total as f64 } else { 1.0 },
        }
    }
}

impl Assembler<'_> {
    #[allow(clippy::too_many_arguments)] // one flow's context, used in one place
    pub(super) fn flow(
        &self,
        p: &extent::Process,
        thread: ThreadId,
        n: &Named,
        slot: u32,
        c: &Counters,
        share: f64,
        open: u64,
        room: Room,
        inside: &Inside,
    ) -> Flow {
        let timed = (c.timed > 0 || open > 0) && !c.count_only;
        let unsure = if is_sampled(c) { c.calls as f64 * UNSURE_NS * self.scale.rate } else { 0.0 };
        let times = Times::of(c, open, room, inside.half(n, c), unsure);
        let some = |ticks: f64| timed.then(|| self.scale.ns(ticks));
        let low = |estimate: Estimate| estimate.interval.and_then(|(low, _)| some(low));
        let high = |estimate: Estimate| estimate.interval.and_then(|(_, high)| some(high));
        let quantile = |q: f64| quantile(&c.histogram, q).map(|t| self.scale.ns(t));
        let bytes = p.slots.get(&slot).map_or(0, |s| s.bytes);
        Flow {
            thread,
            context: 0,
            caller: n.caller,
            callee: n.callee,
            api: n.api.clone(),
            symbol: n.symbol.clone(),
            version: n.version.clone(),
            class: n.class,
            calls: c.calls,
            timed_calls: c.timed as i64,
            abandoned_calls: c.abandoned as i64,
            total_ns: some(times.total.ticks),
            total_ns_low: low(times.total),
            total_ns_high: high(times.total),
            self_ns: some(times.own.ticks),
            self_ns_low: low(times.own),
            self_ns_high: high(times.own),
            called_back_ns: self.scale.ns(times.called_back.0),
            called_back_same_edge_ns: self.scale.ns(times.called_back.1),
            attributed_ns: some(times.attributed),
            criticality_ns: some(times.criticality).filter(|_| p.application.is_some()),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: quantile(1.0),
            bytes: (bytes > 0).then_some((bytes as f64 * share * to_all(c)).round() as i64),
            dlsym: n.dlsym,
        }
    }
}

fn quantile(buckets: &[u32], q: f64) -> Option<f64> {
    let count: u64 = buckets.iter().map(|&n| u64::from(n)).sum();
    if count == 0 {
        return None;
    }
    let rank = ((count as f64 * q).ceil() as u64).clamp(1, count);
    let mut seen = 0;
    for (i, &n) in buckets.iter().enumerate() {
        seen += u64::from(n);
        if seen >= rank {
            let (low, high) = (bucket_floor(i), bucket_floor(i + 1));
            return Some((low + high.saturating_sub(1).max(low)) as f64 / 2.0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(calls: i64, timed: u64, total: u64) -> Counters {
        Counters {
            calls,
            timed,
            represented: calls,
            total,
            own: total as i64,
            attributed: total,
            ..Counters::default()
        }
    }

    /// An API takes all of a thread's time and calls the program back, which calls another API for nearly all of it.
    #[test]
    fn calls_inside_calls_that_were_not_timed_are_no_outermost_ones() {
        let [around, inside] = [counters(50, 7, 220), counters(2000, 285, 216)];
        let of = |ticks, every| outermost((ticks, ticks), every, [&around, &inside].into_iter());
        // Six of seven calls inside seem to be outermost.
        assert_eq!(of(220 + 185, Some(7)), (220, 220));
        assert_eq!(of(220 + 185, None), (405, 405));
        // One after the other.
        assert_eq!(of(436, Some(7)), (436, 436));
    }

    #[test]
    fn quantiles_lie_in_their_bucket() {
        let mut buckets = vec![0; transect_event_abi::thread::HISTOGRAM_BUCKETS];
        buckets[transect_event_abi::thread::bucket(1000)] = 99;
        buckets[transect_event_abi::thread::bucket(50_000)] = 1;
        let p50 = quantile(&buckets, 0.5).unwrap();
        assert!((p50 / 1000.0 - 1.0).abs() < 0.13, "{p50}");
        let max = quantile(&buckets, 1.0).unwrap();
        assert!((max / 50_000.0 - 1.0).abs() < 0.13, "{max}");
    }

    #[test]
    fn estimates_of_nested_calls_fit_in_their_threads_life() {
        let outer = Counters { variance: (0.0, 1.0), own: 300, ..counters(100, 10, 1200) };
        let inner = Counters { variance: (0.0, 1.0), ..counters(100, 10, 900) };
        let room = Room::of(1000, 0, 1200, 1.0, [&outer, &inner].into_iter());
        let (outer, inner) = (Times::of(&outer, 0, room, 0.0, 0.0), Times::of(&inner, 0, room, 0.0, 0.0));
        assert!((outer.total.ticks - 1000.0).abs() < 1e-6, "{outer:?}");
        assert!((outer.own.ticks - 250.0).abs() < 1e-6 && (inner.total.ticks - 750.0).abs() < 1e-6, "{inner:?}");
        for estimate in [outer.total, outer.own, inner.total, inner.own] {
            let (low, high) = estimate.interval.unwrap();
            assert!(0.0 <= low && low <= estimate.ticks && estimate.ticks <= high && high <= 1000.0, "{estimate:?}");
        }
    }

    /// A million calls that seem to take 40 ns each beside some of 1 µs: what is too much is theirs.
    #[test]
    fn what_is_too_much_is_taken_from_the_shortest_calls() {
        let short = Counters { variance: (0.0, 1.0), ..counters(1_000_000, 1000, 40_000_000) };
        let long = Counters { variance: (0.0, 1.0), ..counters(100_000, 1000, 100_000_000) };
        let room = Room::of(130_000_000, 0, 140_000_000, 1.0, [&short, &long].into_iter());
        let total = |flow| Times::of(flow, 0, room, 0.0, 0.0).total.ticks;
        let (short, long) = (total(&short), total(&long));
        assert!((short + long - 130e6).abs() < 1e3 && (30.8e6..31.1e6).contains(&short), "{short} {long}");
    }

    #[test]
    fn calls_timed_one_by_one_keep_their_time_and_the_others_fit_in_the_rest() {
        let (exact, hot) = (counters(5, 5, 700), Counters { variance: (0.0, 1.0), ..counters(100, 10, 400) });
        let room = Room::of(1000, 0, 1100, 1.0, [&exact, &hot].into_iter());
        let times = Times::of(&exact, 0, room, 0.0, 0.0);
        assert_eq!(times.total, Estimate { ticks: 700.0, interval: None });
        assert!((Times::of(&hot, 0, room, 0.0, 0.0).total.ticks - 300.0).abs() < 1e-6);
    }

    #[test]
    fn wait_that_has_not_ended_is_added_as_it_is() {
        let waits = Counters { variance: (0.0, 1.0), ..counters(10, 5, 500) };
        let times = Times::of(&waits, 600, Room::of(1000, 600, 500, 1.0, [&waits].into_iter()), 0.0, 0.0);
        assert!((times.total.ticks - 1000.0).abs() < 1e-6, "{times:?}");
    }

    #[test]
    fn a_wait_that_has_not_ended_has_its_threads_part_of_the_time() {
        let waits = counters(0, 0, 0);
        let room = Room::of(1000, 600, 0, 1.0, [&waits].into_iter()).with_attributed(0.25);
        let times = Times::of(&waits, 600, room, 0.0, 0.0);
        assert_eq!((times.total.ticks, times.attributed), (600.0, 150.0));
    }
}
