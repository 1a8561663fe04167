//! Waits and slices: rows that are too many for memory.

use std::io;
use std::path::Path;

use super::call_stack::{NO_STACK, StackNumber};
use super::cause::{CauseNumber, UNKNOWN_CAUSE};
use super::runs::{Runs, Sorted};
use rustc_hash::FxHashMap as HashMap;

/// A wait as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawWait {
    /// Task number.
    pub task: u32,
    /// Its stack.
    pub stack: StackNumber,
    /// Why it blocked.
    pub cause: CauseNumber,
    /// Task number of the holder, 0 if none.
    pub holder: u32,
    /// Its stack.
    pub holder_stack: StackNumber,
    /// Task number of the waker, 0 if none.
    pub waker: u32,
    /// Its stack.
    pub waker_stack: StackNumber,
    /// ns of the monotonic clock.
    pub begin: u64,
    /// See `begin`.
    pub end: u64,
    /// Idle time that it ended, ns.
    pub idle_ns: u64,
    /// What the holder gained meanwhile at low parallelism, ns.
    pub holder_gain_ns: u64,
    /// What the waker did.
    pub waker_gain_ns: u64,
}

/// Number of a wait that is kept by itself, in the order they came.
pub type WaitNumber = u32;

/// Sum of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitSum {
    /// What they have in common; first instant, last instant, sums.
    pub wait: RawWait,
    /// Waits.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
}

/// All waits: the first ones one by one in a file, later ones summed up.
#[derive(Debug)]
pub struct RawWaits {
    runs: Runs<WAIT_WORDS>,
    /// Waits that were given a number.
    pub numbered: WaitNumber,
    merged: HashMap<MergeKey, WaitSum>,
    /// Waits that were summed up without stacks, holder and waker, for want of memory.
    pub coarse: u64,
}

const WAIT_WORDS: usize = 9;
/// What summed up waits have in common: the thread first.
pub type MergeKey = [u32; 7];

/// Waits that are kept one by one.
const MAX_SINGLE: WaitNumber = 2_000_000;
/// Sums: some 9 MB.
const MAX_MERGED: usize = 50_000;
/// Sums by thread and cause alone, when there are more.
const MAX_COARSE: usize = 60_000;

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl RawWait {
    fn row(&self, number: WaitNumber) -> [u64; WAIT_WORDS] {
        [
            self.end,
            self.begin,
            pair(self.task, number),
            pair(self.stack, self.cause),
            pair(self.holder, self.holder_stack),
            pair(self.waker, self.waker_stack),
            self.idle_ns,
            self.holder_gain_ns,
            self.waker_gain_ns,
        ]
    }

    fn of_row(row: &[u64; WAIT_WORDS]) -> (Self, WaitNumber) {
        let (task, number) = split(row[2]);
        let (stack, cause) = split(row[3]);
        let (holder, holder_stack) = split(row[4]);
        let (waker, waker_stack) = split(row[5]);
        let wait = Self {
            task,
            stack,
            cause,
            holder,
            holder_stack,
            waker,
            waker_stack,
            begin: row[1],
            end: row[0],
            idle_ns: row[6],
            holder_gain_ns: row[7],
            waker_gain_ns: row[8],
        };
        (wait, number)
    }

    /// What it is summed up by.
    pub fn key(&self) -> MergeKey {
        [self.task, self.stack, self.cause, self.holder, self.holder_stack, self.waker, self.waker_stack]
    }

    /// One of these, otherwise like `other`.
    pub fn with_key(key: &MergeKey, other: &Self) -> Self {
        let [task, stack, cause, holder, holder_stack, waker, waker_stack] = *key;
        Self { task, stack, cause, holder, holder_stack, waker, waker_stack, ..*other }
    }
}

impl RawWaits {
    /// An empty table whose file is in `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { runs: Runs::new(folder)?, numbered: 0, merged: HashMap::default(), coarse: 0 })
    }

    /// The waits so far, while more come.
    pub fn so_far(&self) -> Self {
        Self { runs: self.runs.so_far(), merged: self.merged.clone(), ..*self }
    }

    /// Adds a wait; its number if it is kept by itself.
    pub fn push(&mut self, wait: RawWait) -> Option<WaitNumber> {
        self.push_up_to(wait, MAX_SINGLE)
    }

    fn push_up_to(&mut self, wait: RawWait, single: WaitNumber) -> Option<WaitNumber> {
        if self.numbered < single {
            let number = self.numbered;
            self.numbered += 1;
            self.runs.push(wait.row(number));
            return Some(number);
        }
        self.add_sum(wait, 1, wait.end - wait.begin);
        None
    }

    /// Adds the sum of `count` waits that lie between the begin and the end of `wait`.
    pub fn add_sum(&mut self, mut wait: RawWait, count: u64, ns: u64) {
        if count == 1 {
            wait.begin = wait.end.saturating_sub(ns);
        }
        if self.merged.len() >= MAX_MERGED && !self.merged.contains_key(&wait.key()) {
            self.coarse += count;
            (wait.stack, wait.holder, wait.holder_stack) = (NO_STACK, 0, NO_STACK);
            (wait.waker, wait.waker_stack) = (0, NO_STACK);
            if self.merged.len() >= MAX_COARSE && !self.merged.contains_key(&wait.key()) {
                wait.cause = UNKNOWN_CAUSE;
            }
        }
        let sum = self.merged.entry(wait.key()).or_insert(WaitSum {
            wait: RawWait { idle_ns: 0, holder_gain_ns: 0, waker_gain_ns: 0, ..wait },
            count: 0,
            ns: 0,
        });
        sum.count += count;
        sum.ns += ns;
        sum.wait.begin = sum.wait.begin.min(wait.begin);
        sum.wait.end = sum.wait.end.max(wait.end);
        sum.wait.idle_ns += wait.idle_ns;
        sum.wait.holder_gain_ns += wait.holder_gain_ns;
        sum.wait.waker_gain_ns += wait.waker_gain_ns;
    }

    /// Waits that found no room on the disk.
    pub fn lost(&self) -> u64 {
        self.runs.lost
    }

    /// Rows: waits that are kept one by one, and sums.
    #[cfg(test)]
    pub fn rows(&self) -> usize {
        self.runs.len() + self.merged.len()
    }

    /// All rows in order of their end, with their numbers. Nothing may be added after that.
    pub fn sorted(&mut self) -> SortedWaits<'_> {
        let mut merged: Vec<WaitSum> = self.merged.values().copied().collect();
        // Last first.
        merged.sort_unstable_by_key(|sum| std::cmp::Reverse((sum.wait.end, sum.wait.begin, sum.wait.key())));
        SortedWaits { single: self.runs.sorted(), next: None, merged }
    }
}

/// Waits in order of their end.
pub struct SortedWaits<'a> {
    single: Sorted<'a, WAIT_WORDS>,
    next: Option<(WaitSum, WaitNumber)>,
    merged: Vec<WaitSum>,
}

impl Iterator for SortedWaits<'_> {
    /// A wait or a sum; the number of one that is kept by itself.
    type Item = io::Result<(WaitSum, Option<WaitNumber>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next.is_none() {
            match self.single.next() {
                Some(Ok(row)) => {
                    let (wait, number) = RawWait::of_row(&row);
                    self.next = Some((WaitSum { wait, count: 1, ns: wait.end - wait.begin }, number));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {}
            }
        }
        let merged = self.merged.last().map(|sum| sum.wait.end);
        match self.next {
            Some((sum, number)) if merged.is_none_or(|end| sum.wait.end <= end) => {
                self.next = None;
                Some(Ok((sum, Some(number))))
            }
            _ => self.merged.pop().map(|sum| Ok((sum, None))),
        }
    }
}

/// A stretch of activity as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawSlice {
    /// Task number.
    pub task: u32,
    /// ns of the monotonic clock.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Of it without a CPU, ns.
    pub runnable_ns: u64,
    /// Criticality gained, ns.
    pub criticality_ns: u64,
    /// The wait that followed, if it is kept by itself.
    pub wait: Option<WaitNumber>,
}

/// All slices, in a file.
#[derive(Debug)]
pub struct SliceRuns {
    runs: Runs<5>,
}

const NO_WAIT: WaitNumber = WaitNumber::MAX;

impl SliceRuns {
    /// An empty table whose file is in `folder`.
    pub fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self { runs: Runs::new(folder)? })
    }

    /// The slices so far, while more come.
    pub fn so_far(&self) -> Self {
        Self { runs: self.runs.so_far() }
    }

    /// Adds one.
    pub fn push(&mut self, slice: RawSlice) {
        let RawSlice { task, start, end, runnable_ns, criticality_ns, wait } = slice;
        self.runs.push([end, start, pair(task, wait.unwrap_or(NO_WAIT)), runnable_ns, criticality_ns]);
    }

    /// Slices that found no room on the disk.
    pub fn lost(&self) -> u64 {
        self.runs.lost
    }

    /// All slices in order of their end. Nothing may be added after that.
    pub fn sorted(&mut self) -> impl Iterator<Item = io::Result<RawSlice>> {
        self.runs.sorted().map(|row| {
            let [end, start, words, runnable_ns, criticality_ns] = row?;
            let (task, wait) = split(words);
            let wait = Some(wait).filter(|&wait| wait != NO_WAIT);
            Ok(RawSlice { task, start, end, runnable_ns, criticality_ns, wait })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(task: u32, begin: u64, end: u64) -> RawWait {
        RawWait {
            task,
            stack: task * 3,
            cause: 1,
            holder: 5,
            holder_stack: 6,
            waker: 7,
            waker_stack: 8,
            begin,
            end,
            idle_ns: end % 7,
            holder_gain_ns: begin % 5,
            waker_gain_ns: begin % 7,
        }
    }

    #[test]
    fn later_waits_are_summed_up_and_nothing_is_lost_of_the_sums() {
        let folder = tempfile::tempdir().unwrap();
        let mut waits = RawWaits::new(folder.path()).unwrap();
        let all: Vec<RawWait> =
            (0..1000).map(|n| wait(n % 7, u64::from(n) * 3 % 911, 1000 + u64::from(n) * 31 % 997)).collect();
        for (position, wait) in all.iter().enumerate() {
            let number = waits.push_up_to(*wait, 600);
            assert_eq!(number, (position < 600).then_some(position as u32));
        }
        assert_eq!(waits.rows(), 607);
        let rows: Vec<(WaitSum, Option<u32>)> = waits.sorted().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 607);
        assert!(rows.is_sorted_by_key(|(sum, _)| sum.wait.end));
        for (sum, number) in &rows {
            match number {
                Some(number) => assert_eq!((sum.wait, sum.count), (all[*number as usize], 1)),
                None => {
                    let of_it = || all[600..].iter().filter(|wait| wait.task == sum.wait.task);
                    assert_eq!(sum.count, of_it().count() as u64);
                    assert_eq!(sum.ns, of_it().map(|wait| wait.end - wait.begin).sum::<u64>());
                    assert_eq!(sum.wait.idle_ns, of_it().map(|wait| wait.idle_ns).sum::<u64>());
                    assert_eq!(sum.wait.holder_gain_ns, of_it().map(|wait| wait.holder_gain_ns).sum::<u64>());
                    assert_eq!(sum.wait.waker_gain_ns, of_it().map(|wait| wait.waker_gain_ns).sum::<u64>());
                    assert_eq!(Some(sum.wait.begin), of_it().map(|wait| wait.begin).min());
                    assert_eq!(Some(sum.wait.end), of_it().map(|wait| wait.end).max());
                }
            }
        }
    }

    #[test]
    fn sums_stay_bounded_and_right() {
        let folder = tempfile::tempdir().unwrap();
        let mut waits = RawWaits::new(folder.path()).unwrap();
        let count = 200_000;
        for n in 0..count {
            waits.push_up_to(RawWait { waker: n, cause: n % 9, ..wait(n % 3000, 10, 15) }, 0);
        }
        assert!(waits.rows() <= MAX_COARSE + 3000, "{}", waits.rows());
        assert!(waits.coarse > 0);
        let rows: Vec<(WaitSum, Option<u32>)> = waits.sorted().map(Result::unwrap).collect();
        assert_eq!(rows.iter().map(|(sum, _)| sum.count).sum::<u64>(), u64::from(count));
        assert_eq!(rows.iter().map(|(sum, _)| sum.ns).sum::<u64>(), u64::from(count) * 5);
    }
}
