use transect_profile_model::{Origin, Profile, SchedSample};

use super::super::{boolean, id, int32, int64, optional_int64, text};
use super::stack_addresses::StackNumbers;
use super::{leaf, pid, task};
use crate::StoreError;
use crate::column::{Column, TableReader};

const SAMPLE: &str = "sample";
const STACK_TOP: &str = "stack-top";

pub(crate) fn columns<'a>(profile: &'a Profile, numbers: &StackNumbers) -> Vec<Column<'a>> {
    let rows = profile.sched.samples.as_slice();
    vec![
        id("task_id", rows, |s| s.task),
        int32("pid", rows, |s| pid(profile, s.task)),
        int32("tid", rows, |s| task(profile, s.task).tid),
        text("thread", rows, |s| &task(profile, s.task).name),
        text("thread_group", rows, |s| &task(profile, s.task).group),
        id("stack_id", rows, |s| numbers.row(s.stack)),
        optional_int64("located_id", rows, |s| numbers.located(Some(s.stack))),
        text("function", rows, |s| leaf(profile, Some(s.stack))),
        int32("n", rows, |s| s.n),
        text("origin", rows, |s| match s.origin {
            Origin::Sample => SAMPLE,
            Origin::StackTop => STACK_TOP,
        }),
        int64("samples", rows, |s| s.samples),
        int64("criticality_ns", rows, |s| s.criticality_ns),
        int64("active_ns", rows, |s| s.active_ns),
        boolean("spin", rows, |s| s.spin),
    ]
}

pub(crate) fn read(table: &TableReader, tasks: usize, stacks: usize) -> Result<Vec<SchedSample>, StoreError> {
    let parse = |word: &str| match word {
        SAMPLE => Some(Origin::Sample),
        STACK_TOP => Some(Origin::StackTop),
        _ => None,
    };
    let mut task = table.ids("task_id", tasks)?.into_iter();
    let mut stack = table.ids("stack_id", stacks)?.into_iter();
    let mut n = table.int32("n")?.into_iter();
    let mut origin = table.words("origin", parse)?.into_iter();
    let mut samples = table.int64("samples")?.into_iter();
    let mut criticality_ns = table.int64("criticality_ns")?.into_iter();
    let mut active_ns = table.int64("active_ns")?.into_iter();
    let mut spin = table.boolean("spin")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(SchedSample {
            task: task.next()?,
            stack: stack.next()?,
            n: n.next()?,
            origin: origin.next()?,
            samples: samples.next()?,
            criticality_ns: criticality_ns.next()?,
            active_ns: active_ns.next()?,
            spin: spin.next()?,
        })
    })
    .collect())
}
