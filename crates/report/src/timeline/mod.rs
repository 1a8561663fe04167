//! The timeline of the page: degree of parallelism and the threads' states over time, small enough to be embedded.
//!
//! Ten million slices do not fit into a page, and no screen shows them at once. So the page carries two levels of
//! detail ([`Timeline`]): *cells*, which say for each thread and each of some thousand bins of time how much of it the
//! thread ran, was runnable, and what it mostly waited for; and the *exact* slices and waits, of everything if they
//! are few, else of those ranges of time in which most CPUs stood idle. The page coarsens the cells further
//! while zoomed out, and says where it shows bins although it is zoomed in.

mod bins;
mod describe;
mod exact;
mod lanes;
mod parallelism;

use serde::Serialize;
use transect_profile_model::{Profile, WaitKind};

use crate::pack::pack;
use lanes::Lanes;

/// Bins of all threads together: about a megabyte of the page.
const CELLS: usize = 1 << 19;
/// Bins of time, at most.
const MOST_BINS: usize = 1 << 14;
/// Bins of time, at least.
const LEAST_BINS: usize = 1 << 9;
/// Slices that are kept exactly.
pub const EXACT_SLICES: usize = 300_000;

/// What the page draws the timeline from. Times are ns since the recording's start.
///
/// Blobs are base64 of raw deflate: `cells` holds three planes for each lane, one byte a bin each: share of the bin run
/// and runnable (of 255), and 1 + the number of the kind waited for longest (0: none known); `parallelism` three planes
/// of 16-bit numbers, low byte first: mean (by 16), least and most active threads of each bin; `exact` LEB128 numbers,
/// for each lane the count of slices, then for each slice the time since the end of the one before it, active time,
/// runnable time and the row of `waits` that followed + 1 (0: none known); `details` is JSON, see `describe::Details`.
#[derive(Debug, Clone, Serialize)]
pub struct Timeline {
    /// First instant.
    pub start_ns: i64,
    /// Last instant.
    pub end_ns: i64,
    /// Bins of time, a power of two.
    pub bins: usize,
    /// CPUs that the program was allowed to use.
    pub cpus: i64,
    /// Kinds of waits, in the order of their numbers.
    pub kinds: Vec<&'static str>,
    /// Slices recorded.
    pub slices: usize,
    /// Of them, kept exactly.
    pub exact_slices: usize,
    /// Ranges of time, in bins, in which every slice of every lane is kept; ascending.
    pub exact_ranges: Vec<(usize, usize)>,
    /// Threads without a lane: the least critical.
    pub threads_left_out: usize,
    /// See above.
    pub cells: String,
    /// See above.
    pub parallelism: String,
    /// See above.
    pub exact: String,
    /// See above.
    pub details: String,
}

/// The bins of time.
#[derive(Debug, Clone, Copy)]
struct Grid {
    start_ns: i64,
    end_ns: i64,
    bins: usize,
}

impl Grid {
    fn bin_ns(self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / self.bins as f64
    }

    /// The bin that holds an instant; instants outside are in the first or the last.
    fn bin(self, ns: i64) -> usize {
        let along = (ns.saturating_sub(self.start_ns)).max(0) as f64 / self.bin_ns();
        (along as usize).min(self.bins - 1)
    }

    /// Calls `each(bin, ns in it)` for every bin that `from..to` overlaps.
    fn spread(self, from: i64, to: i64, mut each: impl FnMut(usize, f64)) {
        let (from, to) = (from.max(self.start_ns), to.min(self.end_ns));
        if from >= to {
            return;
        }
        let (first, last) = (self.bin(from), self.bin(to - 1));
        if first == last {
            return each(first, (to - from) as f64);
        }
        let width = self.bin_ns();
        let edge = |bin: usize| self.start_ns as f64 + bin as f64 * width;
        each(first, (edge(first + 1) - from as f64).max(0.0));
        for bin in first + 1..last {
            each(bin, width);
        }
        each(last, (to as f64 - edge(last)).max(0.0));
    }
}

/// The timeline of a profile; `None` without slices.
pub fn timeline(profile: &Profile) -> Option<Timeline> {
    let session = profile.meta.criticality.as_ref()?;
    let tables = &profile.sched;
    let first = tables.slices.iter().map(|slice| slice.start_ns).min()?;
    let last = tables.slices.iter().map(|slice| slice.start_ns.saturating_add(slice.active_ns)).max()?;
    let start_ns = if session.end_ns > session.start_ns { session.start_ns.min(first) } else { first };
    let end_ns = session.end_ns.max(last).max(start_ns + 1);
    let lanes = Lanes::new(tables);
    let bins = bins_for(lanes.tasks.len(), tables.slices.len());
    let grid = Grid { start_ns, end_ns, bins };
    let by_lane = lanes.slices(tables);
    let parallelism = parallelism::Binned::new(grid, &tables.slices);
    let cells = bins::cells(grid, tables, &lanes, &by_lane);
    let chosen = exact::Chosen::new(grid, tables, &parallelism, session.cpus, EXACT_SLICES);
    let mut details = describe::Describer::new(profile, &lanes);
    let (exact, exact_slices) = exact::encode(grid, tables, &by_lane, &chosen, &mut details);
    Some(Timeline {
        start_ns,
        end_ns,
        bins,
        cpus: session.cpus,
        kinds: WaitKind::ALL.iter().map(|kind| kind.as_str()).collect(),
        slices: tables.slices.len(),
        exact_slices,
        exact_ranges: chosen.ranges(),
        threads_left_out: tables.tasks.len() - lanes.tasks.len(),
        cells: pack(&cells),
        parallelism: pack(&parallelism.bytes()),
        exact: pack(&exact),
        details: pack(&details.json()),
    })
}

/// A power of two: as fine as the budget allows, and not finer than there is something to see.
fn bins_for(lanes: usize, slices: usize) -> usize {
    let affordable = CELLS / lanes.max(1);
    let useful = slices.saturating_mul(8).max(LEAST_BINS).next_power_of_two();
    let down = |n: usize| if n.is_power_of_two() { n } else { n.next_power_of_two() / 2 };
    down(affordable.clamp(LEAST_BINS, MOST_BINS)).min(useful)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_fit_the_budget() {
        assert_eq!(bins_for(1, 1_000_000), MOST_BINS);
        assert_eq!(bins_for(512, 10_000_000), 1024);
        assert_eq!(bins_for(100_000, 10_000_000), LEAST_BINS);
        assert_eq!(bins_for(4, 100), 1024);
        assert_eq!(bins_for(0, 0), LEAST_BINS);
    }

    #[test]
    fn spreading_loses_no_time() {
        let grid = Grid { start_ns: 100, end_ns: 1_100, bins: 16 };
        for (from, to) in [(100, 1_100), (0, 5_000), (101, 102), (162, 163), (150, 900), (1_099, 1_100), (300, 300)] {
            let mut sum = 0.0;
            grid.spread(from, to, |bin, ns| {
                assert!(bin < 16 && ns >= 0.0 && ns <= grid.bin_ns() + 1e-6);
                sum += ns;
            });
            let expected = (to.min(1_100) - from.max(100)).max(0) as f64;
            assert!((sum - expected).abs() < 1e-6, "{from}..{to}: {sum}");
        }
    }
}
