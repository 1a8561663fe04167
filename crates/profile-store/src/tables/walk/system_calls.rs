use transect_profile_model::{Profile, WalkSystemCall};

use super::super::{id, int32, int64, text};
use super::{group, pid};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.walk.system_calls.as_slice();
    vec![
        id("group_id", rows, |s| s.group),
        int32("pid", rows, |s| pid(profile, s.group)),
        text("thread_group", rows, |s| &group(profile, s.group).thread_group),
        text("name", rows, |s| &s.name),
        int64("calls", rows, |s| s.calls),
        int64("on_ns", rows, |s| s.on_ns),
        int64("runnable_ns", rows, |s| s.runnable_ns),
        int64("blocked_ns", rows, |s| s.blocked_ns),
    ]
}

pub(crate) fn read(table: &TableReader, groups: usize) -> Result<Vec<WalkSystemCall>, StoreError> {
    let mut group = table.ids("group_id", groups)?.into_iter();
    let mut name = table.text("name")?.into_iter();
    let mut calls = table.int64("calls")?.into_iter();
    let mut on_ns = table.int64("on_ns")?.into_iter();
    let mut runnable_ns = table.int64("runnable_ns")?.into_iter();
    let mut blocked_ns = table.int64("blocked_ns")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(WalkSystemCall {
            group: group.next()?,
            name: name.next()?,
            calls: calls.next()?,
            on_ns: on_ns.next()?,
            runnable_ns: runnable_ns.next()?,
            blocked_ns: blocked_ns.next()?,
        })
    })
    .collect())
}
