//! Criticality without privileges: an estimate from a recording of flows, in the tables of the scheduler collector.
//!
//! The agent divides each instant by the number of threads that are not in a blocking API. So a thread's attributed
//! time, less what of it lies in blocking calls, is its criticality as far as the agent knows, and the sum over a
//! process' threads is the time in which at least one of them was active: the identity that exact criticality has holds
//! here by construction.
//!
//! **Known**: criticality and blocked time per thread, waits by kind with their objects, and which APIs the
//! criticality lies in (their own time, what they call in other components left out).
//!
//! **Not known**: waits that are no calls between components (page faults, locks of a program's own, system calls made
//! directly, calls inside libc), time without a CPU (it counts as running), who holds a lock and who wakes, call
//! paths inside a component, time at each degree of parallelism (`parallelism` is empty, and so is the timeline), and
//! how waiting of different processes relates: each is an application of its own. Idle time is known as a whole (a
//! process' life less its busy time) and shared out over its waits by the time attributed to them.

mod blocked;
mod kind;
mod stacks;

use transect_profile_model::{
    ApiClass, Flow, Origin, Profile, SchedSample, SchedSession, SchedTables, SchedWait, Task, TaskId,
};

use blocked::Blocked;
use stacks::Stacks;

/// Fills in [`Profile::sched`] and [`transect_profile_model::Meta::criticality`] from the flows of the same profile.
/// [`SchedSession::estimate`] says that it is one.
pub fn estimate(profile: &mut Profile) {
    let mut stacks = Stacks::new(profile);
    let mut tables = SchedTables::default();
    let blocked = Blocked::of(profile);
    for (thread, (row, blocked)) in profile.threads.iter().zip(&blocked).enumerate() {
        let task = thread as TaskId;
        let criticality_ns = (row.attributed_ns - blocked.attributed_ns).max(0);
        tables.tasks.push(Task {
            process: row.process,
            tid: row.tid,
            parent: None,
            name: row.name.clone(),
            group: row.group.clone(),
            start_ns: row.start_ns,
            end_ns: row.start_ns + row.wall_ns,
            criticality_ns,
            running_ns: row.busy_ns,
            runnable_ns: 0,
            blocked_ns: row.wait_ns,
            unattributed_ns: 0,
            ..Task::default()
        });
        add_samples(profile, task, criticality_ns, row.busy_ns, &mut stacks, &mut tables);
    }
    let mut idle_ns = 0;
    for (process, row) in profile.processes.iter().enumerate() {
        let busy: i64 = of_process(&tables.tasks, process).map(|task| task.criticality_ns).sum();
        let idle = (row.wall_ns - busy).max(0);
        let waits = waits_of(profile, process, &blocked, &mut stacks);
        idle_ns += add_waits(waits, idle, &mut tables);
    }
    tables.waits.sort_by_key(|wait| wait.end_ns);
    (tables.frames, tables.stacks) = stacks.finish();
    let busy_ns = tables.tasks.iter().map(|task| task.criticality_ns).sum();
    let cpus = i64::from(profile.meta.machine.cpus);
    profile.meta.criticality = Some(SchedSession {
        estimate: true,
        per_process: true,
        cpus,
        sample_hz: 0,
        min_parallelism: cpus,
        stack_depth: stacks::DEPTH,
        busy_ns,
        idle_ns,
        unattributed_ns: 0,
        drift: 0,
        slices: tables.waits.iter().map(|wait| wait.count).sum(),
        critical_slices: 0,
        start_ns: 0,
        end_ns: profile.meta.wall_ns,
    });
    profile.sched = tables;
}

fn of_process(tasks: &[Task], process: usize) -> impl Iterator<Item = &Task> {
    tasks.iter().filter(move |task| task.process as usize == process)
}

/// The thread's flows that don't block, with what is attributed to their own time; the rest is the program's own code.
/// Adds up to `criticality_ns`.
fn add_samples(
    profile: &Profile,
    task: TaskId,
    criticality_ns: i64,
    active_ns: i64,
    stacks: &mut Stacks<'_>,
    tables: &mut SchedTables,
) {
    let mut samples = Vec::new();
    for flow in profile.flows.iter().filter(|flow| flow.thread == task && !blocks(flow)) {
        let (Some(total), Some(own), Some(attributed)) = (flow.total_ns, flow.self_ns, flow.attributed_ns) else {
            continue;
        };
        if total > 0 && own > 0 && attributed > 0 {
            let share = (own as f64 / total as f64).min(1.0);
            samples.push((flow, attributed as f64 * share, own));
        }
    }
    let sum: f64 = samples.iter().map(|sample| sample.1).sum();
    // Estimates of sampled calls may exceed the whole, which is known.
    let scale = if sum > criticality_ns as f64 { criticality_ns as f64 / sum } else { 1.0 };
    let (mut left, mut left_active) = (criticality_ns, active_ns);
    for (flow, criticality, own) in samples {
        let criticality_ns = ((criticality * scale) as i64).min(left);
        let active_ns = ((own as f64 * scale) as i64).min(left_active.max(0));
        left -= criticality_ns;
        left_active -= active_ns;
        tables.samples.push(SchedSample {
            task,
            stack: stacks.of_call(task, flow),
            n: parallelism(active_ns, criticality_ns),
            origin: Origin::Sample,
            samples: flow.timed_calls,
            criticality_ns,
            active_ns,
            spin: false,
        });
    }
    if left > 0 {
        let active_ns = left_active.max(left);
        tables.samples.push(SchedSample {
            task,
            stack: stacks.of_start(task),
            n: parallelism(active_ns, left),
            origin: Origin::Sample,
            samples: 1,
            criticality_ns: left,
            active_ns,
            spin: false,
        });
    }
}

/// Mean number of active threads over a time that was `active_ns` long and counted `criticality_ns`.
fn parallelism(active_ns: i64, criticality_ns: i64) -> i32 {
    if criticality_ns <= 0 { 1 } else { (active_ns as f64 / criticality_ns as f64).round().clamp(1.0, 65536.0) as i32 }
}

/// A wait with the time attributed to it, by which idle time is shared out.
struct Weighted {
    wait: SchedWait,
    attributed: f64,
}

fn waits_of(profile: &Profile, process: usize, blocked: &[blocked::Thread], stacks: &mut Stacks<'_>) -> Vec<Weighted> {
    let mut waits = Vec::new();
    let mut push = |task: TaskId, flow: Option<&Flow>, api: &str, object: &str, count: i64, ns: i64, share: f64| {
        let thread = &profile.threads[task as usize];
        let kind = kind::of_api(flow.map_or(api, |flow| &flow.symbol), flow.map(|flow| flow.class));
        waits.push(Weighted {
            wait: SchedWait {
                task,
                kind,
                object: object.into(),
                stack: flow.map(|flow| stacks.of_call(task, flow)),
                holder: None,
                waker: None,
                count,
                begin_ns: thread.start_ns,
                end_ns: thread.start_ns + thread.wall_ns,
                ns,
                idle_ns: 0,
                holder_gain_ns: 0,
            },
            attributed: ns as f64 * share,
        });
    };
    let here = |thread: u32| profile.threads[thread as usize].process as usize == process;
    for wait in profile.waits.iter().filter(|wait| here(wait.thread) && wait.count > 0) {
        let flow = blocked::flow_of(profile, wait);
        let share = flow.map_or(1.0, blocked::share);
        push(wait.thread, flow, &wait.api, &wait.object, wait.count, wait.ns, share);
    }
    for flow in profile.flows.iter().filter(|flow| here(flow.thread) && flow.class == ApiClass::Io) {
        if let Some(total) = flow.total_ns.filter(|&total| total > 0) {
            push(flow.thread, Some(flow), &flow.api, "", flow.calls, total, blocked::share(flow));
        }
    }
    // What a thread waited for in calls that have no row: those under way when it ended.
    for (task, thread) in profile.threads.iter().enumerate().filter(|(_, t)| t.process as usize == process) {
        let known = blocked[task].known_ns;
        if thread.wait_ns > known && known == 0 {
            push(task as TaskId, None, "", "", 1, thread.wait_ns, 1.0);
        }
    }
    waits
}

/// Shares the process' idle time out; returns what was shared.
fn add_waits(mut waits: Vec<Weighted>, idle: i64, tables: &mut SchedTables) -> i64 {
    let sum: f64 = waits.iter().map(|wait| wait.attributed).sum();
    let mut left = idle;
    if sum > 0.0 {
        for wait in &mut waits {
            wait.wait.idle_ns = ((idle as f64 * wait.attributed / sum) as i64).min(left);
            left -= wait.wait.idle_ns;
        }
        // What rounding left over goes to the longest.
        if let Some(longest) = waits.iter_mut().max_by_key(|wait| wait.wait.idle_ns) {
            longest.wait.idle_ns += left;
        }
        left = 0;
    }
    tables.waits.extend(waits.into_iter().map(|wait| wait.wait));
    idle - left
}

/// True for APIs in which a thread does not count as active.
fn blocks(flow: &Flow) -> bool {
    matches!(flow.class, ApiClass::Io | ApiClass::Wait) || flow.class == ApiClass::Lock && !kind::spins(&flow.symbol)
}

#[cfg(test)]
mod tests;
