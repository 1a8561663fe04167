use transect_profile_model::{Profile, WalkNode};

use super::super::sched::frames::{parse_space, space_word};
use super::super::{boolean, component, file_name, id, int32, int64, optional_int64, own_id, text};
use super::{group, misplaced, pid};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.walk.nodes.as_slice();
    vec![
        own_id(rows),
        id("group_id", rows, |n| n.group),
        int32("pid", rows, |n| pid(profile, n.group)),
        text("thread_group", rows, |n| &group(profile, n.group).thread_group),
        optional_int64("parent_id", rows, |n| n.parent.map(i64::from)),
        text("function", rows, |n| &n.function),
        optional_int64("component_id", rows, |n| n.component.map(i64::from)),
        text("component", rows, |n| n.component.map_or("", |id| file_name(&component(profile, id).path))),
        text("space", rows, |n| space_word(n.space)),
        boolean("inlined", rows, |n| n.inlined),
        text("file", rows, |n| &n.file),
        int32("line", rows, |n| n.line),
        optional_int64("address", rows, |n| n.address),
        int64("total", rows, |n| n.total),
        int64("on_ns", rows, |n| n.on_ns),
        int64("runnable_ns", rows, |n| n.runnable_ns),
        int64("blocked_ns", rows, |n| n.blocked_ns),
        int64("samples", rows, |n| n.samples),
    ]
}

pub(crate) fn read(table: &TableReader, groups: usize, components: usize) -> Result<Vec<WalkNode>, StoreError> {
    let mut group = table.ids("group_id", groups)?.into_iter();
    let mut parent = table.optional_ids("parent_id", table.rows())?.into_iter();
    let mut function = table.text("function")?.into_iter();
    let mut component = table.optional_ids("component_id", components)?.into_iter();
    let mut space = table.words("space", parse_space)?.into_iter();
    let mut inlined = table.boolean("inlined")?.into_iter();
    let mut file = table.text("file")?.into_iter();
    let mut line = table.int32("line")?.into_iter();
    // Profiles of earlier versions lack it.
    let addresses = if table.has("address") { table.optional_int64("address")? } else { vec![None; table.rows()] };
    let mut address = addresses.into_iter();
    let mut total = table.int64("total")?.into_iter();
    let mut on_ns = table.int64("on_ns")?.into_iter();
    let mut runnable_ns = table.int64("runnable_ns")?.into_iter();
    let mut blocked_ns = table.int64("blocked_ns")?.into_iter();
    let mut samples = table.int64("samples")?.into_iter();
    let nodes: Vec<WalkNode> = std::iter::from_fn(|| {
        Some(WalkNode {
            group: group.next()?,
            parent: parent.next()?,
            function: function.next()?,
            component: component.next()?,
            space: space.next()?,
            inlined: inlined.next()?,
            file: file.next()?,
            line: line.next()?,
            address: address.next()?,
            total: total.next()?,
            on_ns: on_ns.next()?,
            runnable_ns: runnable_ns.next()?,
            blocked_ns: blocked_ns.next()?,
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
