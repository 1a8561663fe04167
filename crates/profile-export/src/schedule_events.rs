//! Slices, waits and the number of active threads as Chrome trace events.

use serde_json::{Value, json};
use transect_profile_model::{OtherThread, Profile, SchedWait, Slice, StackId};

use crate::chrome::{metadata_event, microseconds};

/// Names of threads that only the scheduler saw.
pub(crate) fn thread_names(profile: &Profile) -> Vec<Value> {
    let tasks = profile.sched.tasks.iter();
    let unnamed = tasks
        .filter(|task| !profile.threads.iter().any(|thread| (thread.tid, thread.process) == (task.tid, task.process)));
    unnamed.map(|task| metadata_event("thread_name", pid(profile, task.process), task.tid, &task.name)).collect()
}

/// Every slice and wait, then every change of the number of active threads; made one by one as they are written.
pub(crate) fn events(profile: &Profile) -> impl Iterator<Item = Value> {
    let slices = profile.sched.slices.iter().filter_map(|slice| slice_event(profile, slice));
    let waits = profile.sched.waits.iter().filter_map(|wait| wait_event(profile, wait));
    slices.chain(waits).chain(active_threads(profile))
}

fn pid(profile: &Profile, process: u32) -> i32 {
    profile.processes.get(process as usize).map_or(0, |process| process.pid)
}

fn slice_event(profile: &Profile, slice: &Slice) -> Option<Value> {
    let task = profile.sched.tasks.get(slice.task as usize)?;
    Some(json!({
        "ph": "X", "cat": "slice", "name": "active", "pid": pid(profile, task.process), "tid": task.tid,
        "ts": microseconds(slice.start_ns.max(0)), "dur": microseconds(slice.active_ns.max(0)),
        "args": { "runnable_ns": slice.runnable_ns, "criticality_ns": slice.criticality_ns },
    }))
}

/// A wait; of several summed up in one row, their time from the first on.
fn wait_event(profile: &Profile, wait: &SchedWait) -> Option<Value> {
    let task = profile.sched.tasks.get(wait.task as usize)?;
    let mut args = json!({ "object": *wait.object, "count": wait.count, "idle_ns": wait.idle_ns });
    for (word, party) in [("holder", wait.holder), ("waker", wait.waker)] {
        if let Some(OtherThread { task, stack }) = party {
            args[word] = profile.sched.tasks.get(task as usize).map_or("?", |task| task.name.as_str()).into();
            if let Some(function) = innermost(profile, stack) {
                args[format!("{word}_in")] = function.into();
            }
        }
    }
    if let Some(function) = innermost(profile, wait.stack) {
        args["in"] = function.into();
    }
    Some(json!({
        "ph": "X", "cat": "wait", "name": wait.kind.as_str(), "pid": pid(profile, task.process), "tid": task.tid,
        "ts": microseconds(wait.begin_ns.max(0)), "dur": microseconds(wait.ns.max(0)), "args": args,
    }))
}

fn innermost(profile: &Profile, stack: Option<StackId>) -> Option<&str> {
    let stack = profile.sched.stacks.get(stack? as usize)?;
    let frame = profile.sched.frames.get(*stack.frames.last()? as usize)?;
    Some(&frame.function)
}

/// A counter of the first process: the threads of all count together.
fn active_threads(profile: &Profile) -> impl Iterator<Item = Value> {
    let slices = &profile.sched.slices;
    let starts = slices.iter().map(|slice| (slice.start_ns, 1));
    let ends = slices.iter().map(|slice| (slice.start_ns.saturating_add(slice.active_ns), -1));
    let mut changes: Vec<(i64, i32)> = starts.chain(ends).collect();
    changes.sort_unstable();
    let pid = profile.processes.first().map_or(0, |process| process.pid);
    let mut n = 0;
    let mut changes = changes.into_iter().peekable();
    std::iter::from_fn(move || {
        let (time, by) = changes.next()?;
        n += by;
        while let Some(&(_, by)) = changes.peek().filter(|(next, _)| *next == time) {
            n += by;
            changes.next();
        }
        Some(json!({
            "ph": "C", "cat": "parallelism", "name": "active threads", "pid": pid, "tid": pid,
            "ts": microseconds(time.max(0)), "args": { "active": n.max(0) },
        }))
    })
}
