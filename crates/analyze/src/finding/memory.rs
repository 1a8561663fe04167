//! Memory that goes back to the kernel only to be asked for again.

use super::facts::{ApiFact, Facts};
use super::words::{count, percent, time};
use super::{Confidence, FindingKind, FindingRow, Place};

/// Calls that give pages back.
const RETURNING: [&str; 7] = ["madvise", "munmap", "brk", "sbrk", "malloc_trim", "posix_madvise", "process_madvise"];
/// Fewer calls than this are start-up, thread exits and large buffers.
const LEAST_CALLS: i64 = 1_000;
/// Share of running time from which it is worth changing an allocator's settings. The page faults that follow cost
/// about as much again and are not in it, since no call marks them.
const LEAST_PERCENT: f64 = 2.0;

pub(super) fn find<'a>(facts: &'a Facts<'a>, findings: &mut Vec<FindingRow>, explained: &mut Vec<&'a ApiFact<'a>>) {
    let returning: Vec<&ApiFact<'_>> = facts.apis.iter().filter(|api| RETURNING.contains(&api.bare_name())).collect();
    let calls: i64 = returning.iter().map(|api| api.all.calls).sum();
    let attributed: f64 = returning.iter().map(|api| api.all.self_attributed_ns).sum();
    let share = facts.running_percent(attributed);
    let Some(most) = returning.iter().max_by_key(|api| (api.all.self_ns, api.all.calls)) else { return };
    if calls < LEAST_CALLS || share < LEAST_PERCENT {
        return;
    }
    let own: i64 = returning.iter().map(|api| api.all.self_ns).sum();
    let caller = most.main_caller().map_or("?", |(id, _)| facts.names.get(id));
    let share_of_run = facts.percent(attributed);
    findings.push(FindingRow {
        finding: format!("{caller} returns memory to the kernel again and again ({})", most.bare_name()),
        evidence: format!(
            "{} calls of {} take {}, {} of the running time, {} a call; the page faults that follow come on top",
            count(calls),
            names(&returning),
            time(own),
            percent(share),
            time(own / calls),
        ),
        view: "callers".to_owned(),
        next: format!(
            "Make the allocator keep freed memory (glibc: MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_; jemalloc: \
             dirty_decay_ms), or reuse buffers; who calls it: --view callers {}",
            facts.options(most)
        ),
        kind: FindingKind::EagerMemoryReturn,
        percent: share_of_run,
        saves_percent: facts.totals.timed.then_some(share_of_run),
        confidence: Some(Confidence::Interval),
        place: Place {
            component: Some(facts.names.get(most.callee).to_owned()),
            api: Some(most.api.to_owned()),
            ..Place::default()
        },
    });
    explained.extend(returning);
}

fn names(apis: &[&ApiFact<'_>]) -> String {
    let mut names: Vec<&str> = apis.iter().filter(|api| api.all.calls > 0).map(|api| api.bare_name()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
