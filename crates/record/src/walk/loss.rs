//! What a walk did not see.

use transect_bpf_collect::Lost;
use transect_profile_model::{CODE_WITHOUT_FILE, Loss, LossKind};

use super::state::WalkState;

/// The scheduler's tables report what its collector loses; the walk need not repeat it.
pub(super) fn leave_scheduler_out(losses: &mut Vec<Loss>) {
    losses.retain(|loss| !loss.place.starts_with(SCHEDULER) && loss.place != SAMPLES);
}

/// What is above the frames that were taken.
const TOO_DEEP: &str = "stacks of more than 127 frames, samples and waits: what called the outermost function is taken from \
                        other stacks, or [unknown]";
/// Sums of ended threads without room.
const LOST_CALLS: &str =
    "too many ended threads at once: sums of their calls, by thread and call, are in no exact total";
/// Waits of which only the time is known.
const SUMMED_WAITS: &str = "too many different ones: what they were for and who ended them is not told, their time is";
/// What a window noticed later.
const UNSEEN_RETURNS: &str = "returns that were not seen: the calls' times end when that was noticed";
/// Told as the scheduler's tables do.
const SAMPLES: &str = "samples";
const SCHEDULER: &str = "scheduler";

/// What could not be kept, since the beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct NotKept {
    /// By the kernel's part.
    pub kernel: Lost,
    /// Addresses of processes that ended before they were looked at.
    pub unseen: u64,
    /// Samples and waits whose stacks there was no room for.
    pub stacks: u64,
    /// Records of threads for which there was no room.
    pub threads: u64,
    /// Samples without a stack.
    pub stackless: u64,
    /// Records that could not be read.
    pub malformed: u64,
    /// Why there are no samples.
    pub samples_refused: Option<String>,
}

/// What the search did not keep.
#[derive(Debug, Clone, Default)]
pub(super) struct NotSearched {
    /// Decisions.
    pub steps: u64,
    /// Ends of calls of the kernel's functions that were timed.
    pub returns: u64,
    /// Processes whose functions can't be timed, and why.
    pub untimed: Vec<(i32, String)>,
    /// Processes whose functions could not be timed then: windows, and why.
    pub postponed: Vec<(i32, u64, String)>,
}

/// Rows of losses.
pub(super) fn losses(state: &mut WalkState, search: &NotSearched) -> Vec<Loss> {
    let (unplaced, truncated) = (state.unplaced(), state.truncated);
    let kept = std::mem::take(&mut state.not_kept);
    let lost = kept.kernel;
    let full = "the ring buffer was full";
    let naming = state.frames.naming();
    let hidden = "the kernel hides its addresses: functions of the kernel have no names; sysctl kernel.kptr_restrict=1 \
                  (and cap_syslog, or root) shows them";
    let rows = [
        (
            LossKind::DroppedEvents,
            SAMPLES,
            kept.samples_refused.is_some().into(),
            kept.samples_refused.as_deref().unwrap_or(""),
        ),
        (LossKind::UnrecordedThreads, SCHEDULER, lost.threads, "too many threads at once"),
        (LossKind::UnrecordedThreads, SCHEDULER, lost.applications, "too many processes: counted with the first"),
        (LossKind::DroppedEvents, "scheduler: waits", lost.waits, full),
        (LossKind::DroppedEvents, "scheduler: samples", lost.samples, full),
        (LossKind::DroppedEvents, "scheduler: stacks", lost.stacks, full),
        (LossKind::DroppedEvents, "scheduler: threads", lost.tasks, full),
        (LossKind::DroppedEvents, "scheduler: mappings", lost.mappings, full),
        (LossKind::DroppedEvents, "scheduler: samples", lost.busy_samples, "taken while the clock was being changed"),
        (LossKind::DroppedEvents, SCHEDULER, kept.malformed, "records that could not be read"),
        (LossKind::UnrecordedThreads, "walk", kept.threads, "too many threads: records of more"),
        (LossKind::DroppedEvents, "walk: system calls", state.calls.totals.lost, LOST_CALLS),
        (LossKind::SummedEvents, "walk: waits", state.waits_refused, SUMMED_WAITS),
        (LossKind::UnresolvedNames, "walk: waits", state.objects_refused, "too many different objects"),
        (LossKind::DroppedEvents, "walk: steps", search.steps, "too many decisions: the later ones are in no step"),
        (LossKind::DroppedEvents, "walk: functions of the kernel", search.returns, UNSEEN_RETURNS),
        (LossKind::TruncatedStacks, "walk", kept.stacks, "too many different stacks: samples and waits without one"),
        (LossKind::TruncatedStacks, "walk", kept.stackless, "samples of which no stack could be taken"),
        (LossKind::TruncatedStacks, "walk", unplaced, "samples and waits whose stacks, or threads, never came"),
        (LossKind::TruncatedStacks, "walk", truncated, TOO_DEEP),
        (LossKind::UnresolvedNames, "walk", kept.unseen, "code of processes that ended before it was looked at"),
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
        place: if path.is_empty() { CODE_WITHOUT_FILE.to_owned() } else { path.clone() },
        count: *count,
        reason: "addresses without a symbol".to_owned(),
    }));
    losses.extend(search.postponed.iter().map(|(tgid, count, why)| Loss {
        what: LossKind::UntimedCalls,
        place: format!("process {tgid}"),
        count: *count as i64,
        reason: format!("functions of the program were not timed then: {why}"),
    }));
    losses.extend(search.untimed.iter().map(|(tgid, why)| Loss {
        what: LossKind::UntimedCalls,
        place: format!("process {tgid}"),
        count: 1,
        reason: format!("functions of the program are not timed: {why}"),
    }));
    losses
}

#[cfg(test)]
mod tests {
    use transect_call_walk::Unit;

    use super::*;
    use crate::sched::kernel_symbols::SymbolSource;

    #[test]
    fn each_loss_is_a_row_and_nothing_else_is() {
        let mut state = WalkState::new(SymbolSource::open(), true, Unit::Wall, None);
        assert_eq!(losses(&mut state, &NotSearched::default()), []);
        let kernel = Lost { applications: 1, mappings: 2, ..Lost::default() };
        state.not_kept = NotKept {
            kernel,
            threads: 3,
            stackless: 4,
            malformed: 5,
            samples_refused: Some("forbidden".to_owned()),
            ..NotKept::default()
        };
        state.calls.totals.lost = 6;
        state.waits_refused = 7;
        state.objects_refused = 11;
        let search = NotSearched {
            steps: 8,
            returns: 9,
            untimed: vec![(10, "why".to_owned())],
            postponed: vec![(10, 12, "asleep".to_owned())],
        };
        let rows = losses(&mut state, &search);
        let mut counts: Vec<i64> = rows.iter().map(|row| row.count).collect();
        counts.sort_unstable();
        // Refused samples, and a process without a timer, are one each.
        assert_eq!(counts, [1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12]);
        assert!(rows.iter().any(|row| row.place == SAMPLES && row.reason == "forbidden"));
    }
}
