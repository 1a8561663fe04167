//! What a walk did not see.

use transect_profile_model::{Loss, LossKind};

use super::knowledge::Knowledge;

/// Where what the scheduler's collector loses is told by the tables that are made of it, the walk need not.
pub(super) fn leave_scheduler_out(losses: &mut Vec<Loss>) {
    losses.retain(|loss| !loss.place.starts_with(SCHEDULER));
}

/// What is above the frames that were taken.
const TOO_DEEP: &str = "stacks of more than 127 frames, samples and waits: what called the outermost function is taken from \
                        other stacks, or [unknown]";
const SCHEDULER: &str = "scheduler";

/// Rows of losses.
pub(super) fn losses(knowledge: &mut Knowledge, untimed: &[(i32, String)]) -> Vec<Loss> {
    let (lost, refused, unseen, truncated) = (knowledge.lost, knowledge.refused, knowledge.unseen, knowledge.truncated);
    let full = "the ring buffer was full";
    let naming = knowledge.frames.naming();
    let hidden = "the kernel hides its addresses: functions of the kernel have no names; sysctl kernel.kptr_restrict=1 \
                  (and cap_syslog, or root) shows them";
    let rows = [
        (LossKind::UnrecordedThreads, SCHEDULER, lost.threads, "too many threads at once"),
        (LossKind::DroppedEvents, "scheduler: waits", lost.waits, full),
        (LossKind::DroppedEvents, "scheduler: samples", lost.samples, full),
        (LossKind::DroppedEvents, "scheduler: stacks", lost.stacks, full),
        (LossKind::DroppedEvents, "scheduler: threads", lost.tasks, full),
        (LossKind::DroppedEvents, "scheduler: samples", lost.busy_samples, "taken while the clock was being changed"),
        (LossKind::TruncatedStacks, "walk", refused, "too many different stacks or threads"),
        (LossKind::TruncatedStacks, "walk", truncated, TOO_DEEP),
        (LossKind::UnresolvedNames, "walk", unseen, "code of processes that ended before it was looked at"),
        (LossKind::UnresolvedNames, "[kernel]", naming.hidden.unsigned_abs(), hidden),
    ];
    let mut losses: Vec<Loss> = rows
        .into_iter()
        .filter(|(_, _, count, _)| *count > 0)
        .map(|(what, place, count, reason)| Loss {
            what,
            place: place.to_owned(),
            count: count as i64,
            reason: reason.to_owned(),
        })
        .collect();
    let mut unnamed: Vec<_> = naming.unnamed.iter().collect();
    unnamed.sort();
    losses.extend(unnamed.into_iter().map(|(path, count)| Loss {
        what: LossKind::UnresolvedNames,
        place: if path.is_empty() { "code without a file".to_owned() } else { path.clone() },
        count: *count,
        reason: "addresses without a symbol".to_owned(),
    }));
    losses.extend(untimed.iter().map(|(tgid, why)| Loss {
        what: LossKind::UntimedCalls,
        place: format!("process {tgid}"),
        count: 1,
        reason: format!("functions of the program are not timed: {why}"),
    }));
    losses
}
