//! When the regions of the busiest threads ran, coarse enough for a line of text.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use transect_profile_model::{FeatureId, Profile, RegionSlice};

use super::active_set::{ActiveSets, names};

/// Cells of a strip: more than a terminal has columns.
pub(crate) const CELLS: usize = 240;
/// Threads shown.
const MOST_THREADS: usize = 4;
/// Nested regions shown.
const MOST_DEPTH: usize = 4;

/// One thread over time: nested regions, a line per depth.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionStrip {
    /// Thread name.
    pub thread: String,
    /// Thread id.
    pub tid: i32,
    /// Since the recording's start, ns: the first cell's start, the last cell's end, which are the program's; the same for
    /// all strips.
    pub start_ns: i64,
    /// See `start_ns`.
    pub end_ns: i64,
    /// Outermost regions first; each of the same number of cells.
    pub lines: Vec<Vec<StripCell>>,
}

/// The region that held most of a cell's time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StripCell {
    /// Its features; empty where there was none.
    pub features: Vec<String>,
    /// Its share of the cell, 0.0–1.0.
    pub share: f32,
}

pub(super) fn strips(profile: &Profile, active: &ActiveSets) -> Vec<RegionStrip> {
    let tables = &profile.feature;
    let Some(last) = tables.slices.iter().map(end).max() else { return Vec::new() };
    let first = tables.slices.iter().map(|slice| slice.start_ns).min().unwrap_or(0);
    // The program's life: the recording begins before and ends after it.
    let begun = profile.threads.iter().map(|thread| thread.start_ns).min().unwrap_or(first);
    let ended = profile.threads.iter().map(|thread| thread.start_ns.saturating_add(thread.wall_ns)).max();
    let start_ns = first.min(begun);
    let end_ns = last.max(ended.unwrap_or(last)).max(start_ns.saturating_add(1));
    let mut depths: Vec<usize> = Vec::with_capacity(tables.nodes.len());
    let mut in_regions: FxHashMap<u32, i64> = FxHashMap::default();
    for (id, node) in tables.nodes.iter().enumerate() {
        depths.push(node.parent.map_or(0, |parent| depths[parent as usize] + 1));
        if active.of_node[id] != 0 {
            let sum = in_regions.entry(node.thread).or_default();
            *sum = sum.saturating_add(node.exclusive_ns);
        }
    }
    let mut threads: Vec<(u32, i64)> = in_regions.into_iter().filter(|&(_, ns)| ns > 0).collect();
    threads.sort_by_key(|&(thread, ns)| (Reverse(ns), thread));
    threads.truncate(MOST_THREADS);
    threads.sort_by_key(|&(thread, _)| thread);
    let width = end_ns.saturating_sub(start_ns) as f64 / CELLS as f64;
    threads
        .into_iter()
        .filter_map(|(id, _)| {
            let thread = &profile.threads[id as usize];
            let lines = lines(profile, &depths, id, start_ns, width);
            (!lines.is_empty()).then(|| RegionStrip {
                thread: thread.name.clone(),
                tid: thread.tid,
                start_ns,
                end_ns,
                lines,
            })
        })
        .collect()
}

fn end(slice: &RegionSlice) -> i64 {
    slice.start_ns.saturating_add(slice.duration_ns)
}

fn lines(profile: &Profile, depths: &[usize], thread: u32, start_ns: i64, width: f64) -> Vec<Vec<StripCell>> {
    let tables = &profile.feature;
    // Time by line, cell and features.
    let mut times: Vec<Vec<FxHashMap<&[FeatureId], f64>>> = Vec::new();
    for slice in &tables.slices {
        let node = &tables.nodes[slice.node as usize];
        let depth = depths[slice.node as usize];
        let Some(region) = node.region.filter(|_| node.thread == thread && (1..=MOST_DEPTH).contains(&depth)) else {
            continue;
        };
        if times.len() < depth {
            times.resize(depth, vec![FxHashMap::default(); CELLS]);
        }
        let from = slice.start_ns.saturating_sub(start_ns) as f64 / width;
        let to = end(slice).saturating_sub(start_ns) as f64 / width;
        let (first, last) = (from.floor().max(0.0) as usize, (to.ceil().max(0.0) as usize).min(CELLS));
        for (cell, times) in times[depth - 1].iter_mut().enumerate().take(last).skip(first) {
            let part = to.min(cell as f64 + 1.0) - from.max(cell as f64);
            *times.entry(&tables.regions[region as usize].features).or_default() += part.max(0.0);
        }
    }
    let cell = |times: FxHashMap<&[FeatureId], f64>| {
        let longest = times.into_iter().max_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| b.cmp(a)));
        longest.map_or_else(StripCell::default, |(set, part)| StripCell {
            features: names(tables, set),
            share: part.min(1.0) as f32,
        })
    };
    times.into_iter().map(|line| line.into_iter().map(cell).collect()).collect()
}
