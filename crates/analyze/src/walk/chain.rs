use serde::Serialize;
use transect_profile_model::{
    Profile, ShareMethod, Space, WalkChain, WalkEnd, WalkFrame, WalkGroupId, WalkNodeId, WalkSession,
};

use super::conclusion::{Ending, conclusion, next};
use super::continuation::{Continuations, WalkContinuation, WalkContinuedFrame};
use super::group;
use crate::Names;
use crate::criticality::is_c_library;
use crate::finding::words::brief;

/// A way from a root down to where the search ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkChainRow {
    /// `main`, or the threads' name without trailing numbers.
    pub thread_group: String,
    /// Process id.
    pub process: i32,
    /// Share of the group's total that the last frame holds, 0.0–1.0.
    pub share: f64,
    /// Why it ends there.
    pub ends: WalkEnd,
    /// What it waits for: kind and object; empty if it doesn't wait.
    pub waiting_for: String,
    /// Who ends the waiting; empty if unknown.
    pub woken_by: String,
    /// Its frames, root first.
    pub frames: Vec<WalkFrameRow>,
    /// How it ends, as a sentence.
    pub conclusion: String,
    /// What to look at or to try next, as a sentence; may be empty.
    pub next: String,
    /// Executable of the process (file name).
    pub executable: String,
    /// Threads of the group.
    pub threads: i64,
    /// The whole of which shares are taken, in the metric's unit (ns of wall time by default).
    pub total: i64,
    /// Of a chain that waits, what those did meanwhile that it waits for: the first, who that one waits for, and so on.
    pub continues: Vec<WalkContinuation>,
}

/// One frame of a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WalkFrameRow {
    /// Its name; a system call's is bare (`openat`).
    pub function: String,
    /// The component that holds it (display name); `None` for the kernel and for code without a file.
    pub component: Option<String>,
    /// User or kernel.
    pub space: Space,
    /// Inlined into its caller.
    pub inlined: bool,
    /// Share of the group's total, 0.0–1.0.
    pub share: f64,
    /// 95 % interval of it.
    pub share_low: f64,
    /// See `share_low`.
    pub share_high: f64,
    /// How the share was measured.
    pub method: ShareMethod,
    /// Time on CPU, ns.
    pub on_ns: i64,
    /// Runnable, without a CPU, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
    /// Source file in which most of its time is; empty if unknown.
    pub file: String,
    /// Line in it; 0 if unknown.
    pub line: i32,
    /// The sampled share, where it differs from the exact one although it was timed twice.
    pub disputed: Option<f64>,
    /// Who mostly ended the waits in it; empty if unknown.
    pub woken_by: String,
    /// Samples and waits seen in it.
    pub samples: i64,
    /// Row in the table of nodes.
    pub node: WalkNodeId,
}

/// Chains in the order of their groups.
pub(super) fn rows(
    profile: &Profile,
    names: &Names,
    session: &WalkSession,
    order: &[WalkGroupId],
) -> Vec<WalkChainRow> {
    let mut position = vec![usize::MAX; profile.walk.groups.len()];
    for (at, &group) in order.iter().enumerate() {
        position[group as usize] = at;
    }
    let mut chains: Vec<&WalkChain> = profile.walk.chains.iter().collect();
    let place = |chain: &WalkChain| position.get(chain.group as usize).copied().unwrap_or(usize::MAX);
    chains.sort_by(|a, b| place(a).cmp(&place(b)).then(b.share.total_cmp(&a.share)));
    let continuations = Continuations::new(profile, names, session.threshold);
    let continues = |chain: &WalkChain| continuations.as_ref().map_or_else(Vec::new, |all| all.of(chain));
    chains.into_iter().filter_map(|chain| row(profile, names, session, chain, continues(chain))).collect()
}

fn row(
    profile: &Profile,
    names: &Names,
    session: &WalkSession,
    chain: &WalkChain,
    continues: Vec<WalkContinuation>,
) -> Option<WalkChainRow> {
    let group = group::row(profile, chain.group)?;
    let frames: Vec<WalkFrameRow> = chain.frames.iter().filter_map(|frame| frame_row(profile, names, frame)).collect();
    let ending = Ending { profile, session, chain, group: &group, frames: &frames };
    Some(WalkChainRow {
        share: chain.share,
        ends: chain.ends,
        waiting_for: chain.waiting_for.clone(),
        woken_by: chain.woken_by.clone(),
        conclusion: conclusion(&ending),
        next: continues.last().and_then(what_to_shorten).unwrap_or_else(|| next(&ending)),
        frames,
        thread_group: group.thread_group,
        process: group.process,
        executable: group.executable,
        threads: group.threads,
        total: group.total,
        continues,
    })
}

/// What to do about a wait for somebody: shorten what that one does.
fn what_to_shorten(last: &WalkContinuation) -> Option<String> {
    // Who waits for another one takes no time itself.
    if last.ends == WalkEnd::Waiting && group::is_for_others(&last.waiting_for) {
        return None;
    }
    let own = |frame: &&WalkContinuedFrame| {
        frame.space == Space::User && frame.component.as_deref().is_some_and(|component| !is_c_library(component))
    };
    let whose = if last.thread_group == "main" { &last.executable } else { &last.thread_group };
    if last.frames.is_empty() {
        return Some(format!(
            "What takes the time is {whose}, in no one function: have it do less, or start it less often."
        ));
    }
    let frame = last.frames.iter().rev().find(own)?;
    let place = match frame.line {
        0 => String::new(),
        line => format!(" ({}:{line})", crate::names::file_name(&frame.file)),
    };
    Some(format!(
        "What takes the time is {}{place} of {whose}: make that shorter, or hand it more at a time.",
        brief(&frame.function)
    ))
}

fn frame_row(profile: &Profile, names: &Names, frame: &WalkFrame) -> Option<WalkFrameRow> {
    let node = profile.walk.nodes.get(frame.node as usize)?;
    Some(WalkFrameRow {
        function: node.function.clone(),
        component: node.component.map(|id| names.get(id).to_owned()),
        space: node.space,
        inlined: node.inlined,
        share: frame.share,
        share_low: frame.share_low,
        share_high: frame.share_high,
        method: frame.method,
        on_ns: node.on_ns,
        runnable_ns: node.runnable_ns,
        blocked_ns: node.blocked_ns,
        file: node.file.clone(),
        line: node.line,
        disputed: frame.disputed,
        woken_by: frame.woken_by.clone(),
        samples: node.samples,
        node: frame.node,
    })
}
