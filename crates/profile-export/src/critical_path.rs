//! Critical paths as stacks: program, thread group, the functions of the stack, and what was waited for.
//!
//! Their weights are criticality: while threads are active, each gains the time divided by their number; while all
//! wait, the time goes to the wait that ends it. So weights add up to the time that the recording observed.

use transect_profile_model::{ApiClass, Profile, SchedTables, StackId, TaskId, WaitKind};

use crate::stack::{Frame, Stack, file_name};

/// One stack for each sampled (thread, stack), each wait that ended a time in which all waited, and the rest of each
/// thread.
pub(crate) fn stacks(profile: &Profile) -> Vec<Stack<'_>> {
    let tables = &profile.sched;
    let running = tables.samples.iter().map(|sample| Stack {
        thread: sample.task,
        frames: frames(profile, sample.task, Some(sample.stack), None),
        calls: sample.samples,
        total_ns: sample.active_ns,
        self_ns: sample.criticality_ns,
        attributed_ns: 0,
        class: ApiClass::Compute,
        wait: None,
    });
    let waiting = tables.waits.iter().filter(|wait| wait.idle_ns > 0).map(|wait| Stack {
        thread: wait.task,
        frames: frames(profile, wait.task, wait.stack, Some(wait.kind)),
        calls: wait.count,
        total_ns: wait.ns,
        self_ns: wait.idle_ns,
        attributed_ns: 0,
        class: ApiClass::Wait,
        wait: Some(wait.kind),
    });
    let rest = tables.tasks.iter().enumerate().filter(|(_, task)| task.unattributed_ns > 0).map(|(id, task)| Stack {
        thread: id as TaskId,
        frames: frames(profile, id as TaskId, None, None),
        calls: 0,
        total_ns: task.unattributed_ns,
        self_ns: task.unattributed_ns,
        attributed_ns: 0,
        class: ApiClass::Compute,
        wait: None,
    });
    running.chain(waiting).chain(rest).collect()
}

/// Frames from the program to the innermost function; a row that a damaged profile lacks is left out.
pub(crate) fn frames<'a>(
    profile: &'a Profile,
    task: TaskId,
    stack: Option<StackId>,
    wait: Option<WaitKind>,
) -> Vec<Frame<'a>> {
    let task = profile.sched.tasks.get(task as usize);
    let process = task.and_then(|task| profile.processes.get(task.process as usize));
    let mut frames = vec![
        Frame::Program(process.map_or("[unknown]", |process| file_name(&process.executable))),
        Frame::Group(task.map_or("[unknown]", |task| task.group.as_str())),
    ];
    match functions(&profile.sched, stack) {
        Some(functions) => frames.extend(functions),
        None => frames.push(Frame::NoStack),
    }
    frames.extend(wait.map(Frame::Waiting));
    frames
}

fn functions(tables: &SchedTables, stack: Option<StackId>) -> Option<Vec<Frame<'_>>> {
    let stack = tables.stacks.get(stack? as usize).filter(|stack| !stack.frames.is_empty())?;
    Some(stack.frames.iter().filter_map(|&id| tables.frames.get(id as usize)).map(Frame::Function).collect())
}
