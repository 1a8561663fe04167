use std::cmp::Reverse;

use serde::Serialize;
use transect_profile_model::Profile;

/// Slices beyond this many are left out of a page, the shortest first.
const MOST_SLICES: usize = 200_000;

/// When regions ran, thread by thread, for a page: columns of one entry per slice, by thread, then start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegionTimeline {
    /// Threads that were in regions, in the order of the profile.
    pub threads: Vec<TimelineThread>,
    /// Place of the slice's thread in `threads`.
    pub thread: Vec<u32>,
    /// Regions around it.
    pub depth: Vec<u32>,
    /// The region, as [`RegionRow::id`](super::RegionRow::id).
    pub region: Vec<u32>,
    /// Since the recording's start, ns.
    pub start_ns: Vec<i64>,
    /// Nested regions included, ns.
    pub duration_ns: Vec<i64>,
    /// Slices left out.
    pub left_out: usize,
}

/// A thread of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineThread {
    /// Name.
    pub name: String,
    /// Thread id.
    pub tid: i32,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
}

/// The slices of regions; empty without them.
pub fn region_timeline(profile: &Profile) -> RegionTimeline {
    let tables = &profile.feature;
    let mut depths: Vec<u32> = Vec::with_capacity(tables.nodes.len());
    for node in &tables.nodes {
        depths.push(node.parent.map_or(0, |parent| depths[parent as usize] + 1));
    }
    let mut order: Vec<usize> = (0..tables.slices.len()).collect();
    let left_out = order.len().saturating_sub(MOST_SLICES);
    if left_out > 0 {
        order.sort_by_key(|&at| Reverse(tables.slices[at].duration_ns));
        order.truncate(MOST_SLICES);
    }
    let thread_of = |at: usize| tables.nodes[tables.slices[at].node as usize].thread;
    let depth_of = |at: usize| depths[tables.slices[at].node as usize];
    order.sort_by_key(|&at| (thread_of(at), tables.slices[at].start_ns, depth_of(at)));
    let mut timeline = RegionTimeline { left_out, ..RegionTimeline::default() };
    let mut last = None;
    for at in order {
        let slice = &tables.slices[at];
        let Some(region) = tables.nodes[slice.node as usize].region else { continue };
        if last != Some(thread_of(at)) {
            last = Some(thread_of(at));
            let thread = &profile.threads[thread_of(at) as usize];
            timeline.threads.push(TimelineThread {
                name: thread.name.clone(),
                tid: thread.tid,
                start_ns: thread.start_ns,
                end_ns: thread.start_ns.saturating_add(thread.wall_ns),
            });
        }
        timeline.thread.push(timeline.threads.len() as u32 - 1);
        timeline.depth.push(depth_of(at).saturating_sub(1));
        timeline.region.push(region);
        timeline.start_ns.push(slice.start_ns);
        timeline.duration_ns.push(slice.duration_ns);
    }
    timeline
}
