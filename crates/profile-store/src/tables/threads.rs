use transect_profile_model::{Profile, Thread};

use super::{id, int32, int64, own_id, process, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.threads.as_slice();
    vec![
        own_id(rows),
        id("process_id", rows, |t| t.process),
        int32("pid", rows, |t| process(profile, t.process).pid),
        int32("tid", rows, |t| t.tid),
        text("name", rows, |t| &t.name),
        text("thread_group", rows, |t| &t.group),
        text("start_routine", rows, |t| &t.start_routine),
        int64("start_ns", rows, |t| t.start_ns),
        int64("wall_ns", rows, |t| t.wall_ns),
        int64("busy_ns", rows, |t| t.busy_ns),
        int64("wait_ns", rows, |t| t.wait_ns),
        int64("calls", rows, |t| t.calls),
        int64("outermost_ns", rows, |t| t.outermost_ns),
        int64("outermost_attributed_ns", rows, |t| t.outermost_attributed_ns),
        int64("attributed_ns", rows, |t| t.attributed_ns),
    ]
}

pub(crate) fn read(table: &TableReader, processes: usize) -> Result<Vec<Thread>, StoreError> {
    let mut process = table.ids("process_id", processes)?.into_iter();
    let mut tid = table.int32("tid")?.into_iter();
    let mut name = table.text("name")?.into_iter();
    let mut group = table.text("thread_group")?.into_iter();
    let mut start_routine = table.text("start_routine")?.into_iter();
    let mut start_ns = table.int64("start_ns")?.into_iter();
    let mut wall_ns = table.int64("wall_ns")?.into_iter();
    let mut busy_ns = table.int64("busy_ns")?.into_iter();
    let mut wait_ns = table.int64("wait_ns")?.into_iter();
    let mut calls = table.int64("calls")?.into_iter();
    let mut outermost_ns = table.int64("outermost_ns")?.into_iter();
    let mut outermost_attributed_ns = table.int64("outermost_attributed_ns")?.into_iter();
    let mut attributed_ns = table.int64("attributed_ns")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Thread {
            process: process.next()?,
            tid: tid.next()?,
            name: name.next()?,
            group: group.next()?,
            start_routine: start_routine.next()?,
            start_ns: start_ns.next()?,
            wall_ns: wall_ns.next()?,
            busy_ns: busy_ns.next()?,
            wait_ns: wait_ns.next()?,
            calls: calls.next()?,
            outermost_ns: outermost_ns.next()?,
            outermost_attributed_ns: outermost_attributed_ns.next()?,
            attributed_ns: attributed_ns.next()?,
        })
    })
    .collect())
}
