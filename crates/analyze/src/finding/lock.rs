//! Locks: those that threads wait for, and those that cost without anybody waiting.

use rustc_hash::FxHashMap;
use transect_profile_model::ApiClass;

use super::facts::{ApiFact, Facts};
use super::words::{count, percent, time};
use super::{FindingKind, FindingRow};

/// Share of threads' lifetime spent waiting for one lock from which it limits the program.
const WAIT_PERCENT: f64 = 5.0;
/// "In the millions".
const HOT_ACQUISITIONS: i64 = 1_000_000;
/// Above this contended share of its acquisitions, waiting is the lock's story.
const UNCONTENDED_PERCENT: f64 = 1.0;
/// Share of running time in taking and releasing locks from which fewer acquisitions pay.
const HOT_PERCENT: f64 = 3.0;
/// Mean time of an acquisition up to which it is uncontended, where the recording has no lock table: an uncontended
/// pthread mutex takes 10 to 30 ns, one trip through the kernel more than 500.
const UNCONTENDED_NS: i64 = 150;

/// One lock, its call paths together.
#[derive(Default)]
struct Sums<'a> {
    acquisitions: i64,
    contended: i64,
    wait_ns: i64,
    hold_ns: i64,
    most: Option<(i64, &'a str)>,
}

pub(super) fn find<'a>(facts: &'a Facts<'a>, findings: &mut Vec<FindingRow>, explained: &mut Vec<&'a ApiFact<'a>>) {
    let mut locks: FxHashMap<(u32, &str), Sums<'_>> = FxHashMap::default();
    for lock in &facts.profile.locks {
        let sums = locks.entry((lock.process, &lock.object)).or_default();
        sums.acquisitions += lock.acquisitions;
        sums.contended += lock.contended;
        sums.wait_ns += lock.wait_ns;
        sums.hold_ns += lock.hold_ns;
        sums.most = sums.most.max(Some((lock.acquisitions, &lock.path)));
    }
    let mut locks: Vec<_> = locks.into_iter().collect();
    locks.sort_by_key(|((process, object), sums)| (std::cmp::Reverse(sums.wait_ns), *process, *object));

    let (acquiring, releasing): (Vec<&ApiFact<'_>>, Vec<_>) =
        facts.apis.iter().filter(|api| is_lock_call(api)).partition(|api| api.class == ApiClass::Lock);
    let attributed: f64 = acquiring.iter().chain(&releasing).map(|api| api.all.self_attributed_ns).sum();
    let own: i64 = acquiring.iter().chain(&releasing).map(|api| api.all.self_ns).sum();
    let waited: i64 = facts.profile.locks.iter().map(|lock| lock.wait_ns).sum();
    let taken: i64 = facts.profile.locks.iter().map(|lock| lock.acquisitions).sum();

    for ((_, object), sums) in &locks {
        let wait = facts.raw_percent(sums.wait_ns);
        let contended = sums.contended as f64 * 100.0 / sums.acquisitions.max(1) as f64;
        if wait >= WAIT_PERCENT && sums.contended > 0 {
            findings.push(contended_row(object, sums, wait, contended));
            continue;
        }
        // Its part of the calls' time, less the waiting, which is reported for the other locks.
        let part = sums.acquisitions as f64 / taken.max(1) as f64;
        let uncontended = if own > 0 { ((own - waited).max(0)) as f64 / own as f64 } else { 0.0 };
        let cost = attributed * uncontended * part;
        let share = facts.running_percent(cost);
        if sums.acquisitions >= HOT_ACQUISITIONS && contended < UNCONTENDED_PERCENT && share >= HOT_PERCENT {
            let ns = ((own - waited).max(0) as f64 * part) as i64;
            findings.push(hot_row(object, sums, share, contended, ns, facts.percent(cost)));
            explained.extend(&acquiring);
            explained.extend(&releasing);
        }
    }
    if facts.profile.locks.is_empty() {
        find_by_calls(facts, &acquiring, &releasing, findings, explained);
    }
}

/// Without a lock table: the calls alone tell whether locks cost, not which lock.
fn find_by_calls<'a>(
    facts: &Facts<'_>,
    acquiring: &[&'a ApiFact<'a>],
    releasing: &[&'a ApiFact<'a>],
    findings: &mut Vec<FindingRow>,
    explained: &mut Vec<&'a ApiFact<'a>>,
) {
    for api in acquiring {
        let name = api.bare_name();
        let caller = api.main_caller().map_or("?", |(id, _)| facts.names.get(id));
        let by = format!("{} calls, most from {caller}, {} a call", count(api.all.calls), time(api.all.mean_ns()));
        let next = |what: &str| format!("{what}; who takes it: --view callers {}", facts.options(api));
        if api.all.mean_ns() > UNCONTENDED_NS && facts.raw_percent(api.all.self_ns) >= WAIT_PERCENT {
            findings.push(FindingRow {
                finding: format!("Threads wait for locks in {name}"),
                evidence: format!("{} of threads' lifetime: {by}", percent(facts.raw_percent(api.all.self_ns))),
                view: "callers".to_owned(),
                next: next("Hold the lock for a shorter time, or split it"),
                kind: FindingKind::ContendedLock,
                percent: facts.raw_percent(api.all.self_ns),
                ..FindingRow::default()
            });
            continue;
        }
        let pair: f64 =
            releasing.iter().filter(|other| same_lock_kind(api, other)).map(|o| o.all.self_attributed_ns).sum();
        let cost = api.all.self_attributed_ns + pair;
        if api.all.calls >= HOT_ACQUISITIONS
            && api.all.mean_ns() <= UNCONTENDED_NS
            && facts.running_percent(cost) >= HOT_PERCENT
        {
            findings.push(FindingRow {
                finding: format!("Locks are taken {} times without contention", count(api.all.calls)),
                evidence: format!(
                    "{} of the running time in {name} and its release: {by}",
                    percent(facts.running_percent(cost))
                ),
                view: "callers".to_owned(),
                next: next("Take the lock once for several operations, or use thread-local or lock-free data"),
                kind: FindingKind::HotLock,
                percent: facts.percent(cost),
                ..FindingRow::default()
            });
            explained.push(api);
            explained.extend(releasing.iter().filter(|other| same_lock_kind(api, other)));
        }
    }
}

fn is_lock_call(api: &ApiFact<'_>) -> bool {
    let name = api.bare_name();
    api.class == ApiClass::Lock
        || (name.starts_with("pthread_") && (name.ends_with("_unlock") || name.ends_with("_trylock")))
}

/// `pthread_mutex_lock` and `pthread_mutex_unlock`.
fn same_lock_kind(acquire: &ApiFact<'_>, release: &ApiFact<'_>) -> bool {
    let kind = |name: &str| name.split('_').nth(1).map(str::to_owned);
    kind(acquire.bare_name()) == kind(release.bare_name())
}

fn contended_row(object: &str, sums: &Sums<'_>, wait: f64, contended: f64) -> FindingRow {
    let path = sums.most.map_or("", |(_, path)| path);
    FindingRow {
        finding: format!("Threads wait for {object}"),
        evidence: format!(
            "{} of waiting, {} of threads' lifetime; {} of {} acquisitions found it held; held for {} a time; most \
             often taken by {path}",
            time(sums.wait_ns),
            percent(wait),
            percent(contended),
            count(sums.acquisitions),
            time(sums.hold_ns / sums.acquisitions.max(1)),
        ),
        view: "locks".to_owned(),
        next: "Hold it for a shorter time, or split it by data: --view locks".to_owned(),
        kind: FindingKind::ContendedLock,
        percent: wait,
        ..FindingRow::default()
    }
}

fn hot_row(object: &str, sums: &Sums<'_>, share: f64, contended: f64, ns: i64, of_run: f64) -> FindingRow {
    let path = sums.most.map_or("", |(_, path)| path);
    FindingRow {
        finding: format!("{object} is taken {} times without contention", count(sums.acquisitions)),
        evidence: format!(
            "taking and releasing it costs about {}, {} of the running time; {} of acquisitions found it held; most \
             often taken by {path}",
            time(ns),
            percent(share),
            percent(contended),
        ),
        view: "locks".to_owned(),
        next: "Take it once for several operations, or use thread-local or lock-free data: --view locks".to_owned(),
        kind: FindingKind::HotLock,
        percent: of_run,
        ..FindingRow::default()
    }
}
