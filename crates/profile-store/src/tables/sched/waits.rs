use std::collections::HashSet;
use std::sync::Arc;

use transect_profile_model::{OtherThread, Profile, SchedWait, StackId, WaitKind};

use super::super::{id, int32, int64, optional_int64, series, text};
use super::stack_addresses::{Relocation, StackNumbers};
use super::{leaf, pid, task};
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// Columns of a block of the table that begins with row `first`.
pub(crate) fn columns<'a>(
    profile: &'a Profile,
    rows: &'a [SchedWait],
    first: usize,
    numbers: &StackNumbers,
) -> Vec<Column<'a>> {
    let ids = (first..first + rows.len()).map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect();
    let name = |party: Option<OtherThread>| party.map_or("", |party| &task(profile, party.task).name);
    let row = |stack: Option<StackId>| stack.map(|stack| i64::from(numbers.row(stack)));
    let stack = |party: Option<OtherThread>| party.and_then(|party| party.stack);
    vec![
        Column { name: "id", values: Values::OwnIds(ids) },
        id("task_id", rows, |w| w.task),
        int32("pid", rows, |w| pid(profile, w.task)),
        int32("tid", rows, |w| task(profile, w.task).tid),
        text("thread", rows, |w| &task(profile, w.task).name),
        text("thread_group", rows, |w| &task(profile, w.task).group),
        text("kind", rows, |w| w.kind.as_str()),
        text("object", rows, |w| &w.object),
        optional_int64("stack_id", rows, |w| row(w.stack)),
        optional_int64("located_id", rows, |w| numbers.located(w.stack)),
        text("function", rows, |w| leaf(profile, w.stack)),
        optional_int64("holder_id", rows, |w| w.holder.map(|party| party.task.into())),
        text("holder", rows, |w| name(w.holder)),
        optional_int64("holder_stack_id", rows, |w| row(stack(w.holder))),
        optional_int64("holder_located_id", rows, |w| numbers.located(stack(w.holder))),
        optional_int64("waker_id", rows, |w| w.waker.map(|party| party.task.into())),
        text("waker", rows, |w| name(w.waker)),
        optional_int64("waker_stack_id", rows, |w| row(stack(w.waker))),
        optional_int64("waker_located_id", rows, |w| numbers.located(stack(w.waker))),
        int64("count", rows, |w| w.count),
        series("begin_ns", rows, |w| w.begin_ns),
        series("end_ns", rows, |w| w.end_ns),
        series("ns", rows, |w| w.ns),
        series("idle_ns", rows, |w| w.idle_ns),
        series("holder_gain_ns", rows, |w| w.holder_gain_ns),
    ]
}

/// First row that points to a row which does not exist.
pub(crate) fn dangling(profile: &Profile, rows: &[SchedWait]) -> Option<usize> {
    let task = |id: u32| (id as usize) < profile.sched.tasks.len();
    let stack = |id: Option<u32>| id.is_none_or(|id| (id as usize) < profile.sched.stacks.len());
    let party = |party: Option<OtherThread>| party.is_none_or(|party| task(party.task) && stack(party.stack));
    rows.iter().position(|w| !(task(w.task) && stack(w.stack) && party(w.holder) && party(w.waker)))
}

pub(crate) fn read(table: &TableReader, tasks: usize, stacks: usize) -> Result<Vec<SchedWait>, StoreError> {
    let mut waits = Vec::with_capacity(table.rows());
    let mut objects = Shared::default();
    // Block by block: all columns of a long table take more than its rows.
    for block in table.blocks() {
        read_block(&block, tasks, stacks, &mut objects, &mut waits)?;
    }
    Ok(waits)
}

/// Has the stacks of waits be those that had addresses.
pub(crate) fn relocate(
    waits: &mut [SchedWait],
    table: &TableReader,
    relocation: &mut Relocation<'_>,
) -> Result<(), StoreError> {
    fn stack(party: &mut Option<OtherThread>) -> Option<&mut StackId> {
        party.as_mut().and_then(|party| party.stack.as_mut())
    }
    relocation.apply(waits.iter_mut().map(|w| w.stack.as_mut()), table, "located_id")?;
    relocation.apply(waits.iter_mut().map(|w| stack(&mut w.holder)), table, "holder_located_id")?;
    relocation.apply(waits.iter_mut().map(|w| stack(&mut w.waker)), table, "waker_located_id")
}

/// Texts that occur again and again, each kept once.
#[derive(Default)]
struct Shared(HashSet<Arc<str>>);

impl Shared {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

fn read_block(
    table: &TableReader,
    tasks: usize,
    stacks: usize,
    objects: &mut Shared,
    waits: &mut Vec<SchedWait>,
) -> Result<(), StoreError> {
    let parties = |task: &str, stack: &str| -> Result<Vec<Option<OtherThread>>, StoreError> {
        let stack = table.optional_ids(stack, stacks)?;
        let task = table.optional_ids(task, tasks)?.into_iter();
        Ok(task.zip(stack).map(|(task, stack)| task.map(|task| OtherThread { task, stack })).collect())
    };
    let mut task = table.ids("task_id", tasks)?.into_iter();
    let mut kind = table.words("kind", WaitKind::parse)?.into_iter();
    let mut object = table.each_text("object", |text| objects.text(text))?.into_iter();
    let mut stack = table.optional_ids("stack_id", stacks)?.into_iter();
    let mut holder = parties("holder_id", "holder_stack_id")?.into_iter();
    let mut waker = parties("waker_id", "waker_stack_id")?.into_iter();
    let mut count = table.int64("count")?.into_iter();
    let mut begin_ns = table.int64("begin_ns")?.into_iter();
    let mut end_ns = table.int64("end_ns")?.into_iter();
    let mut ns = table.int64("ns")?.into_iter();
    let mut idle_ns = table.int64("idle_ns")?.into_iter();
    let mut holder_gain_ns = table.int64("holder_gain_ns")?.into_iter();
    waits.extend(std::iter::from_fn(|| {
        Some(SchedWait {
            task: task.next()?,
            kind: kind.next()?,
            object: object.next()?,
            stack: stack.next()?,
            holder: holder.next()?,
            waker: waker.next()?,
            count: count.next()?,
            begin_ns: begin_ns.next()?,
            end_ns: end_ns.next()?,
            ns: ns.next()?,
            idle_ns: idle_ns.next()?,
            holder_gain_ns: holder_gain_ns.next()?,
        })
    }));
    Ok(())
}
