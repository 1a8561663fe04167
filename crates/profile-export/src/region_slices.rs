//! When regions ran, for formats that show time.

use serde_json::{Value, json};
use transect_profile_model::{FeatureRegion, Profile, RegionSlice, Thread};

use crate::chrome::microseconds;
use crate::region_stacks::{features, text};

/// A span in a region.
pub(crate) struct RegionSpan<'a> {
    pub thread_id: u32,
    pub thread: &'a Thread,
    pub region: &'a FeatureRegion,
    pub region_id: u32,
    pub start_ns: i64,
    pub end_ns: i64,
}

/// All spans in regions by thread and start; of those that start together, the longer one first: it is around the others.
pub(crate) fn region_spans(profile: &Profile) -> Vec<RegionSpan<'_>> {
    let tables = &profile.feature;
    let span = |slice: &RegionSlice| {
        let node = tables.nodes.get(slice.node as usize)?;
        let region_id = node.region?;
        Some(RegionSpan {
            thread_id: node.thread,
            thread: profile.threads.get(node.thread as usize)?,
            region: tables.regions.get(region_id as usize)?,
            region_id,
            start_ns: slice.start_ns,
            end_ns: slice.start_ns.saturating_add(slice.duration_ns.max(0)),
        })
    };
    // Nodes come after their parents: among equals, the outer one is first.
    let mut rows: Vec<(u32, RegionSpan<'_>)> = tables.slices.iter().filter_map(|s| Some((s.node, span(s)?))).collect();
    rows.sort_by_key(|(node, span)| (span.thread_id, span.start_ns, std::cmp::Reverse(span.end_ns), *node));
    rows.into_iter().map(|(_, span)| span).collect()
}

/// Complete events, one a span.
pub(crate) fn events(profile: &Profile) -> impl Iterator<Item = Value> + '_ {
    region_spans(profile).into_iter().filter_map(|span| {
        let pid = profile.processes.get(span.thread.process as usize)?.pid;
        let RegionSpan { region, .. } = span;
        Some(json!({
            "ph": "X", "cat": "feature", "name": text(&profile.feature, region), "pid": pid, "tid": span.thread.tid,
            "ts": microseconds(span.start_ns), "dur": microseconds(span.end_ns - span.start_ns),
            "args": {
                "features": features(&profile.feature, region), "function": region.function, "kind": region.kind.as_str(),
                "file": region.file, "line": region.line,
            },
        }))
    })
}
