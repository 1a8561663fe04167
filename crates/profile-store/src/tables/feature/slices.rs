use transect_profile_model::{Profile, RegionNode, RegionSlice};

use super::super::{id, int32, int64, series, text, thread};
use super::function;
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.feature.slices.as_slice();
    let node = |slice: &RegionSlice| -> &RegionNode { &profile.feature.nodes[slice.node as usize] };
    vec![
        id("node_id", rows, |s| s.node),
        text("function", rows, |s| function(profile, node(s).region)),
        int32("tid", rows, |s| thread(profile, node(s).thread).tid),
        series("start_ns", rows, |s| s.start_ns),
        int64("duration_ns", rows, |s| s.duration_ns),
    ]
}

pub(crate) fn read(table: &TableReader, nodes: usize) -> Result<Vec<RegionSlice>, StoreError> {
    let mut node = table.ids("node_id", nodes)?.into_iter();
    let mut start_ns = table.int64("start_ns")?.into_iter();
    let mut duration_ns = table.int64("duration_ns")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(RegionSlice { node: node.next()?, start_ns: start_ns.next()?, duration_ns: duration_ns.next()? })
    })
    .collect())
}
