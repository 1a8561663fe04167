//! When a thread's stretches were: samples are instants, what they stand for lies around them. A thread's slices say exactly
//! when it was active, so stretches of samples are laid along them, one after the other, and each step of time has exactly the
//! running, queued and critical time that was in it.

use std::ops::Range;

use transect_profile_model::{Slice, TimedSample};

use super::stretch::Stretch;
use crate::criticality::apportion;

/// Samples by which a long slice is told apart into parts.
const PART: usize = 8;

/// So long the number of active threads is taken to be the same, ns, unless that makes more than so many pieces.
const EVEN: i64 = 200_000;
const MOST_PIECES: i64 = 1_000_000;

/// A part of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Active {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub running_ns: i64,
    pub runnable_ns: i64,
    pub criticality_ns: i64,
}

/// A thread's slices in order of time. Where it queued in a long one, its samples are farther apart.
pub(super) fn active(slices: &[&Slice], moments: &[&TimedSample]) -> Vec<Active> {
    let mut slices = slices.to_vec();
    slices.sort_by_key(|slice| slice.start_ns);
    let mut parts = Vec::with_capacity(slices.len());
    for slice in slices {
        let (begin, end) = (slice.start_ns, slice.start_ns + slice.active_ns.max(0));
        let from = moments.partition_point(|moment| moment.time_ns < begin);
        let to = moments.partition_point(|moment| moment.time_ns < end);
        divide(slice, begin..end, moments.get(from..to).unwrap_or_default(), &mut parts);
    }
    parts
}

fn divide(slice: &Slice, range: Range<i64>, moments: &[&TimedSample], parts: &mut Vec<Active>) {
    let groups: Vec<&[&TimedSample]> = match moments.len() / PART {
        0 | 1 => vec![moments],
        count => moments.chunks(moments.len().div_ceil(count)).collect(),
    };
    // A part ends half-way between its last sample and the next one's first.
    let mut bounds = vec![range.start];
    for pair in groups.windows(2) {
        let (last, next) = (pair[0][pair[0].len() - 1].time_ns, pair[1][0].time_ns);
        bounds.push(last + (next - last) / 2);
    }
    bounds.push(range.end);
    let lengths: Vec<i64> = bounds.windows(2).map(|pair| (pair[1] - pair[0]).max(0)).collect();
    let sampled = |(group, length): (&&[&TimedSample], &i64)| -> i64 {
        let periods: i64 = group.iter().map(|moment| moment.period_ns.max(1)).sum();
        if groups.len() == 1 { (*length).max(1) } else { periods.min(*length) }
    };
    let running: Vec<i64> = groups.iter().zip(&lengths).map(sampled).collect();
    let running = apportion((slice.active_ns - slice.runnable_ns).max(0), &running);
    // A part of no length holds its time all the same.
    let rest: Vec<i64> = lengths.iter().zip(&running).map(|(length, running)| (length - running).max(0) + 1).collect();
    let runnable = apportion(slice.runnable_ns.max(0), &rest);
    let lengths: Vec<i64> = lengths.iter().map(|length| length + 1).collect();
    // Whoever needs this to be exact asks for whole slices.
    let criticality = apportion(slice.criticality_ns.max(0), &lengths);
    for (at, bound) in bounds.windows(2).enumerate() {
        parts.push(Active {
            begin_ns: bound[0],
            end_ns: bound[1].max(bound[0]),
            running_ns: running[at],
            runnable_ns: runnable[at],
            criticality_ns: criticality[at],
        });
    }
}

/// ∫ dt / n over the run, n the number of active threads: how criticality grows.
pub(super) struct SharedClock {
    /// Instants at which n changes, and the integral up to there.
    changes: Vec<(i64, f64)>,
    /// So long it is taken to grow evenly, ns.
    even_ns: i64,
}

impl SharedClock {
    /// From the slices of all threads.
    pub fn new(slices: &[Slice]) -> Self {
        let ends = |slice: &Slice| [(slice.start_ns, 1), (slice.start_ns + slice.active_ns.max(0), -1)];
        let mut changes: Vec<(i64, i64)> = slices.iter().flat_map(ends).collect();
        changes.sort_unstable();
        let mut clock: Vec<(i64, f64)> = Vec::with_capacity(changes.len());
        let (mut active, mut shared, mut before) = (0, 0.0, changes.first().map_or(0, |change| change.0));
        for (time, change) in changes {
            if active > 0 {
                shared += (time - before) as f64 / active as f64;
            }
            (active, before) = (active + change, time);
            match clock.last_mut() {
                Some(last) if last.0 == time => last.1 = shared,
                _ => clock.push((time, shared)),
            }
        }
        let active: i64 = slices.iter().map(|slice| slice.active_ns.max(0)).sum();
        Self { changes: clock, even_ns: EVEN.max(active / MOST_PIECES) }
    }

    fn at(&self, time: i64) -> f64 {
        self.between(
            self.changes.partition_point(|(known, _)| *known <= time),
            |(known, _)| known as f64,
            time as f64,
            |(_, shared)| shared,
        )
    }

    fn time(&self, shared: f64) -> i64 {
        let after = self.changes.partition_point(|(_, known)| *known <= shared);
        self.between(after, |(_, known)| known, shared, |(time, _)| time as f64).round() as i64
    }

    /// Between the entry `after` and the one before it.
    fn between(&self, after: usize, of: fn((i64, f64)) -> f64, at: f64, to: fn((i64, f64)) -> f64) -> f64 {
        let (Some(&before), after) = (self.changes.get(after.saturating_sub(1)), self.changes.get(after)) else {
            return at;
        };
        let Some(&after) = after.filter(|after| of(**after) > of(before)) else { return to(before) };
        to(before) + (to(after) - to(before)) * ((at - of(before)) / (of(after) - of(before))).clamp(0.0, 1.0)
    }
}

/// Lays stretches along the parts of which `amount` says how much of their kind is in each. Those without an instant are
/// spread among the others. Within a part time goes evenly, or as `clock` does.
pub(super) fn lay(
    stretches: Vec<Stretch>,
    parts: &[Active],
    amount: fn(&Active) -> i64,
    clock: Option<&SharedClock>,
) -> Vec<Stretch> {
    let total: i64 = stretches.iter().map(|stretch| stretch.weight).sum();
    let amounts = apportion(total, &parts.iter().map(amount).collect::<Vec<_>>());
    if amounts.iter().sum::<i64>() != total {
        // Nothing is known of when.
        return stretches;
    }
    let mut placed = Vec::with_capacity(stretches.len() + parts.len());
    let (mut part, mut used) = (0, 0);
    for stretch in in_order(stretches) {
        let mut left = stretch.weight;
        let mut samples = stretch.samples;
        while left > 0 && part < parts.len() {
            let taken = left.min(amounts[part] - used);
            if taken > 0 {
                let at = |used: i64| {
                    let (begin, end) = (parts[part].begin_ns, parts[part].end_ns);
                    let Some(clock) = clock else {
                        return begin + (i128::from(end - begin) * i128::from(used) / i128::from(amounts[part])) as i64;
                    };
                    let (from, to) = (clock.at(begin), clock.at(end));
                    clock.time(from + (to - from) * used as f64 / amounts[part] as f64).clamp(begin, end)
                };
                // Time goes evenly within a stretch: where the clock does not, it is divided.
                let count = clock.map_or(1, |clock| ((at(used + taken) - at(used)) / clock.even_ns).clamp(1, 64));
                for piece in 0..count {
                    let (from, to) = (used + taken * piece / count, used + taken * (piece + 1) / count);
                    placed.push(Stretch { begin_ns: at(from), end_ns: at(to), weight: to - from, samples, ..stretch });
                    samples = 0;
                }
            }
            (left, used) = (left - taken, used + taken);
            if used == amounts[part] {
                (part, used) = (part + 1, 0);
            }
        }
    }
    placed
}

/// By their instants; those of a thread's whole life at even distances between them.
fn in_order(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let (mut instants, whole): (Vec<_>, Vec<_>) =
        stretches.into_iter().partition(|stretch| stretch.begin_ns == stretch.end_ns);
    instants.sort_by_key(|stretch| stretch.begin_ns);
    let count = whole.len() + 1;
    let mut ordered = Vec::with_capacity(instants.len() + whole.len());
    let mut taken = 0;
    for (at, stretch) in whole.into_iter().enumerate() {
        let until = instants.len() * (at + 1) / count;
        ordered.extend_from_slice(&instants[taken..until]);
        ordered.push(stretch);
        taken = until;
    }
    ordered.extend_from_slice(&instants[taken..]);
    ordered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stretch::State;
    use super::*;

    fn slice(start_ns: i64, active_ns: i64, runnable_ns: i64) -> Slice {
        Slice { task: 0, start_ns, active_ns, runnable_ns, criticality_ns: active_ns, wait: -1 }
    }

    fn stretch(time: i64, weight: i64) -> Stretch {
        Stretch {
            task: 0,
            state: State::Running,
            stack: None,
            wait: None,
            spin: false,
            begin_ns: time,
            end_ns: time,
            weight,
            samples: 1,
            per_sample: weight as f64,
            estimated: true,
            features: 0,
        }
    }

    #[test]
    fn where_samples_are_farther_apart_the_thread_queued() {
        // Ten samples a millisecond apart, ten two milliseconds apart: it had half of a CPU there.
        let times = (0..10).map(|at| at * 1000 + 500).chain((0..10).map(|at| 11_000 + at * 2000));
        let moments: Vec<TimedSample> =
            times.map(|time_ns| TimedSample { time_ns, task: 0, stack: 0, period_ns: 1000 }).collect();
        let slice = slice(0, 30_000, 10_000);
        let parts = active(&[&slice], &moments.iter().collect::<Vec<_>>());
        assert_eq!(parts.len(), 2);
        let sums = parts.iter().fold((0, 0), |sum, part| (sum.0 + part.running_ns, sum.1 + part.runnable_ns));
        assert_eq!(sums, (20_000, 10_000));
        assert!(parts[0].runnable_ns < 1000 && parts[1].runnable_ns > 9000, "{parts:?}");
    }

    #[test]
    fn stretches_lie_in_slices() {
        let slices = [slice(0, 100, 0), slice(1000, 300, 0)];
        let parts = active(&slices.iter().collect::<Vec<_>>(), &[]);
        let placed = lay(vec![stretch(50, 200), stretch(1100, 200)], &parts, |part| part.running_ns, None);
        let ranges: Vec<_> = placed.iter().map(|part| (part.begin_ns, part.end_ns, part.weight)).collect();
        assert_eq!(ranges, [(0, 100, 100), (1000, 1100, 100), (1100, 1300, 200)]);
        assert_eq!(placed.iter().map(|part| part.samples).sum::<i64>(), 2);
    }

    #[test]
    fn criticality_grows_slower_where_more_are_active() {
        // Alone for 100 ns, two for 100 ns.
        let clock = SharedClock::new(&[slice(0, 200, 0), slice(100, 100, 0)]);
        assert_eq!([clock.at(50), clock.at(100), clock.at(150), clock.at(200)], [50.0, 100.0, 125.0, 150.0]);
        assert_eq!([clock.time(50.0), clock.time(125.0)], [50, 150]);
        let parts = active(&[&slice(0, 200, 0)], &[]);
        let placed = lay(vec![stretch(0, 100), stretch(1, 50)], &parts, |part| part.criticality_ns, Some(&clock));
        assert_eq!(placed.iter().map(|part| (part.begin_ns, part.end_ns)).collect::<Vec<_>>(), [(0, 100), (100, 200)]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_leaves_its_slices(
            lengths in proptest::collection::vec((1i64..5000, 0i64..5000), 1..30),
            weights in proptest::collection::vec((0i64..200_000, 0i64..10_000), 1..60),
        ) {
            let mut start = 0;
            let mut slices = Vec::new();
            for (active, gap) in lengths {
                slices.push(slice(start, active, active / 3));
                start += active + gap;
            }
            let parts = active(&slices.iter().collect::<Vec<_>>(), &[]);
            let stretches: Vec<Stretch> = weights.iter().map(|&(time, weight)| stretch(time, weight)).collect();
            let placed = lay(stretches, &parts, |part| part.running_ns, None);
            let total: i64 = weights.iter().map(|(_, weight)| weight).sum();
            prop_assert_eq!(placed.iter().map(|part| part.weight).sum::<i64>(), total);
            for part in &placed {
                let inside = slices.iter().any(|slice| {
                    slice.start_ns <= part.begin_ns && part.end_ns <= slice.start_ns + slice.active_ns
                });
                prop_assert!(inside && part.begin_ns <= part.end_ns, "{:?}", part);
            }
        }
    }
}
