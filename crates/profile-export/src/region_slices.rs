//! When regions ran, for formats that show time.

use serde_json::{Value, json};
use transect_profile_model::{FeatureRegion, Profile, RegionSlice, Thread};

use crate::chrome::microseconds;
use crate::region_stacks::{features, text};

/// A stay in a region.
pub(crate) struct Stay<'a> {
    pub thread_id: u32,
    pub thread: &'a Thread,
    pub region: &'a FeatureRegion,
    pub region_id: u32,
    pub start_ns: i64,
    pub end_ns: i64,
}

/// All stays by thread and start; of those that start together, the longer one first: it is around the others.
pub(crate) fn stays(profile: &Profile) -> Vec<Stay<'_>> {
    let tables = &profile.feature;
    let stay = |slice: &RegionSlice| {
        let node = tables.nodes.get(slice.node as usize)?;
        let region_id = node.region?;
        Some(Stay {
            thread_id: node.thread,
            thread: profile.threads.get(node.thread as usize)?,
            region: tables.regions.get(region_id as usize)?,
            region_id,
            start_ns: slice.start_ns,
            end_ns: slice.start_ns.saturating_add(slice.duration_ns.max(0)),
        })
    };
    // Nodes come after their parents: among equals, the outer one is first.
    let mut rows: Vec<(u32, Stay<'_>)> = tables.slices.iter().filter_map(|s| Some((s.node, stay(s)?))).collect();
    rows.sort_by_key(|(node, stay)| (stay.thread_id, stay.start_ns, std::cmp::Reverse(stay.end_ns), *node));
    rows.into_iter().map(|(_, stay)| stay).collect()
}

/// Complete events, one a stay.
pub(crate) fn events(profile: &Profile) -> impl Iterator<Item = Value> + '_ {
    stays(profile).into_iter().filter_map(|stay| {
        let pid = profile.processes.get(stay.thread.process as usize)?.pid;
        let Stay { region, .. } = stay;
        Some(json!({
            "ph": "X", "cat": "feature", "name": text(&profile.feature, region), "pid": pid, "tid": stay.thread.tid,
            "ts": microseconds(stay.start_ns), "dur": microseconds(stay.end_ns - stay.start_ns),
            "args": {
                "features": features(&profile.feature, region), "function": region.function, "kind": region.kind.as_str(),
                "file": region.file, "line": region.line,
            },
        }))
    })
}
