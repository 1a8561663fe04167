//! How much of each bin of time a thread ran, was runnable, and what it mostly waited for.

use transect_profile_model::{SchedTables, WaitKind};

use super::Grid;
use super::lanes::{ByLane, Lanes};

/// Three planes a lane, one byte a bin: running, runnable (of 255), kind + 1.
pub(super) fn cells(grid: Grid, tables: &SchedTables, lanes: &Lanes, by_lane: &ByLane) -> Vec<u8> {
    let waits = lanes.waits(tables);
    let mut bytes = Vec::with_capacity(lanes.tasks.len() * grid.bins * 3);
    let mut active = vec![0.0_f64; grid.bins];
    let mut runnable = vec![0.0_f64; grid.bins];
    let mut kinds = vec![[0.0_f32; WaitKind::ALL.len()]; grid.bins];
    let bin_ns = grid.bin_ns();
    let byte = |ns: f64| {
        let share = (ns / bin_ns).clamp(0.0, 1.0) * 255.0;
        // Whatever there was shows.
        if ns > 0.0 { share.round().max(1.0) as u8 } else { 0 }
    };
    for lane in 0..lanes.tasks.len() {
        active.fill(0.0);
        runnable.fill(0.0);
        kinds.fill([0.0; WaitKind::ALL.len()]);
        for &row in by_lane.lane(lane) {
            let slice = &tables.slices[row as usize];
            let share = slice.runnable_ns as f64 / slice.active_ns.max(1) as f64;
            grid.spread(slice.start_ns, slice.start_ns.saturating_add(slice.active_ns), |bin, ns| {
                active[bin] += ns;
                runnable[bin] += ns * share;
            });
        }
        for &row in waits.lane(lane) {
            let wait = &tables.waits[row as usize];
            // Many waits in one row are spread over its time.
            let density = (wait.ns as f64 / (wait.end_ns - wait.begin_ns).max(1) as f64).clamp(0.0, 1.0) as f32;
            let kind = wait.kind as usize;
            grid.spread(wait.begin_ns, wait.end_ns, |bin, ns| kinds[bin][kind] += ns as f32 * density);
        }
        bytes.extend(active.iter().zip(&runnable).map(|(active, runnable)| byte((active - runnable).max(0.0))));
        bytes.extend(runnable.iter().map(|&ns| byte(ns)));
        bytes.extend(kinds.iter().map(|of| {
            let longest = of.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            longest.filter(|(_, ns)| **ns > 0.0).map_or(0, |(kind, _)| kind as u8 + 1)
        }));
    }
    bytes
}
