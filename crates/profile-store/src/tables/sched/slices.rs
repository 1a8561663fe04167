use parquet::file::reader::ChunkReader;
use transect_profile_model::{Profile, Slice};

use super::super::{id, int32, series};
use super::{pid, task};
use crate::StoreError;
use crate::column::{Column, TableReader};

/// Columns of a block of the table.
pub(crate) fn columns<'a>(profile: &Profile, rows: &[Slice]) -> Vec<Column<'a>> {
    vec![
        id("task_id", rows, |s| s.task),
        int32("pid", rows, |s| pid(profile, s.task)),
        int32("tid", rows, |s| task(profile, s.task).tid),
        series("start_ns", rows, |s| s.start_ns),
        series("active_ns", rows, |s| s.active_ns),
        series("runnable_ns", rows, |s| s.runnable_ns),
        series("criticality_ns", rows, |s| s.criticality_ns),
        series("wait_id", rows, |s| s.wait.into()),
    ]
}

/// First row that points to a row which does not exist.
pub(crate) fn dangling(profile: &Profile, rows: &[Slice], waits: usize) -> Option<usize> {
    let wait = |id: i32| id == -1 || usize::try_from(id).is_ok_and(|id| id < waits);
    rows.iter().position(|s| !(wait(s.wait) && (s.task as usize) < profile.sched.tasks.len()))
}

pub(crate) fn read<F: ChunkReader + 'static>(
    table: &TableReader<F>,
    tasks: usize,
    waits: usize,
) -> Result<Vec<Slice>, StoreError> {
    let number = |(row, id): (usize, i64)| {
        let wait = i32::try_from(id).ok().filter(|&id| id == -1 || usize::try_from(id).is_ok_and(|id| id < waits));
        wait.ok_or_else(|| table.bad_row(row, format!("wait_id {id} does not exist")))
    };
    let mut task = table.ids("task_id", tasks)?.into_iter();
    let mut start_ns = table.int64("start_ns")?.into_iter();
    let mut active_ns = table.int64("active_ns")?.into_iter();
    let mut runnable_ns = table.int64("runnable_ns")?.into_iter();
    let mut criticality_ns = table.int64("criticality_ns")?.into_iter();
    let waits: Result<Vec<i32>, StoreError> = table.int64("wait_id")?.into_iter().enumerate().map(number).collect();
    let mut wait = waits?.into_iter();
    let mut slices = Vec::with_capacity(table.rows());
    slices.extend(std::iter::from_fn(|| {
        Some(Slice {
            task: task.next()?,
            start_ns: start_ns.next()?,
            active_ns: active_ns.next()?,
            runnable_ns: runnable_ns.next()?,
            criticality_ns: criticality_ns.next()?,
            wait: wait.next()?,
        })
    }));
    Ok(slices)
}
