use transect_profile_model::{CallStack, FrameId, Profile};

use super::super::{id, int32, text};
use super::stack_addresses::StackNumbers;
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// One frame of a stack; a stack without frames has one row without a frame.
struct Row {
    stack: u32,
    depth: i32,
    frame: Option<FrameId>,
    complete: bool,
    linked: bool,
}

pub(crate) fn columns<'a>(profile: &'a Profile, numbers: &StackNumbers) -> Vec<Column<'a>> {
    let frames = &profile.sched.frames;
    let mut rows = Vec::with_capacity(profile.sched.stacks.iter().map(|stack| stack.frames.len().max(1)).sum());
    for (stack, call_stack) in (0_u32..).zip(numbers.stacks(profile)) {
        let complete = call_stack.complete;
        if call_stack.frames.is_empty() {
            rows.push(Row { stack, depth: 0, frame: None, complete, linked: false });
        }
        let deeper = (0..).zip(&call_stack.frames);
        rows.extend(deeper.map(|(depth, &frame)| {
            let linked = call_stack.is_linked(depth as usize);
            Row { stack, depth, frame: Some(frame), complete, linked }
        }));
    }
    vec![
        id("stack_id", &rows, |r| r.stack),
        int32("depth", &rows, |r| r.depth),
        Column {
            name: "frame_id",
            values: Values::OptionalInt64(rows.iter().map(|r| r.frame.map(i64::from)).collect()),
        },
        text("function", &rows, |r| r.frame.map_or("", |frame| &frames[frame as usize].function)),
        Column { name: "complete", values: Values::Boolean(rows.iter().map(|r| r.complete).collect()) },
        Column { name: "linked", values: Values::Boolean(rows.iter().map(|r| r.linked).collect()) },
    ]
}

pub(crate) fn read(table: &TableReader, frames: usize) -> Result<Vec<CallStack>, StoreError> {
    let ids = table.ids("stack_id", usize::MAX)?;
    let depths = table.int32("depth")?;
    let frames = table.optional_ids("frame_id", frames)?;
    let complete = table.boolean("complete")?;
    // Profiles of earlier builds lack it.
    let linked = if table.has("linked") { table.boolean("linked")? } else { vec![false; complete.len()] };
    let mut stacks: Vec<CallStack> = Vec::new();
    for (row, id) in ids.into_iter().enumerate() {
        if id as usize == stacks.len() {
            stacks.push(CallStack { frames: Vec::new(), complete: complete[row], linked: 0 });
        }
        // Frames follow each other, stack by stack: anything else would end up in another stack than was meant.
        let last = stacks.len().wrapping_sub(1);
        let stack = stacks.last_mut().filter(|_| id as usize == last);
        let in_order = |stack: &&mut CallStack| usize::try_from(depths[row]) == Ok(stack.frames.len());
        let stack = stack.filter(in_order).ok_or_else(|| table.bad_row(row, "frames of stacks out of order"))?;
        if linked[row] && stack.frames.len() < 128 {
            stack.linked |= 1 << stack.frames.len();
        }
        stack.frames.extend(frames[row]);
    }
    Ok(stacks)
}
