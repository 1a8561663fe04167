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
    /// Samples for which there was no room; their criticality counts as not attributed.
    pub refused: u64,
}

/// More sums are not kept: some 14 MB.
const MAX_ROWS: usize = 200_000;
/// Moments are thinned out above this: 6 MB.
const MAX_MOMENTS: usize = 400_000;

impl Default for Samples {
    fn default() -> Self {
        Self { sums: HashMap::default(), moments: Vec::new(), keep_each: 1, seen: 0, refused: 0 }
    }
}

impl Samples {
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
