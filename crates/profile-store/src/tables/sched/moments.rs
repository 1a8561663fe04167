use transect_profile_model::{Profile, TimedSample};

use super::super::{id, int32, int64, optional_int64, series, text};
use super::stack_addresses::StackNumbers;
use super::{leaf, pid, task};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns<'a>(profile: &'a Profile, numbers: &StackNumbers) -> Vec<Column<'a>> {
    let rows = profile.sched.moments.as_slice();
    vec![
        series("time_ns", rows, |m| m.time_ns),
        id("task_id", rows, |m| m.task),
        int32("pid", rows, |m| pid(profile, m.task)),
        int32("tid", rows, |m| task(profile, m.task).tid),
        id("stack_id", rows, |m| numbers.row(m.stack)),
        optional_int64("located_id", rows, |m| numbers.located(Some(m.stack))),
        text("function", rows, |m| leaf(profile, Some(m.stack))),
        int64("period_ns", rows, |m| m.period_ns),
    ]
}

pub(crate) fn read(table: &TableReader, tasks: usize, stacks: usize) -> Result<Vec<TimedSample>, StoreError> {
    let whose = table.ids("task_id", tasks)?.into_iter().zip(table.ids("stack_id", stacks)?);
    let times = table.int64("time_ns")?.into_iter();
    // Profiles of earlier builds lack it: all samples stand for as much.
    let periods = if table.has("period_ns") { table.int64("period_ns")? } else { vec![1; times.len()] };
    let rows = times.zip(whose).zip(periods);
    Ok(rows.map(|((time_ns, (task, stack)), period_ns)| TimedSample { time_ns, task, stack, period_ns }).collect())
}
