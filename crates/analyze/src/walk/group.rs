use std::cmp::Reverse;

use serde::Serialize;
use transect_profile_model::{Metric, Profile, WaitKind, WalkEnd, WalkGroup, WalkGroupId};

use super::waiting::kind_and_object;
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
    /// Of the threads' lifetime, on a CPU, ns.
    pub on_ns: i64,
    /// Runnable, without a CPU, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
    /// What to bear in mind with its shares; empty if nothing.
    pub remark: String,
}

/// Part of a group's time without a CPU from which its shares say more about the machine than about the program.
const CROWDED: f64 = 0.4;

/// A thread with less than this part of another one's time, one in so many, is brief beside it.
const BRIEF: i64 = 10;

/// Groups as people ask for them: brief ones last, as of a shell's commands; those that wait for other threads or processes after
/// those that they may wait for; then the launched process first, `main` before its other groups, the longest first.
pub(super) fn order(profile: &Profile) -> Vec<WalkGroupId> {
    let groups = &profile.walk.groups;
    let each = |group: &WalkGroup| group.total / group.threads.max(1);
    let longest = groups.iter().map(each).max().unwrap_or(0);
    let mut order: Vec<WalkGroupId> = (0..).take(groups.len()).collect();
    order.sort_by_key(|&id| {
        let group = &groups[id as usize];
        let brief = each(group).saturating_mul(BRIEF) < longest;
        let among_brief = if brief { Reverse(group.total) } else { Reverse(0) };
        let waits = waits_for_others(profile, id);
        (brief, among_brief, waits, group.process, group.thread_group != "main", Reverse(group.total), id)
    });
    order
}

/// True if a group's largest chain ends in a wait that another thread or a child process ends.
fn waits_for_others(profile: &Profile, group: WalkGroupId) -> bool {
    let chains = profile.walk.chains.iter().filter(|chain| chain.group == group);
    let Some(largest) = chains.max_by(|a, b| a.share.total_cmp(&b.share)) else { return false };
    largest.ends == WalkEnd::Waiting && is_for_others(&largest.waiting_for)
}

/// Whether a thread or a child process of the program ends such a wait.
pub(crate) fn is_for_others(waiting_for: &str) -> bool {
    matches!(
        kind_and_object(waiting_for).0,
        Some(
            WaitKind::Mutex
                | WaitKind::Rwlock
                | WaitKind::Condition
                | WaitKind::Barrier
                | WaitKind::Semaphore
                | WaitKind::Join
                | WaitKind::Futex
                | WaitKind::Spin
                | WaitKind::Child
        )
    )
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
            "{part} of its time it was runnable and had no CPU: shares tell how busy the machine was; \
             transect walk --metric cpu tells where it computes"
        );
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use transect_profile_model::WalkChain;

    use super::*;

    #[test]
    fn the_worker_comes_before_those_who_wait_for_it() {
        let group = |name: &str, total| WalkGroup {
            process: 0,
            thread_group: name.to_owned(),
            threads: 1,
            total,
            on_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
        };
        let chain = |group, ends, waiting_for: &str| WalkChain {
            group,
            share: 0.9,
            ends,
            waiting_for: waiting_for.to_owned(),
            woken_by: String::new(),
            frames: Vec::new(),
        };
        let mut profile = crate::synthetic::latency_service();
        profile.walk.groups = vec![group("main", 90), group("worker", 80), group("logger", 85)];
        profile.walk.chains = vec![
            chain(0, WalkEnd::Waiting, "join: worker"),
            chain(1, WalkEnd::Function, ""),
            chain(2, WalkEnd::Waiting, "file-sync: log"),
        ];
        assert_eq!(order(&profile), [2, 1, 0]);
        // Short commands that were started before them, one with many threads.
        profile.walk.groups.extend([group("sort", 2), group("cat", 7)]);
        profile.walk.groups.push(WalkGroup { threads: 4, ..group("xz", 24) });
        (profile.walk.groups[0].process, profile.walk.groups[1].process, profile.walk.groups[2].process) = (1, 1, 1);
        assert_eq!(order(&profile), [2, 1, 0, 5, 4, 3]);
    }
}
