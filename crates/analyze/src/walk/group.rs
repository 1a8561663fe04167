use std::cmp::Reverse;

use serde::Serialize;
use transect_profile_model::{Metric, Profile, WalkGroup, WalkGroupId};

use crate::finding::words::percent;
use crate::names::file_name;

/// Threads of one name in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WalkGroupRow {
    /// `main`, or the threads' name without trailing numbers.
    pub thread_group: String,
    /// Process id.
    pub process: i32,
    /// Executable of the process (file name).
    pub executable: String,
    /// Threads observed.
    pub threads: i64,
    /// The whole of which shares are taken, in the metric's unit (ns of wall time by default).
    pub total: i64,
    /// Of the threads' lifetime, on a processor, ns.
    pub on_ns: i64,
    /// Ready to run without a processor, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
    /// What to bear in mind with its shares; empty if nothing.
    pub remark: String,
}

/// Part of a group's time without a processor from which its shares say more about the machine than about the program.
const CROWDED: f64 = 0.4;

/// Groups as people ask for them: the launched process first, `main` before its other groups, the longest first.
pub(super) fn order(profile: &Profile) -> Vec<WalkGroupId> {
    let groups = &profile.walk.groups;
    let mut order: Vec<WalkGroupId> = (0..).take(groups.len()).collect();
    order.sort_by_key(|&id| {
        let group = &groups[id as usize];
        (group.process, group.thread_group != "main", Reverse(group.total), id)
    });
    order
}

pub(super) fn row(profile: &Profile, id: WalkGroupId) -> Option<WalkGroupRow> {
    let group = profile.walk.groups.get(id as usize)?;
    let process = profile.processes.get(group.process as usize);
    Some(WalkGroupRow {
        thread_group: group.thread_group.clone(),
        process: process.map_or(0, |process| process.pid),
        executable: process.map_or("", |process| file_name(&process.executable)).to_owned(),
        threads: group.threads,
        total: group.total,
        on_ns: group.on_ns,
        runnable_ns: group.runnable_ns,
        blocked_ns: group.blocked_ns,
        remark: remark(profile, group),
    })
}

fn remark(profile: &Profile, group: &WalkGroup) -> String {
    let lifetime = group.on_ns.saturating_add(group.runnable_ns).saturating_add(group.blocked_ns);
    let by_wall = profile.meta.walk.as_ref().is_some_and(|session| session.metric == Metric::Wall && !session.critical);
    if by_wall && lifetime > 0 && group.runnable_ns as f64 >= CROWDED * lifetime as f64 {
        let part = percent(group.runnable_ns as f64 * 100.0 / lifetime as f64);
        return format!(
            "{part} of its time it was ready to run and had no processor: shares tell how busy the machine was; \
             --metric cpu tells where it computes"
        );
    }
    String::new()
}
