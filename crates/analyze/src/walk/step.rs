use std::cmp::Reverse;

use serde::Serialize;
use transect_profile_model::{Profile, ShareMethod, Space, WalkGroupId, WalkSystemCall};

use crate::Names;

/// One step of the search: what it made of one callee.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkStepRow {
    /// When the step ended, since the recording's start, ns.
    pub time_ns: i64,
    /// Name of the group.
    pub thread_group: String,
    /// Process id.
    pub process: i32,
    /// The function whose callees were looked at.
    pub parent: String,
    /// The callee.
    pub function: String,
    /// The component that holds it (display name); `None` for the kernel and for code without a file.
    pub component: Option<String>,
    /// User or kernel.
    pub space: Space,
    /// Share of the group's total, 0.0–1.0.
    pub share: f64,
    /// How it was measured.
    pub method: ShareMethod,
    /// The search went down there.
    pub followed: bool,
    /// Why it was not timed though it could have been followed; else empty.
    pub note: String,
}

/// Time of one thread group in one system call, exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WalkSystemCallRow {
    /// Name of the group.
    pub thread_group: String,
    /// Process id.
    pub process: i32,
    /// The system call.
    pub name: String,
    /// Times entered.
    pub calls: i64,
    /// From entry to return, summed, ns.
    pub wall_ns: i64,
    /// Of it on CPU, ns.
    pub on_ns: i64,
    /// Runnable, without a CPU, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
}

fn group_and_process(profile: &Profile, id: WalkGroupId) -> (String, i32) {
    let Some(group) = profile.walk.groups.get(id as usize) else { return (String::new(), 0) };
    let process = profile.processes.get(group.process as usize);
    (group.thread_group.clone(), process.map_or(0, |process| process.pid))
}

pub(super) fn rows(profile: &Profile, names: &Names) -> Vec<WalkStepRow> {
    let node = |id: u32| profile.walk.nodes.get(id as usize);
    let row = |step: &transect_profile_model::WalkStep| {
        let (thread_group, process) = group_and_process(profile, step.group);
        let callee = node(step.node)?;
        Some(WalkStepRow {
            time_ns: step.time_ns,
            thread_group,
            process,
            parent: node(step.parent)?.function.clone(),
            function: callee.function.clone(),
            component: callee.component.map(|id| names.get(id).to_owned()),
            space: callee.space,
            share: step.share,
            method: step.method,
            followed: step.followed,
            note: step.note.clone(),
        })
    };
    profile.walk.steps.iter().filter_map(row).collect()
}

/// Calls that return in a new thread, too.
const MAKE_THREADS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];

/// System calls that their thread has entered. A new thread returns from the call that made it without having entered any: what
/// is timed there is its wait for its first CPU, and none of the call's time.
pub(crate) fn entered(profile: &Profile) -> impl Iterator<Item = &WalkSystemCall> {
    let is_entered = |call: &&WalkSystemCall| call.calls > 0 || !MAKE_THREADS.contains(&call.name.as_str());
    profile.walk.system_calls.iter().filter(is_entered)
}

pub(super) fn system_calls(profile: &Profile) -> Vec<WalkSystemCallRow> {
    let row = |call: &WalkSystemCall| {
        let (thread_group, process) = group_and_process(profile, call.group);
        WalkSystemCallRow {
            thread_group,
            process,
            name: call.name.clone(),
            calls: call.calls,
            wall_ns: call.on_ns.saturating_add(call.runnable_ns).saturating_add(call.blocked_ns),
            on_ns: call.on_ns,
            runnable_ns: call.runnable_ns,
            blocked_ns: call.blocked_ns,
        }
    };
    let mut rows: Vec<WalkSystemCallRow> = entered(profile).map(row).collect();
    rows.sort_by(|a, b| {
        let key = |row: &WalkSystemCallRow| (Reverse(row.wall_ns), Reverse(row.calls));
        key(a)
            .cmp(&key(b))
            .then_with(|| (a.process, &a.name, &a.thread_group).cmp(&(b.process, &b.name, &b.thread_group)))
    });
    rows
}
