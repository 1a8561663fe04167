//! Latencies as counters over time, for readers of Chrome traces: median and 99th percentile of each slice.

use serde_json::{Value, json};
use transect_analyze::{HeatMapFunction, LatencyHeatMap, LatencyRow, Selection, latency, latency_heat_map};
use transect_profile_model::Profile;

/// Functions that get a track: more than a reader would scroll through.
const TRACKS: usize = 50;

/// Counter events of the functions that take the most time, process by process.
pub(crate) fn events(profile: &Profile) -> Vec<Value> {
    if profile.latency_slices.is_empty() {
        return Vec::new();
    }
    let mut selection = Selection { top: Some(TRACKS), ..Selection::default() };
    selection.by.process = true;
    let heat = latency_heat_map(profile, &selection);
    let rows = latency(profile, &selection);
    rows.iter().zip(&heat.functions).flat_map(|(row, function)| counters(row, function, &heat)).collect()
}

fn counters(row: &LatencyRow, function: &HeatMapFunction, heat: &LatencyHeatMap) -> Vec<Value> {
    let cells: Vec<[u32; 3]> = function.cells.chunks_exact(3).map(|cell| [cell[0], cell[1], cell[2]]).collect();
    let pid = row.process.unwrap_or(0);
    let [p50, p99] = if row.metric.is_time() { ["p50 ns", "p99 ns"] } else { ["p50", "p99"] };
    let counter = |slice: &[[u32; 3]]| {
        let start_ns = *heat.starts_ns.get(slice[0][0] as usize)?;
        Some(json!({
            "ph": "C", "cat": "latency", "name": format!("{} ({})", row.function, row.component), "pid": pid,
            "tid": pid, "ts": super::chrome::microseconds(start_ns),
            "args": { p50: quantile(slice, heat, 0.50), p99: quantile(slice, heat, 0.99) },
        }))
    };
    cells.chunk_by(|a, b| a[0] == b[0]).filter_map(counter).collect()
}

/// The middle of the bucket that holds the sample of this rank.
fn quantile(slice: &[[u32; 3]], heat: &LatencyHeatMap, share: f64) -> i64 {
    let samples: u64 = slice.iter().map(|cell| u64::from(cell[2])).sum();
    let rank = (share * samples as f64).ceil() as u64;
    let mut through = 0;
    for cell in slice {
        through += u64::from(cell[2]);
        if through >= rank {
            return heat.buckets.get(cell[1] as usize).map_or(0, |&(low, high)| low.midpoint(high));
        }
    }
    0
}
