use transect_profile_model::{Dependence, FeatureId, Profile, RegionMethod, RegionNode};

use super::super::{id, int32, int64, optional_int64, own_id, process, text, thread};
use super::{function, misplaced, set};
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// Features of all regions on each node's stack. Nodes come after their parents.
fn active_sets(profile: &Profile) -> Vec<Vec<FeatureId>> {
    let mut sets: Vec<Vec<FeatureId>> = Vec::with_capacity(profile.feature.nodes.len());
    for node in &profile.feature.nodes {
        let mut active = node.parent.map(|parent| sets[parent as usize].clone()).unwrap_or_default();
        let region = node.region.map(|id| &profile.feature.regions[id as usize]);
        active.extend(region.into_iter().flat_map(|region| region.features_at(Dependence::default())));
        active.sort_unstable();
        active.dedup();
        sets.push(active);
    }
    sets
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.feature.nodes.as_slice();
    let active = active_sets(profile).iter().map(|active| set(profile, active)).collect();
    vec![
        own_id(rows),
        optional_int64("parent_id", rows, |n| n.parent.map(i64::from)),
        optional_int64("region_id", rows, |n| n.region.map(i64::from)),
        text("function", rows, |n| function(profile, n.region)),
        Column { name: "active", values: Values::OwnedText(active) },
        id("thread_id", rows, |n| n.thread),
        int32("pid", rows, |n| process(profile, thread(profile, n.thread).process).pid),
        int32("tid", rows, |n| thread(profile, n.thread).tid),
        text("thread", rows, |n| &thread(profile, n.thread).name),
        text("method", rows, |n| n.method.as_str()),
        optional_int64("entries", rows, |n| n.entries),
        int64("exclusive_ns", rows, |n| n.exclusive_ns),
        int64("exclusive_ns_low", rows, |n| n.exclusive_ns_low),
        int64("exclusive_ns_high", rows, |n| n.exclusive_ns_high),
        optional_int64("cpu_ns", rows, |n| n.cpu_ns),
        int64("samples", rows, |n| n.samples),
    ]
}

pub(crate) fn read(table: &TableReader, regions: usize, threads: usize) -> Result<Vec<RegionNode>, StoreError> {
    let mut parent = table.optional_ids("parent_id", table.rows())?.into_iter();
    let mut region = table.optional_ids("region_id", regions)?.into_iter();
    let mut thread = table.ids("thread_id", threads)?.into_iter();
    let mut method = table.words("method", RegionMethod::parse)?.into_iter();
    let mut entries = table.optional_int64("entries")?.into_iter();
    let mut exclusive_ns = table.int64("exclusive_ns")?.into_iter();
    let mut exclusive_ns_low = table.int64("exclusive_ns_low")?.into_iter();
    let mut exclusive_ns_high = table.int64("exclusive_ns_high")?.into_iter();
    let mut cpu_ns = table.optional_int64("cpu_ns")?.into_iter();
    let mut samples = table.int64("samples")?.into_iter();
    let nodes: Vec<RegionNode> = std::iter::from_fn(|| {
        Some(RegionNode {
            parent: parent.next()?,
            region: region.next()?,
            thread: thread.next()?,
            method: method.next()?,
            entries: entries.next()?,
            exclusive_ns: exclusive_ns.next()?,
            exclusive_ns_low: exclusive_ns_low.next()?,
            exclusive_ns_high: exclusive_ns_high.next()?,
            cpu_ns: cpu_ns.next()?,
            samples: samples.next()?,
        })
    })
    .collect();
    // Whoever walks the tree relies on it: a node that is its own ancestor would never end.
    match (0..nodes.len()).find_map(|row| Some((row, misplaced(&nodes, row)?))) {
        Some((row, why)) => Err(table.bad_row(row, why)),
        None => Ok(nodes),
    }
}
