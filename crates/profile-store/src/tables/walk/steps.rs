use transect_profile_model::{Profile, ShareMethod, WalkStep};

use super::super::{boolean, double, id, int32, int64, text};
use super::{function, group, pid};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.walk.steps.as_slice();
    vec![
        int64("time_ns", rows, |s| s.time_ns),
        id("group_id", rows, |s| s.group),
        int32("pid", rows, |s| pid(profile, s.group)),
        text("thread_group", rows, |s| &group(profile, s.group).thread_group),
        id("parent_id", rows, |s| s.parent),
        text("parent", rows, |s| function(profile, s.parent)),
        id("node_id", rows, |s| s.node),
        text("function", rows, |s| function(profile, s.node)),
        double("share", rows, |s| s.share),
        text("method", rows, |s| s.method.as_str()),
        boolean("followed", rows, |s| s.followed),
        text("note", rows, |s| &s.note),
    ]
}

pub(crate) fn read(table: &TableReader, groups: usize, nodes: usize) -> Result<Vec<WalkStep>, StoreError> {
    let mut time_ns = table.int64("time_ns")?.into_iter();
    let mut group = table.ids("group_id", groups)?.into_iter();
    let mut parent = table.ids("parent_id", nodes)?.into_iter();
    let mut node = table.ids("node_id", nodes)?.into_iter();
    let mut share = table.double("share")?.into_iter();
    let mut method = table.words("method", ShareMethod::parse)?.into_iter();
    let mut followed = table.boolean("followed")?.into_iter();
    let mut note = table.text("note")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(WalkStep {
            time_ns: time_ns.next()?,
            group: group.next()?,
            parent: parent.next()?,
            node: node.next()?,
            share: share.next()?,
            method: method.next()?,
            followed: followed.next()?,
            note: note.next()?,
        })
    })
    .collect())
}
