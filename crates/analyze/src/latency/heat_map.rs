use rustc_hash::FxHashMap;
use serde::Serialize;
use transect_profile_model::{LatencyId, LatencySlice, Profile};

use super::ranked;
use crate::Selection;
use crate::prepared::Prepared;

/// Cells of all pictures together: a page of a few megabytes.
const MOST_CELLS: usize = 400_000;
/// Functions whose pictures keep every slice whatever the number of the others.
const KEPT_WHOLE: usize = 100;

/// Latency over time, one picture per function: x time, y duration, the count is the colour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LatencyHeatMap {
    /// Start of each slice of time since the recording's start, ns.
    pub starts_ns: Vec<i64>,
    /// End of the last slice, ns.
    pub end_ns: i64,
    /// Bounds of the buckets of duration, shortest first, ns.
    pub buckets: Vec<(i64, i64)>,
    /// One picture per row of the latency view, in its order.
    pub functions: Vec<HeatMapFunction>,
}

/// Samples of one function over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HeatMapFunction {
    /// So many slices are one cell wide: the cell at slice `n` covers slices `n` to `n + merge - 1`.
    pub merge: u32,
    /// Slice, bucket, count; and so on. Ascending by slice, then by bucket.
    pub cells: Vec<u32>,
}

/// The pictures of the functions that [`super::latency`] lists for the same selection.
///
/// Where there are too many cells for a page, functions beyond the hundred longest get wider ones; no sample is left
/// out.
pub fn latency_heat_map(profile: &Profile, selection: &Selection) -> LatencyHeatMap {
    let prepared = Prepared::new(profile);
    let rows = ranked(&prepared, selection);
    if profile.latency_slices.is_empty() {
        return LatencyHeatMap::default();
    }
    let mut starts_ns: Vec<i64> = profile.latency_slices.iter().map(|slice| slice.start_ns).collect();
    starts_ns.sort_unstable();
    starts_ns.dedup();
    fill_gaps(&mut starts_ns, &profile.latency_slices);
    let bounds = |slice: &LatencySlice| (slice.bucket.low, slice.bucket.high);
    let mut buckets: Vec<(i64, i64)> = profile.latency_slices.iter().map(bounds).collect();
    buckets.sort_unstable();
    buckets.dedup();

    let mut row_of: FxHashMap<LatencyId, usize> = FxHashMap::default();
    for (row, (_, sum)) in rows.iter().enumerate() {
        row_of.extend(sum.ids.iter().map(|&id| (id, row)));
    }
    let mut cells: Vec<Vec<[u32; 3]>> = vec![Vec::new(); rows.len()];
    for slice in &profile.latency_slices {
        let Some(&row) = row_of.get(&slice.latency) else { continue };
        let column = starts_ns.binary_search(&slice.start_ns).unwrap_or_else(|next| next.saturating_sub(1)) as u32;
        let Ok(bucket) = buckets.binary_search(&bounds(slice)) else { continue };
        let count = u32::try_from(slice.bucket.count.max(0)).unwrap_or(u32::MAX);
        cells[row].push([column, bucket as u32, count]);
    }
    cells.iter_mut().for_each(|cells| coarsen(cells, 1));

    let (kept, rest) = cells.split_at_mut(KEPT_WHOLE.min(rows.len()));
    let room = MOST_CELLS.saturating_sub(kept.iter().map(Vec::len).sum());
    let mut merge = 1;
    while rest.iter().map(Vec::len).sum::<usize>() > room && (merge as usize) < starts_ns.len() {
        merge *= 2;
        rest.iter_mut().for_each(|cells| coarsen(cells, merge));
    }
    let function = |(row, cells): (usize, Vec<[u32; 3]>)| HeatMapFunction {
        merge: if row < KEPT_WHOLE { 1 } else { merge },
        cells: cells.into_iter().flatten().collect(),
    };
    let end_ns = profile.latency_slices.iter().map(|slice| slice.end_ns).max().unwrap_or(0);
    LatencyHeatMap { starts_ns, end_ns, buckets, functions: cells.into_iter().enumerate().map(function).collect() }
}

/// Slices in which nothing at all was sampled have columns too: time is to run evenly.
fn fill_gaps(starts_ns: &mut Vec<i64>, slices: &[LatencySlice]) {
    let Some(width) = slices.iter().map(|slice| slice.end_ns - slice.start_ns).filter(|&width| width > 0).min() else {
        return;
    };
    let (Some(&first), Some(&last)) = (starts_ns.first(), starts_ns.last()) else { return };
    let even = starts_ns.iter().all(|start| (start - first) % width == 0);
    // Some thousand at most: a profile that was put together by hand may be of any shape.
    if even && (last - first) / width < 4096 {
        *starts_ns = (0..=(last - first) / width).map(|n| first + n * width).collect();
    }
}

/// Makes `merge` slices one and adds up what then shares a cell.
fn coarsen(cells: &mut Vec<[u32; 3]>, merge: u32) {
    cells.iter_mut().for_each(|cell| cell[0] -= cell[0] % merge);
    cells.sort_unstable();
    cells.dedup_by(|cell, kept| {
        let same = cell[..2] == kept[..2];
        if same {
            kept[2] = kept[2].saturating_add(cell[2]);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency;
    use crate::synthetic::{large_latency, latency_service};

    fn samples(function: &HeatMapFunction) -> i64 {
        function.cells.chunks(3).map(|cell| i64::from(cell[2])).sum()
    }

    #[test]
    fn pictures_hold_every_sample_of_their_row() {
        for profile in [latency_service(), large_latency(5_000)] {
            let everything = Selection::default();
            let rows = latency(&profile, &everything);
            let heat = latency_heat_map(&profile, &everything);
            assert_eq!(rows.len(), heat.functions.len());
            for (row, function) in rows.iter().zip(&heat.functions) {
                assert_eq!(samples(function), row.samples, "{}", row.function);
                let (slices, buckets) = (heat.starts_ns.len() as u32, heat.buckets.len() as u32);
                assert!(function.cells.chunks(3).all(|cell| cell[0] < slices && cell[1] < buckets));
                assert!(function.cells.chunks(3).all(|cell| cell[0] % function.merge == 0));
            }
            assert!(heat.functions.iter().map(|f| f.cells.len() / 3).sum::<usize>() <= MOST_CELLS);
        }
    }

    #[test]
    fn time_runs_evenly_through_quiet_slices() {
        let mut profile = latency_service();
        let quiet = 5_000_000_000..9_000_000_000;
        profile.latency_slices.retain(|slice| !quiet.contains(&slice.start_ns));
        let heat = latency_heat_map(&profile, &Selection::default());
        let width = heat.starts_ns[1] - heat.starts_ns[0];
        assert!(heat.starts_ns.windows(2).all(|pair| pair[1] - pair[0] == width));
    }

    #[test]
    fn a_profile_without_latencies_has_no_picture() {
        assert_eq!(latency_heat_map(&crate::synthetic::empty(), &Selection::default()), LatencyHeatMap::default());
    }
}
