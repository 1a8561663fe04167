//! Where a walk's chains end.

use transect_profile_model::{Space, WalkEnd};

use super::words::{brief, percent};
use super::{FindingKind, FindingRow};
use crate::WalkView;
use crate::walk::{WalkChainRow, waiting_in_words, whole};

/// Further chains belong to threads that mostly idle, or repeat what the first ones say.
const MOST: usize = 4;
/// Functions of a path in a finding.
const MOST_STEPS: usize = 12;

pub(super) fn find(walk: &WalkView, findings: &mut Vec<FindingRow>) {
    let ended = |chain: &&WalkChainRow| matches!(chain.ends, WalkEnd::Function | WalkEnd::Waiting);
    let rows = walk.chains.iter().filter(ended).filter_map(|chain| row(walk, chain));
    findings.extend(rows.take(MOST));
}

fn row(walk: &WalkView, chain: &WalkChainRow) -> Option<FindingRow> {
    let last = chain.frames.last()?;
    let waiting = match chain.ends {
        WalkEnd::Waiting => format!(", waiting for {}", waiting_in_words(&chain.waiting_for)),
        _ => String::new(),
    };
    let group = match walk.groups.iter().filter(|group| group.thread_group == chain.thread_group).count() {
        0 | 1 => chain.thread_group.clone(),
        _ => format!("{}/{}", chain.executable, chain.thread_group),
    };
    let path = chain.frames.iter().map(|frame| brief(&frame.function)).fold(Vec::new(), |mut path, name| {
        // The wrapper of a system call and the call itself have one name.
        if path.last() != Some(&name) {
            path.push(name);
        }
        path
    });
    let path = match path.len() {
        // The way through the program is long, its end tells.
        long if long > MOST_STEPS => format!("{} → … → {}", path[0], path[long - MOST_STEPS + 2..].join(" → ")),
        _ => path.join(" → "),
    };
    let woken = match chain.woken_by.as_str() {
        "" => String::new(),
        waker => format!("; woken by {waker}"),
    };
    Some(FindingRow {
        finding: format!(
            "{} of {group}'s {} is in {}{waiting}",
            percent(chain.share * 100.0),
            whole(&walk.session),
            short_path(chain),
        ),
        evidence: format!(
            "{} ({} to {}{woken})",
            path,
            percent(last.share_low * 100.0),
            percent(last.share_high * 100.0)
        ),
        view: "walk".to_owned(),
        next: match chain.next.as_str() {
            "" => "See the whole chain: --view walk".to_owned(),
            next => next.to_owned(),
        },
        kind: FindingKind::WalkedChain,
        percent: (chain.share * 100.0).clamp(0.0, 100.0),
        ..FindingRow::default()
    })
}

/// `fsync → jbd2_log_wait_commit`: the way into the kernel and its end; of the program alone, its last function.
fn short_path(chain: &WalkChainRow) -> String {
    let last = chain.frames.last().map(|frame| brief(&frame.function)).unwrap_or_default();
    match chain.frames.iter().find(|frame| frame.space == Space::Kernel).map(|frame| brief(&frame.function)) {
        Some(entry) if entry != last => format!("{entry} → {last}"),
        _ => last,
    }
}

pub(super) fn nothing(walk: &WalkView) -> FindingRow {
    let spread = walk.chains.first();
    FindingRow {
        finding: "No finding".to_owned(),
        evidence: spread.map_or_else(|| "no thread was seen".to_owned(), |chain| chain.conclusion.clone()),
        view: "walk".to_owned(),
        next: spread.map_or_else(String::new, |chain| chain.next.clone()),
        kind: FindingKind::Nothing,
        percent: 0.0,
        ..FindingRow::default()
    }
}
