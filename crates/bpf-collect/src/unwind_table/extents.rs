//! Ranges of a table's memory: which are free, which rest because the kernel may still be reading them.
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A walk in the kernel takes microseconds; a virtual machine's CPU may stop for longer.
const REST: Duration = Duration::from_secs(3);

/// Hands out ranges of `0..size`.
#[derive(Debug)]
pub(crate) struct Extents {
    /// Length by start; no two touch.
    free: BTreeMap<u32, u32>,
    resting: VecDeque<(Instant, u32, u32)>,
    used: u32,
}

impl Extents {
    /// All of `range` is free.
    pub fn new(range: std::ops::Range<u32>) -> Self {
        Self { free: BTreeMap::from([(range.start, range.end - range.start)]), resting: VecDeque::new(), used: 0 }
    }

    /// Takes `length` units that lie together; the first that fit.
    pub fn take(&mut self, length: u32, now: Instant) -> Option<u32> {
        while self.resting.front().is_some_and(|&(since, ..)| now.duration_since(since) >= REST) {
            let Some((_, start, length)) = self.resting.pop_front() else { break };
            self.free_now(start, length);
        }
        let (&start, &free) = self.free.iter().find(|&(_, &free)| free >= length)?;
        self.free.remove(&start);
        if free > length {
            self.free.insert(start + length, free - length);
        }
        self.used += length;
        Some(start)
    }

    /// Gives back what nothing refers to any more; it is handed out again after a while.
    pub fn give(&mut self, start: u32, length: u32, now: Instant) {
        self.used -= length;
        self.resting.push_back((now, start, length));
    }

    /// Units handed out.
    pub fn used(&self) -> u32 {
        self.used
    }

    fn free_now(&mut self, mut start: u32, mut length: u32) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            (start, length) = (before, size + length);
        }
        if let Some(size) = self.free.remove(&(start + length)) {
            length += size;
        }
        self.free.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_rests_and_joins() {
        let now = Instant::now();
        let mut extents = Extents::new(8..100);
        let taken: Vec<_> = (0..3).map(|_| extents.take(30, now)).collect();
        assert_eq!(taken, [Some(8), Some(38), Some(68)]);
        assert_eq!(extents.take(30, now), None);
        for start in [68, 8, 38] {
            extents.give(start, 30, now);
        }
        assert_eq!(extents.take(30, now + REST / 2), None, "the kernel may still read it");
        assert_eq!(extents.take(92, now + REST), Some(8));
        assert_eq!(extents.used(), 92);
    }
}
