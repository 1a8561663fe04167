use transect_profile_model::{Profile, Task};

use super::super::{id, int32, int64, optional_int64, own_id, process, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.sched.tasks.as_slice();
    vec![
        own_id(rows),
        optional_int64("parent_id", rows, |t| t.parent.map(i64::from)),
        id("process_id", rows, |t| t.process),
        int32("pid", rows, |t| process(profile, t.process).pid),
        int32("tid", rows, |t| t.tid),
        text("name", rows, |t| &t.name),
        text("thread_group", rows, |t| &t.group),
        int64("start_ns", rows, |t| t.start_ns),
        int64("end_ns", rows, |t| t.end_ns),
        int64("criticality_ns", rows, |t| t.criticality_ns),
        int64("running_ns", rows, |t| t.running_ns),
        int64("runnable_ns", rows, |t| t.runnable_ns),
        int64("blocked_ns", rows, |t| t.blocked_ns),
        int64("unattributed_ns", rows, |t| t.unattributed_ns),
        text("allowed_cpus", rows, |t| &t.allowed_cpus),
        int32("nice", rows, |t| t.nice),
    ]
}

pub(crate) fn read(table: &TableReader, processes: usize) -> Result<Vec<Task>, StoreError> {
    let mut parent = table.optional_ids("parent_id", table.rows())?.into_iter();
    let mut process = table.ids("process_id", processes)?.into_iter();
    let mut tid = table.int32("tid")?.into_iter();
    let mut name = table.text("name")?.into_iter();
    let mut group = table.text("thread_group")?.into_iter();
    let mut start_ns = table.int64("start_ns")?.into_iter();
    let mut end_ns = table.int64("end_ns")?.into_iter();
    let mut criticality_ns = table.int64("criticality_ns")?.into_iter();
    let mut running_ns = table.int64("running_ns")?.into_iter();
    let mut runnable_ns = table.int64("runnable_ns")?.into_iter();
    let mut blocked_ns = table.int64("blocked_ns")?.into_iter();
    let mut unattributed_ns = table.int64("unattributed_ns")?.into_iter();
    // Not in older profiles.
    let placed = table.has("allowed_cpus") && table.has("nice");
    let mut allowed_cpus = if placed { table.text("allowed_cpus")? } else { Vec::new() }.into_iter();
    let mut nice = if placed { table.int32("nice")? } else { Vec::new() }.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Task {
            process: process.next()?,
            parent: parent.next()?,
            tid: tid.next()?,
            name: name.next()?,
            group: group.next()?,
            start_ns: start_ns.next()?,
            end_ns: end_ns.next()?,
            criticality_ns: criticality_ns.next()?,
            running_ns: running_ns.next()?,
            runnable_ns: runnable_ns.next()?,
            blocked_ns: blocked_ns.next()?,
            unattributed_ns: unattributed_ns.next()?,
            allowed_cpus: allowed_cpus.next().unwrap_or_default(),
            nice: nice.next().unwrap_or_default(),
        })
    })
    .collect())
}
