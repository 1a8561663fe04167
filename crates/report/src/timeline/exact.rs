//! Which slices are kept exactly, and how they are written.

use transect_profile_model::{SchedTables, Slice};

use super::Grid;
use super::describe::Describer;
use super::lanes::ByLane;
use super::parallelism::Binned;
use crate::pack::put_number;

/// Windows of time that are chosen or not.
const WINDOWS: usize = 4096;

/// The bins in which all slices are kept.
pub(super) struct Chosen {
    bins: Vec<bool>,
}

impl Chosen {
    /// Everything if there are at most `most` slices; else the windows in which most CPUs stand idle, as many as
    /// `most` slices fill.
    pub(super) fn new(grid: Grid, tables: &SchedTables, parallelism: &Binned, cpus: i64, most: usize) -> Self {
        if tables.slices.len() <= most {
            return Self { bins: vec![true; grid.bins] };
        }
        let windows = WINDOWS.min(grid.bins);
        let wide = grid.bins / windows;
        let mut slices = vec![0_usize; windows];
        for slice in &tables.slices {
            let (first, last) = bins_of(grid, slice);
            for count in &mut slices[first / wide..=last / wide] {
                *count += 1;
            }
        }
        let idle = |window: usize| {
            (window * wide..(window + 1) * wide).map(|bin| parallelism.idle_share(bin, cpus)).sum::<f64>()
        };
        let mut ranked: Vec<(f64, usize)> = (0..windows).map(|window| (idle(window), window)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut bins = vec![false; grid.bins];
        let mut left = most;
        for (_, window) in ranked {
            // A window too dense for what is left may have sparser ones behind it.
            if slices[window] > left {
                continue;
            }
            left -= slices[window];
            bins[window * wide..(window + 1) * wide].fill(true);
        }
        Self { bins }
    }

    /// Runs of chosen bins, first and one past the last.
    pub(super) fn ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (bin, _) in self.bins.iter().enumerate().filter(|(_, chosen)| **chosen) {
            match ranges.last_mut() {
                Some(last) if last.1 == bin => last.1 = bin + 1,
                _ => ranges.push((bin, bin + 1)),
            }
        }
        ranges
    }

    /// Whether any of the bins `first..=last` is chosen.
    fn touches(&self, first: usize, last: usize) -> bool {
        self.bins[first..=last].iter().any(|&chosen| chosen)
    }
}

fn bins_of(grid: Grid, slice: &Slice) -> (usize, usize) {
    let first = grid.bin(slice.start_ns);
    (first, grid.bin(slice.start_ns.saturating_add(slice.active_ns.max(1) - 1)).max(first))
}

/// The numbers of [`super::Timeline::exact`], and how many slices they hold.
pub(super) fn encode(
    grid: Grid,
    tables: &SchedTables,
    by_lane: &ByLane,
    chosen: &Chosen,
    details: &mut Describer<'_>,
) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut kept_in_all = 0;
    for lane in 0..by_lane.lanes() {
        let rows = by_lane.lane(lane);
        let mut kept: Vec<u32> = Vec::new();
        for (place, &row) in rows.iter().enumerate() {
            let slice = &tables.slices[row as usize];
            let (first, last) = bins_of(grid, slice);
            // Up to the next one it waits: a wait that reaches into a range needs the slice before it.
            let next = rows.get(place + 1).map_or(grid.bins - 1, |&row| grid.bin(tables.slices[row as usize].start_ns));
            if chosen.touches(first, last.max(next)) {
                kept.push(row);
            }
        }
        put_number(&mut bytes, kept.len() as u64);
        kept_in_all += kept.len();
        let mut before = grid.start_ns;
        for row in kept {
            let slice = &tables.slices[row as usize];
            // Slices of one thread do not overlap; clock skew between CPUs may say so.
            let start = slice.start_ns.max(before);
            let end = slice.start_ns.saturating_add(slice.active_ns).max(start);
            let active = end - start;
            put_number(&mut bytes, (start - before) as u64);
            put_number(&mut bytes, active as u64);
            put_number(&mut bytes, slice.runnable_ns.clamp(0, active) as u64);
            put_number(&mut bytes, details.wait(slice.wait));
            before = end;
        }
    }
    (bytes, kept_in_all)
}
