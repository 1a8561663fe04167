//! Tables of the scheduler collector.

pub(crate) mod frames;
pub(crate) mod instructions;
pub(crate) mod moments;
pub(crate) mod parallelism;
pub(crate) mod samples;
pub(crate) mod slices;
pub(crate) mod stack_addresses;
pub(crate) mod stacks;
pub(crate) mod tasks;
pub(crate) mod waits;

use transect_profile_model::{Profile, StackId, Task, TaskId};

fn task(profile: &Profile, id: TaskId) -> &Task {
    &profile.sched.tasks[id as usize]
}

/// Process id of a task.
fn pid(profile: &Profile, id: TaskId) -> i32 {
    profile.processes[task(profile, id).process as usize].pid
}

/// Function of a stack's last frame; empty if there is none.
fn leaf(profile: &Profile, stack: Option<StackId>) -> &str {
    let frame = stack.and_then(|id| profile.sched.stacks[id as usize].frames.last());
    frame.map_or("", |&frame| &profile.sched.frames[frame as usize].function)
}

/// What is wrong with the rows that are always held in memory, if anything: the table and its first row that points to
/// a row which does not exist.
pub(crate) fn dangling(profile: &Profile) -> Option<(&'static str, usize)> {
    let sched = &profile.sched;
    let process = |id: u32| (id as usize) < profile.processes.len();
    let component = |id: u32| (id as usize) < profile.components.len();
    let position = |table: &'static str, bad: Option<usize>| bad.map(|row| (table, row));
    let task = |id: u32| (id as usize) < sched.tasks.len();
    let stack = |id: u32| (id as usize) < sched.stacks.len();
    position("tasks", sched.tasks.iter().position(|t| !(process(t.process) && t.parent.is_none_or(task))))
        .or_else(|| position("parallelism", sched.parallelism.iter().position(|p| !p.process.is_none_or(process))))
        .or_else(|| position("frames", sched.frames.iter().position(|f| !f.component.is_none_or(component))))
        .or_else(|| {
            let missing = |&frame: &u32| frame as usize >= sched.frames.len();
            position("stacks", sched.stacks.iter().position(|s| s.frames.iter().any(missing)))
        })
        .or_else(|| {
            let missing = |address| instructions::is_dangling(profile, address);
            position("stack_instructions", sched.instructions.iter().position(missing))
        })
        .or_else(|| position("sched_samples", sched.samples.iter().position(|s| !(task(s.task) && stack(s.stack)))))
        .or_else(|| position("sched_moments", sched.moments.iter().position(|m| !(task(m.task) && stack(m.stack)))))
}
