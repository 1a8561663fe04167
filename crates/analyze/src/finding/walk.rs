//! Where a walk's chains end.

use transect_profile_model::{Metric, Space, WaitKind, WalkEnd};

use super::words::{brief, percent};
use super::{FindingKind, FindingRow};
use crate::WalkView;
use crate::walk::{WalkChainRow, waiting_in_words, whole};

/// Further chains belong to threads that mostly idle, or repeat what the first ones say.
const MOST: usize = 4;
/// Part of the run from which a thread lives through all of it.
const NEARLY_ALL: f64 = 0.9;
/// Functions of a path in a finding.
const MOST_STEPS: usize = 12;

/// `launched`: the process that was recorded; the others are its children.
pub(super) fn find(walk: &WalkView, launched: i32, wall_ns: i64, findings: &mut Vec<FindingRow>) {
    let mut chains: Vec<(&WalkChainRow, f64)> = walk
        .chains
        .iter()
        .filter(|chain| is_told(walk, launched, chain))
        .map(|chain| (chain, of_run(walk, chain, wall_ns)))
        .collect();
    // The view's order stands where they weigh the same.
    chains.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rows = chains.into_iter().filter_map(|(chain, percent)| row(walk, chain, percent));
    findings.extend(rows.take(MOST));
}

/// Whether a chain says where time goes: not to whom waits for a child whose own chain stands beside it, nor to a child that waits for
/// what it is to do. That its time spreads out says what a child is at, but little of the program that was asked for.
fn is_told(walk: &WalkView, launched: i32, chain: &WalkChainRow) -> bool {
    let mut others = walk.chains.iter().filter(|other| other.process != chain.process && !other.frames.is_empty());
    let is_child = chain.process != launched;
    let kind = chain.waiting_for.split(": ").next().unwrap_or_default();
    match chain.ends {
        WalkEnd::Function => true,
        WalkEnd::Waiting if kind == WaitKind::Child.as_str() => others.next().is_none(),
        WalkEnd::Waiting => {
            let idles = [WaitKind::Pipe, WaitKind::Socket, WaitKind::Poll].iter().any(|idle| idle.as_str() == kind);
            !(is_child && idles)
        }
        WalkEnd::Spread => is_child,
        WalkEnd::NothingAboveThreshold => false,
    }
}

/// Share of the run that a chain's end holds, 0–100: a process that lives for a moment has little of it, whatever it does then.
fn of_run(walk: &WalkView, chain: &WalkChainRow, wall_ns: i64) -> f64 {
    let by_wall = walk.session.metric == Metric::Wall && !walk.session.critical;
    let part = if by_wall {
        // Threads of one group live beside one another.
        (chain.total / chain.threads.max(1)) as f64 / wall_ns.max(1) as f64
    } else {
        chain.total as f64 / walk.groups.iter().map(|group| group.total).sum::<i64>().max(1) as f64
    };
    (chain.share * part.min(1.0) * 100.0).clamp(0.0, 100.0)
}

fn row(walk: &WalkView, chain: &WalkChainRow, of_run: f64) -> Option<FindingRow> {
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
    let with = if chain.ends == WalkEnd::Spread { " with what it calls" } else { "" };
    // Of threads that live for a part of the run only the share is another one.
    let run = match of_run < chain.share * 100.0 * NEARLY_ALL {
        true => format!("; {} of the run", percent(of_run)),
        false => String::new(),
    };
    Some(FindingRow {
        finding: format!(
            "{} of {group}'s {} is in {}{waiting}{with}",
            percent(chain.share * 100.0),
            whole(&walk.session),
            short_path(chain),
        ),
        evidence: format!(
            "{} ({} to {}{woken}){run}",
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
        percent: of_run,
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
