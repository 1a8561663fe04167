use transect_profile_model::{Profile, WalkGroup};

use super::super::{id, int32, int64, own_id, process, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.walk.groups.as_slice();
    vec![
        own_id(rows),
        id("process_id", rows, |g| g.process),
        int32("pid", rows, |g| process(profile, g.process).pid),
        text("thread_group", rows, |g| &g.thread_group),
        int64("threads", rows, |g| g.threads),
        int64("total", rows, |g| g.total),
        int64("on_ns", rows, |g| g.on_ns),
        int64("runnable_ns", rows, |g| g.runnable_ns),
        int64("blocked_ns", rows, |g| g.blocked_ns),
    ]
}

pub(crate) fn read(table: &TableReader, processes: usize) -> Result<Vec<WalkGroup>, StoreError> {
    let mut process = table.ids("process_id", processes)?.into_iter();
    let mut thread_group = table.text("thread_group")?.into_iter();
    let mut threads = table.int64("threads")?.into_iter();
    let mut total = table.int64("total")?.into_iter();
    let mut on_ns = table.int64("on_ns")?.into_iter();
    let mut runnable_ns = table.int64("runnable_ns")?.into_iter();
    let mut blocked_ns = table.int64("blocked_ns")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(WalkGroup {
            process: process.next()?,
            thread_group: thread_group.next()?,
            threads: threads.next()?,
            total: total.next()?,
            on_ns: on_ns.next()?,
            runnable_ns: runnable_ns.next()?,
            blocked_ns: blocked_ns.next()?,
        })
    })
    .collect())
}
