//! Spans in regions for the timeline: as many as are allowed, the longest ones.

use super::fold::RegionSpan;

/// Spans that are kept, over all threads.
const CAPACITY: usize = 400_000;

/// Spans of all threads: (thread, span).
#[derive(Debug, Clone, Default)]
pub struct RegionSpans {
    kept: Vec<(u32, RegionSpan)>,
    /// Shorter ones are left out.
    shortest: u64,
    left_out: u64,
}

impl RegionSpans {
    /// One more.
    pub fn add(&mut self, thread: u32, span: RegionSpan) {
        if span.end.saturating_sub(span.start) < self.shortest {
            self.left_out += 1;
            return;
        }
        if self.kept.len() == CAPACITY {
            self.thin_out();
        }
        self.kept.push((thread, span));
    }

    /// Leaves the shorter half out, and what is as short from now on.
    fn thin_out(&mut self) {
        let mut lengths: Vec<u64> = self.kept.iter().map(|(_, span)| span.end.saturating_sub(span.start)).collect();
        let (_, median, _) = lengths.select_nth_unstable(CAPACITY / 2);
        self.shortest = *median + 1;
        self.kept.retain(|(_, span)| span.end.saturating_sub(span.start) >= self.shortest);
        self.left_out += (CAPACITY - self.kept.len()) as u64;
    }

    /// Threads have other numbers from now on, or none: what these have done is left out.
    pub fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.kept.retain_mut(|(thread, _)| {
            let new = number(*thread);
            *thread = new.unwrap_or(*thread);
            new.is_some()
        });
    }

    /// Those kept, in order of begin, and how many were left out.
    pub fn finish(mut self) -> (Vec<(u32, RegionSpan)>, u64) {
        self.kept.sort_by_key(|(thread, span)| (span.start, *thread, std::cmp::Reverse(span.end)));
        (self.kept, self.left_out)
    }
}
