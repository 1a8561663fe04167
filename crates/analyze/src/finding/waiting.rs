//! Threads that wait for a large part of their life.

use rustc_hash::FxHashMap;
use transect_profile_model::ApiClass;

use super::facts::Facts;
use super::words::{percent, time};
use super::{FindingKind, FindingRow};

/// "Above a third of the time".
const WAIT_PERCENT: f64 = 100.0 / 3.0;
/// Waiting for others to end is how a program is put together, not where it loses time.
const JOINING: [&str; 11] = [
    "pthread_join",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "pthread_tryjoin_np",
    "thrd_join",
    "std::thread::join",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "waitpid",
];

pub(super) fn find(facts: &Facts<'_>, findings: &mut Vec<FindingRow>) {
    let mut by_cause: FxHashMap<(&str, &str), i64> = FxHashMap::default();
    let mut total = 0;
    let mut joined = 0;
    for flow in facts.profile.flows.iter().filter(|flow| matches!(flow.class, ApiClass::Wait | ApiClass::Lock)) {
        let bare = flow.api.split_once('(').map_or(flow.api.as_str(), |(bare, _)| bare);
        let ns = flow.self_ns.or(flow.total_ns).unwrap_or(0);
        if JOINING.contains(&bare) {
            joined += ns;
            continue;
        }
        total += ns;
        let group = facts.profile.threads[flow.thread as usize].group.as_str();
        *by_cause.entry((group, bare)).or_default() += ns;
    }
    // A thread that only joins takes no part in the question.
    let lifetime = facts.totals.lifetime_ns - joined;
    let share = if lifetime > 0 { (total as f64 * 100.0 / lifetime as f64).min(100.0) } else { 0.0 };
    if share < WAIT_PERCENT {
        return;
    }
    let mut causes: Vec<_> = by_cause.into_iter().collect();
    causes.sort_by_key(|&((group, api), ns)| (std::cmp::Reverse(ns), group, api));
    let list: Vec<String> = causes
        .iter()
        .take(3)
        .map(|((group, api), ns)| {
            let part = *ns as f64 * 100.0 / total.max(1) as f64;
            format!("group {group} in {api} {} ({} of it)", time(*ns), percent(part))
        })
        .collect();
    let rest = if joined > 0 {
        format!("; {} of waiting for threads or children to end left out", time(joined))
    } else {
        String::new()
    };
    findings.push(FindingRow {
        finding: format!("Threads wait for {} of their lifetime", percent(share)),
        evidence: format!("{} of {}: {}{rest}", time(total), time(lifetime), list.join(", ")),
        view: "waits".to_owned(),
        next: "See what they wait for, and whether those who work meanwhile can be sped up: --view waits, then \
               --view threads"
            .to_owned(),
        kind: FindingKind::Waiting,
        percent: share,
        ..FindingRow::default()
    });
}
