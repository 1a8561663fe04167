//! What a thread gained while others waited for it, shared among them: each instant goes in equal parts to those that wait for
//! that thread then. So all waits for it add up to at most what it gained, and all waits to at most the run.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedTables, TaskId};

/// A row's part of what its holder, or else its waker, gained, by row of the waits, ns.
pub(super) fn shares(tables: &SchedTables) -> Vec<i64> {
    let mut gains: Vec<i64> = tables.waits.iter().map(|wait| wait.holder_gain_ns).collect();
    let mut waits_for: FxHashMap<TaskId, Vec<usize>> = FxHashMap::default();
    for (row, wait) in tables.waits.iter().enumerate().filter(|(_, wait)| wait.holder_gain_ns > 0) {
        if let Some(party) = wait.holder.or(wait.waker) {
            waits_for.entry(party.task).or_default().push(row);
        }
    }
    for rows in waits_for.into_values().filter(|rows| rows.len() > 1) {
        let span = |&row: &usize| {
            let wait = &tables.waits[row];
            let (begin, end) = (wait.begin_ns, wait.end_ns.max(wait.begin_ns + 1));
            let waiters = wait.ns as f64 / (end - begin) as f64;
            Span { begin, end, waiters, gain: wait.holder_gain_ns as f64 }
        };
        let spans: Vec<Span> = rows.iter().map(span).collect();
        for (row, gain) in rows.into_iter().zip(parts(&spans)) {
            gains[row] = gains[row].min(gain as i64);
        }
    }
    gains
}

/// A stretch of time in which somebody waits, and what the thread waited for gained in it.
#[derive(Debug, Clone, Copy)]
struct Span {
    begin: i64,
    end: i64,
    /// How many wait in the mean: rows may stand for many waits.
    waiters: f64,
    gain: f64,
}

/// The part of each span. The shortest span around an instant sets the rate of the gain there; longer spans spread what is left
/// of theirs over the rest.
fn parts(spans: &[Span]) -> Vec<f64> {
    let mut times: Vec<i64> = spans.iter().flat_map(|span| [span.begin, span.end]).collect();
    times.sort_unstable();
    times.dedup();
    let at = |time: i64| times.partition_point(|&other| other < time);
    let pieces = times.len() - 1;
    let length = |piece: usize| (times[piece + 1] - times[piece]) as f64;
    let mut changes = vec![0.0; pieces + 1];
    for span in spans {
        changes[at(span.begin)] += span.waiters;
        changes[at(span.end)] -= span.waiters;
    }
    let mut order: Vec<&Span> = spans.iter().collect();
    order.sort_by_key(|span| span.end - span.begin);
    let (mut rates, mut next) = (vec![0.0; pieces], (0..=pieces).collect::<Vec<usize>>());
    let (mut gained, mut told) = (Sums::new(pieces), Sums::new(pieces));
    for span in order {
        let (first, until) = (at(span.begin), at(span.end));
        let left = (span.end - span.begin) as f64 - told.between(first, until);
        let rate = (span.gain / span.waiters.max(1.0) - gained.between(first, until)).max(0.0) / left.max(1.0);
        let mut piece = untold(&mut next, first);
        while piece < until {
            rates[piece] = rate;
            gained.add(piece, rate * length(piece));
            told.add(piece, length(piece));
            next[piece] = piece + 1;
            piece = untold(&mut next, piece);
        }
    }
    let (mut waiters, mut sum, mut sums) = (0.0_f64, 0.0, vec![0.0]);
    for piece in 0..pieces {
        waiters += changes[piece];
        sum += rates[piece] * length(piece) / waiters.max(1.0);
        sums.push(sum);
    }
    spans.iter().map(|span| (sums[at(span.end)] - sums[at(span.begin)]) * span.waiters.max(1.0)).collect()
}

/// The first piece from `piece` on whose rate is not known.
fn untold(next: &mut [usize], piece: usize) -> usize {
    let mut end = piece;
    while next[end] != end {
        end = next[end];
    }
    let mut at = piece;
    while next[at] != end && at != end {
        at = std::mem::replace(&mut next[at], end);
    }
    end
}

/// Sums over ranges of numbers that change (Fenwick's tree).
struct Sums(Vec<f64>);

impl Sums {
    fn new(count: usize) -> Self {
        Self(vec![0.0; count + 1])
    }

    fn add(&mut self, at: usize, number: f64) {
        let mut at = at + 1;
        while at < self.0.len() {
            self.0[at] += number;
            at += at & at.wrapping_neg();
        }
    }

    fn between(&self, first: usize, until: usize) -> f64 {
        let before = |mut at: usize| {
            let mut sum = 0.0;
            while at > 0 {
                sum += self.0[at];
                at &= at - 1;
            }
            sum
        };
        before(until) - before(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: i64, end: i64, gain: f64) -> Span {
        Span { begin, end, waiters: 1.0, gain }
    }

    #[test]
    fn an_instant_is_shared_by_those_that_wait_then() {
        // One waits alone for a half, then two.
        assert_eq!(parts(&[span(0, 100, 100.0), span(50, 100, 50.0)]), [75.0, 25.0]);
        assert_eq!(parts(&[span(0, 10, 10.0), span(20, 30, 4.0)]), [10.0, 4.0]);
    }

    /// A thread is joined all the time, and gains only while three others wait at a barrier.
    #[test]
    fn a_long_wait_has_no_part_of_what_lies_outside_of_the_gain() {
        let mut spans = vec![span(0, 1000, 100.0)];
        spans.extend([span(400, 500, 100.0); 3]);
        assert_eq!(parts(&spans), [25.0; 4]);
    }

    #[test]
    fn a_row_of_many_waits_counts_as_often_as_they_overlap() {
        // Four at a time, and one more.
        let many = Span { begin: 0, end: 10, waiters: 4.0, gain: 40.0 };
        assert_eq!(parts(&[many, span(0, 10, 10.0)]), [8.0, 2.0]);
    }
}
