//! APIs that cost much: because they are called so often for so little, or simply so.

use transect_profile_model::ApiClass;

use super::facts::{ApiFact, Facts};
use super::words::{count, percent, size, time};
use super::{Confidence, FindingKind, FindingRow, Place};

/// Share of running time from which one API is worth a look whatever it does.
const HEAVY_PERCENT: f64 = 20.0;
/// "Millions of times".
const MANY_CALLS: i64 = 1_000_000;
/// A call that does less than this does little more than to be called: a call through linkage, the argument checks
/// and the return are a few nanoseconds, and no loop of any length fits.
const TINY_SELF_NS: i64 = 60;
/// A copy, read or write of less than four cache lines is dominated by the call.
const TINY_BYTES: f64 = 256.0;
/// Share of running time from which many tiny calls matter: their cost in the *caller* (spilled registers, a lost
/// chance to inline) comes on top and is not measured.
const TINY_PERCENT: f64 = 5.0;
/// When one API makes half of all calls, a smaller share is worth a word.
const DOMINANT_CALLS_PERCENT: f64 = 50.0;
/// The smaller share of that case.
const DOMINANT_PERCENT: f64 = 2.0;
/// Input and output: a system call costs a few hundred nanoseconds, so that fewer calls already matter.
const MANY_IO_CALLS: i64 = 10_000;
/// Share of running time from which tiny input and output matters.
const TINY_IO_PERCENT: f64 = 2.0;
/// A call that takes longer is waiting for its peer, not paying for being small.
const TINY_IO_SELF_NS: i64 = 20_000;

pub(super) fn find<'a>(facts: &'a Facts<'a>, findings: &mut Vec<FindingRow>, explained: &mut Vec<&'a ApiFact<'a>>) {
    for api in &facts.apis {
        if explained.iter().any(|other| std::ptr::eq(*other, api)) {
            continue;
        }
        let kind = match api.class {
            ApiClass::Io if tiny_io(facts, api) => FindingKind::TinyIo,
            ApiClass::Compute if tiny_calls(facts, api) => FindingKind::TinyCalls,
            ApiClass::Compute if facts.running_percent(api.all.self_attributed_ns) >= HEAVY_PERCENT => {
                FindingKind::HeavyApi
            }
            _ => continue,
        };
        findings.push(row(facts, api, kind));
        explained.push(api);
    }
}

fn tiny_io(facts: &Facts<'_>, api: &ApiFact<'_>) -> bool {
    api.all.calls >= MANY_IO_CALLS
        && api.all.mean_bytes().is_some_and(|bytes| bytes < TINY_BYTES)
        && api.all.mean_ns() <= TINY_IO_SELF_NS
        && facts.running_percent(api.all.self_attributed_ns) >= TINY_IO_PERCENT
        && facts.could_move_more(api.bare_name())
}

fn tiny_calls(facts: &Facts<'_>, api: &ApiFact<'_>) -> bool {
    if api.all.calls < MANY_CALLS {
        return false;
    }
    let of_all_calls = calls_percent(facts, api);
    if !facts.totals.timed {
        return of_all_calls >= DOMINANT_CALLS_PERCENT;
    }
    let tiny = api.all.mean_ns() <= TINY_SELF_NS || api.all.mean_bytes().is_some_and(|bytes| bytes < TINY_BYTES);
    let share = facts.running_percent(api.all.self_attributed_ns);
    tiny && (share >= TINY_PERCENT || (of_all_calls >= DOMINANT_CALLS_PERCENT && share >= DOMINANT_PERCENT))
}

fn calls_percent(facts: &Facts<'_>, api: &ApiFact<'_>) -> f64 {
    api.all.calls as f64 * 100.0 / facts.totals.calls.max(1) as f64
}

fn row(facts: &Facts<'_>, api: &ApiFact<'_>, kind: FindingKind) -> FindingRow {
    let callee = facts.names.get(api.callee);
    let name = api.bare_name();
    let caller = api.main_caller().map(|(id, share)| (facts.names.get(id), share));
    let by = caller.map_or(String::new(), |(caller, share)| format!(", {} of them from {caller}", percent(share)));
    let bytes = api.all.mean_bytes().map_or(String::new(), |bytes| format!(", {} a call", size(bytes)));
    let calls = count(api.all.calls);
    let evidence = if facts.totals.timed {
        format!(
            "{} of the running time ({}) in {calls} calls{by}; {} a call{bytes}",
            percent(facts.running_percent(api.all.self_attributed_ns)),
            time(api.all.self_ns),
            time(api.all.mean_ns()),
        )
    } else {
        format!("{calls} calls, {} of all{by}{bytes}; no times were taken", percent(calls_percent(facts, api)))
    };
    let options = facts.options(api);
    let (finding, next) = match kind {
        FindingKind::TinyIo => (
            format!("{name} in {callee} moves {} at a time", size(api.all.mean_bytes().unwrap_or(0.0))),
            format!("Buffer it, or map the file; who calls it: --view callers {options}"),
        ),
        FindingKind::TinyCalls => (
            format!("{name} in {callee} is called {calls} times for very little each"),
            format!("Call it less often (batch, cache, inline, another data structure): --view callers {options}"),
        ),
        _ => (
            format!("{name} in {callee} takes a large share of the time"),
            format!("See who calls it and how often: --view callers {options}"),
        ),
    };
    let share_of_run =
        if facts.totals.timed { facts.percent(api.all.self_attributed_ns) } else { calls_percent(facts, api) };
    FindingRow {
        finding,
        evidence,
        view: "callers".to_owned(),
        next,
        kind,
        percent: share_of_run,
        saves_percent: facts.totals.timed.then_some(share_of_run),
        confidence: Some(Confidence::Interval),
        place: Place { component: Some(callee.to_owned()), api: Some(api.api.to_owned()), ..Place::default() },
    }
}
