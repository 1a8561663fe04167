//! Samples, summed up as they come, and the moments at which they were taken.

use super::call_stack::{NO_STACK, StackNumber};
use rustc_hash::FxHashMap as HashMap;

/// What samples are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleKey {
    /// Task number.
    pub task: u32,
    /// Its stack.
    pub stack: StackNumber,
    /// Active threads.
    pub n: u32,
    /// Taken when a slice ended, or a thread that was mostly queued left its CPU; not by the timer.
    pub stack_top: bool,
}

/// Their sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleSum {
    /// Samples.
    pub count: u64,
    /// Criticality in fixed point.
    pub criticality: u64,
    /// Active time, ns.
    pub active_ns: u64,
}

/// When a sample was taken.
#[derive(Debug, Clone, Copy)]
pub struct RawTimedSample {
    /// ns of the monotonic clock.
    pub time: u64,
    /// Task number.
    pub task: u32,
    /// Its stack.
    pub stack: StackNumber,
    /// Time between samples then, ns.
    pub period: u64,
}

/// All samples.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Sums; at most [`MAX_ROWS`].
    pub sums: HashMap<SampleKey, SampleSum>,
    /// Moments in the order they came, every `keep_each`-th.
    pub moments: Vec<RawTimedSample>,
    keep_each: u64,
    seen: u64,
    /// The last samples of each task, whose weights are not settled yet.
    open: HashMap<u32, Block>,
    /// Samples for which there was no room; their criticality counts as not attributed.
    pub refused: u64,
}

/// More sums are not kept: some 14 MB.
const MAX_ROWS: usize = 200_000;
/// Moments are thinned out above this: 6 MB.
const MAX_MOMENTS: usize = 400_000;

impl Default for Samples {
    fn default() -> Self {
        Self {
            sums: HashMap::default(),
            moments: Vec::new(),
            keep_each: 1,
            seen: 0,
            open: HashMap::default(),
            refused: 0,
        }
    }
}

/// Successive samples of a task. What the task gained since its last sample comes with each, and differs by chance as
/// the timer met it or not; together they stand for what it gained over all of them. To let each stand for its own
/// gap doubles the variance of every sum.
#[derive(Debug, Clone)]
struct Block {
    /// When the first was taken.
    begin: u64,
    /// With the time of each.
    keys: Vec<(u64, SampleKey)>,
    criticality: u64,
    active_ns: u64,
}

/// Samples of a block.
const BLOCK: usize = 8;
/// A block is not longer, ns: what a thread does changes.
const BLOCK_NS: u64 = 200_000_000;

impl Block {
    /// Its samples with even parts of the active time, and of the criticality in proportion to what such an instant gains.
    fn settled(mut self) -> impl Iterator<Item = (SampleKey, SampleSum)> {
        // What is left by division goes to the last, whichever CPU's record came first.
        self.keys.sort_unstable();
        let gain = |key: &SampleKey| 1.0 / f64::from(key.n.max(1));
        let gains: f64 = self.keys.iter().map(|(_, key)| gain(key)).sum();
        let (mut count, mut left) = (self.keys.len() as u64, gains);
        let (mut criticality, mut active_ns) = (self.criticality, self.active_ns);
        self.keys.into_iter().map(move |(_, key)| {
            let critical =
                if count == 1 { criticality } else { (criticality as f64 * (gain(&key) / left).min(1.0)) as u64 };
            let sum = SampleSum { count: 1, criticality: critical.min(criticality), active_ns: active_ns / count };
            (criticality, active_ns) = (criticality - sum.criticality, active_ns - sum.active_ns);
            (count, left) = (count - 1, left - gain(&key));
            (key, sum)
        })
    }
}

impl Samples {
    /// Adds one that a timer took.
    pub fn add_timed(&mut self, time: u64, key: SampleKey, sum: SampleSum) {
        let empty = Block { begin: time, keys: Vec::new(), criticality: 0, active_ns: 0 };
        let block = self.open.entry(key.task).or_insert_with(|| empty.clone());
        let before =
            if time.saturating_sub(block.begin) > BLOCK_NS { Some(std::mem::replace(block, empty)) } else { None };
        block.keys.push((time, key));
        block.criticality += sum.criticality;
        block.active_ns += sum.active_ns;
        let full = if block.keys.len() == BLOCK { self.open.remove(&key.task) } else { None };
        for block in before.into_iter().chain(full) {
            block.settled().for_each(|(key, sum)| self.add(key, sum));
        }
    }

    /// No more samples come, or what there is by now is wanted.
    pub fn settle(&mut self) {
        for block in std::mem::take(&mut self.open).into_values() {
            block.settled().for_each(|(key, sum)| self.add(key, sum));
        }
    }

    /// Adds one; without stack it is unattributed.
    pub fn add(&mut self, key: SampleKey, sum: SampleSum) {
        if key.stack == NO_STACK {
            return;
        }
        if self.sums.len() >= MAX_ROWS && !self.sums.contains_key(&key) {
            self.refused += sum.count;
            return;
        }
        let row = self.sums.entry(key).or_default();
        row.count += sum.count;
        row.criticality += sum.criticality;
        row.active_ns += sum.active_ns;
    }

    /// Notes when a timer's sample was taken. Where there are too many, every second is dropped, from then on only
    /// every second is kept, and so on: evenly over time.
    pub fn note(&mut self, moment: RawTimedSample) {
        if moment.stack == NO_STACK {
            return;
        }
        if self.moments.len() == MAX_MOMENTS {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.keep_each *= 2;
        }
        if self.seen.is_multiple_of(self.keep_each) {
            self.moments.push(moment);
        }
        self.seen += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_thinned_out_evenly() {
        let mut samples = Samples::default();
        let count = MAX_MOMENTS as u64 * 5;
        (0..count).for_each(|time| samples.note(RawTimedSample { time, task: 1, stack: 1, period: 1 }));
        assert!(samples.moments.len() <= MAX_MOMENTS && samples.moments.len() > MAX_MOMENTS / 2);
        let distances: Vec<u64> = samples.moments.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
        assert!(distances.iter().all(|&distance| distance == 8), "{:?}", &distances[..8]);
    }

    #[test]
    fn a_blocks_samples_share_what_was_gained() {
        let mut samples = Samples::default();
        let key = |stack, n| SampleKey { task: 1, stack, n, stack_top: false };
        // Alone at one instant, one of four at three.
        for (time, (stack, n)) in [(1, 1), (2, 4), (3, 4), (4, 4)].into_iter().enumerate() {
            let sum = SampleSum { count: 1, criticality: 100 * stack as u64, active_ns: 10 * stack as u64 };
            samples.add_timed(time as u64 * 4_000_000, key(stack, n), sum);
        }
        assert!(samples.sums.is_empty());
        samples.settle();
        let of = |stack, n| samples.sums[&key(stack, n)];
        assert_eq!([of(1, 1), of(2, 4), of(3, 4), of(4, 4)].map(|sum| sum.active_ns), [25; 4]);
        assert!((570..572).contains(&of(1, 1).criticality), "{}", of(1, 1).criticality);
        let all: u64 = samples.sums.values().map(|sum| sum.criticality).sum();
        assert_eq!(all, 1000);
        // What is far apart in time is kept apart.
        let mut samples = Samples::default();
        for time in [0, BLOCK_NS + 1] {
            samples.add_timed(
                time,
                key(1 + time as StackNumber, 1),
                SampleSum { count: 1, criticality: 1, active_ns: time },
            );
        }
        samples.settle();
        assert_eq!(samples.sums[&key(1, 1)].active_ns, 0);
    }

    #[test]
    fn samples_add_up() {
        let mut samples = Samples::default();
        let key = SampleKey { task: 1, stack: 4, n: 2, stack_top: false };
        samples.add(key, SampleSum { count: 1, criticality: 5, active_ns: 7 });
        samples.add(key, SampleSum { count: 1, criticality: 6, active_ns: 8 });
        samples.add(SampleKey { stack: NO_STACK, ..key }, SampleSum { count: 1, criticality: 9, active_ns: 9 });
        let sum = samples.sums[&key];
        assert_eq!((samples.sums.len(), sum.count, sum.criticality, sum.active_ns), (1, 2, 11, 15));
    }
}
