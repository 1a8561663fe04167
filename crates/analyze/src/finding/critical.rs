//! What holds a program's threads up, as the scheduler saw it.

use rustc_hash::FxHashMap;
use transect_profile_model::{TIME_LIMIT, WaitKind};

use super::words::{brief, percent, shell, time};
use super::{Confidence, FindingKind, FindingRow, Place};
use crate::criticality::{CPUS, GO_MONITOR, GO_SCHEDULER, PINNED};
use crate::names::file_name;
use crate::{CriticalWaitRow, CriticalityView, OtherThreadRow, PathState, WhatIfRow, WhatIfScope};

/// Part of the elapsed time from which something is worth a look, 0–100.
const LEAST_PERCENT: f64 = 5.0;
/// Findings of one kind at most.
const MOST: usize = 3;
/// Mean active threads over CPUs from which CPUs are short.
const CROWDED: f64 = 1.2;
/// Part of the time in which threads could have run from which the CPUs are taken by those that spin.
const MOSTLY_SPUN: f64 = 0.5;

/// Adds findings; says whether they explain what threads wait for.
pub(super) fn find(view: &CriticalityView, findings: &mut Vec<FindingRow>) -> bool {
    if view.run_ns() <= 0 {
        return false;
    }
    let mut explained: Vec<String> = Vec::new();
    let spinning = spinning(view);
    explained.extend(spinning.as_ref().and_then(|row| row.place.function.clone()));
    let locks = waits(view, &mut explained, false);
    let mut groups: Vec<String> = Vec::new();
    let serial = serial(view, &explained, &mut groups);
    // Who waits for a thread that is busy with what was named waits for that.
    let mut others = waits(view, &mut explained, true);
    others.retain(|(_, group)| group.is_empty() || !groups.contains(group));
    let explains = !(locks.is_empty() && others.is_empty());
    findings.extend(spinning);
    findings.extend(locks.into_iter().chain(others).map(|(finding, _)| finding));
    findings.extend(serial);
    findings.extend(crowded(view, 0));
    findings.extend(pinned(view));
    explains
}

fn share(view: &CriticalityView, ns: i64) -> f64 {
    (ns as f64 * 100.0 / view.run_ns() as f64).clamp(0.0, 100.0)
}

/// Kinds in which others only tell that they have come so far.
fn is_signal(kind: WaitKind) -> bool {
    use WaitKind as K;
    matches!(
        kind,
        K::Condition | K::Semaphore | K::Futex | K::Pipe | K::Socket | K::Poll | K::Signal | K::Other | K::Join
    )
}

/// Rows of one kind and object together: what is waited for; with the group of the thread that it depends on.
fn waits(view: &CriticalityView, explained: &mut Vec<String>, signals: bool) -> Vec<(FindingRow, String)> {
    let mut index: FxHashMap<(WaitKind, &str, &str), usize> = FxHashMap::default();
    let mut sums: Vec<(i64, i64, i64, Vec<&CriticalWaitRow>)> = Vec::new();
    for row in &view.waits {
        let told = matches!(row.kind, WaitKind::RunQueue | WaitKind::Spin);
        if told || is_signal(row.kind) != signals {
            continue;
        }
        // Without an object it is the place that tells waits apart.
        let place = if row.object.is_empty() { place(view, row) } else { "" };
        let at = *index.entry((row.kind, row.object.as_str(), place)).or_insert_with(|| {
            sums.push((0, 0, 0, Vec::new()));
            sums.len() - 1
        });
        let sum = &mut sums[at];
        sum.0 += row.critical_ns;
        sum.1 += row.ns;
        sum.2 += row.count;
        sum.3.push(row);
    }
    sums.retain(|sum| share(view, sum.0) >= LEAST_PERCENT && !is_ending(view, sum.3[0]));
    sums.sort_by_key(|sum| (std::cmp::Reverse(sum.0), std::cmp::Reverse(sum.1)));
    let finding = |(critical_ns, ns, count, rows): (i64, i64, i64, Vec<&CriticalWaitRow>)| {
        let row = rows[0];
        let party = row.holder.as_ref().or(row.waker.as_ref());
        let code = code(row).unwrap_or_else(|| place(view, row));
        explained.push(code.to_owned());
        let group = party.and_then(|party| view.threads.iter().find(|t| t.tid == party.tid && t.name == party.thread));
        let group = group.map_or_else(String::new, |thread| thread.group.clone());
        let idle: i64 = rows.iter().map(|row| row.idle_ns).sum();
        let nobody = if idle * 10 >= critical_ns && idle > 0 {
            format!("; {} of it nobody ran", percent(idle as f64 * 100.0 / critical_ns as f64))
        } else {
            String::new()
        };
        let finding = FindingRow {
            finding: waits_for(view, row),
            evidence: format!(
                "critical for {} of {}{nobody}; {} of {} in all{}",
                time(critical_ns.min(view.run_ns())),
                time(view.run_ns()),
                super::words::counted(count, "wait", "waits"),
                time(ns),
                saving(view, code),
            ),
            view: "criticality".to_owned(),
            next: advice(row.kind, code),
            kind: FindingKind::CriticalWait,
            percent: share(view, critical_ns),
            ..FindingRow::default()
        };
        (finding, group)
    };
    sums.into_iter().take(MOST).map(finding).collect()
}

/// A join or a wait for a child in which others do the program's work is how programs are put together.
fn is_ending(view: &CriticalityView, row: &CriticalWaitRow) -> bool {
    let works = |party: &OtherThreadRow| !party.function.is_empty();
    matches!(row.kind, WaitKind::Join | WaitKind::Child)
        && (row.waker.as_ref().is_some_and(works) || row.idle_ns * 2 < row.critical_ns || view.threads.len() > 1)
}

/// The code that a wait depends on: where the lock is held, what the last to come was doing.
pub(super) fn code(row: &CriticalWaitRow) -> Option<&str> {
    let named = |party: &&OtherThreadRow| !party.function.is_empty();
    let lock = row.holder.as_ref().filter(named);
    let party = lock.or(row.meanwhile.as_ref().filter(named)).or(row.waker.as_ref().filter(named))?;
    Some(&party.function)
}

fn place<'a>(view: &'a CriticalityView, row: &'a CriticalWaitRow) -> &'a str {
    let path = view.paths.iter().find(|path| path.stack == row.stack);
    path.map(|path| path.place.as_str()).or(row.stack.last().map(String::as_str)).unwrap_or("")
}

/// "Threads of group worker wait", "The main thread waits"; of threads of several groups, or of main threads of several processes, "4
/// threads wait".
pub(super) fn waiters(row: &CriticalWaitRow) -> String {
    let who = if row.group.is_empty() || row.threads <= 1 && row.group != "main" {
        "A thread".to_owned()
    } else if row.group == "main" && row.threads > 1 {
        format!("{} threads", row.threads)
    } else if row.group == "main" {
        "The main thread".to_owned()
    } else {
        format!("Threads of group {}", row.group)
    };
    let verb = if who.contains("hreads") { "wait" } else { "waits" };
    format!("{who} {verb}")
}

fn waits_for(view: &CriticalityView, row: &CriticalWaitRow) -> String {
    let who = waiters(row);
    let named = named(row.kind, &row.object);
    let at = place(view, row);
    let function = code(row).unwrap_or("code without a name");
    match (row.kind, &row.holder, &row.waker) {
        (WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock, Some(holder), _) => {
            let others = if row.holders.iter().any(|other| other.thread != holder.thread) {
                " and others hold"
            } else {
                " holds"
            };
            format!("{who} for {named} that {}{others} in {function}", holder.thread)
        }
        (WaitKind::Barrier, _, Some(waker)) => {
            let object = if row.object.is_empty() { String::new() } else { format!(" {}", row.object) };
            format!("{who} at a barrier{object} for {} in {function}", waker.thread)
        }
        (_, _, Some(waker)) => {
            format!("{who} for {named}, on {} in {function}", waker.thread)
        }
        _ if at.is_empty() => format!("{who} for {named}"),
        _ => format!("{who} for {named} in {at}"),
    }
}

pub(super) fn name(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Mutex => "the mutex",
        WaitKind::Rwlock => "the rwlock",
        WaitKind::Condition => "the condition",
        WaitKind::Barrier => "the barrier",
        WaitKind::Semaphore => "the semaphore",
        WaitKind::Join => "the end of a thread",
        WaitKind::Futex => "the futex",
        WaitKind::Sleep => "a sleep",
        WaitKind::FileRead => "reading the file",
        WaitKind::FileWrite => "writing the file",
        WaitKind::FileSync => "syncing the file",
        WaitKind::Socket => "the socket",
        WaitKind::Pipe => "the pipe",
        WaitKind::Poll => "events",
        WaitKind::Child => "a child process",
        WaitKind::PageFault => "page faults",
        WaitKind::KernelLock => "a lock of the kernel",
        WaitKind::Signal => "a signal",
        WaitKind::Spin | WaitKind::RunQueue | WaitKind::Other => "something",
    }
}

/// Kind and object of a wait. A socket whose peer nobody knows has no other name than its kind.
pub(super) fn named(kind: WaitKind, object: &str) -> String {
    let name = name(kind);
    if object == TIME_LIMIT {
        return format!("{TIME_LIMIT} that ran out (a sleep)");
    }
    if object.is_empty() || name.strip_prefix("the ") == Some(object) {
        name.to_owned()
    } else {
        format!("{name} {object}")
    }
}

pub(super) fn advice(kind: WaitKind, code: &str) -> String {
    let what = match kind {
        WaitKind::Mutex | WaitKind::Rwlock | WaitKind::KernelLock => {
            "Hold it for less, or split it: see who holds it where"
        }
        WaitKind::Barrier => "Spread the work more evenly: see who comes last",
        WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync => {
            "Do it less often, in larger pieces, or beside the work"
        }
        WaitKind::Sleep => "Wait for the event instead of for a time",
        WaitKind::PageFault => "Touch memory before it is needed, or in larger pages",
        _ => "See who waits for whom",
    };
    view_of(what, code)
}

/// `what` with the command that shows the function.
fn view_of(what: &str, function: &str) -> String {
    if function.is_empty() || function.starts_with('[') {
        return format!("{what}: --view criticality");
    }
    format!("{what}: --view criticality --api {}", shell(function))
}

/// The prediction that saves most if a function, or waiting in it, is faster by the factor `speedup`.
pub(super) fn prediction<'a>(view: &'a CriticalityView, function: &str, speedup: f64) -> Option<&'a WhatIfRow> {
    let asked = |row: &&WhatIfRow| row.path == function && row.speedup == speedup;
    view.what_if.iter().filter(asked).max_by(|a, b| a.saving.total_cmp(&b.saving))
}

/// What twice the speed of a function (or of waiting in it) would save, as the end of a sentence.
fn saving(view: &CriticalityView, function: &str) -> String {
    let Some(row) = prediction(view, function, 2.0).filter(|row| row.saving_high >= 0.01) else { return String::new() };
    let (low, high) = (row.saving_low * 100.0, row.saving_high * 100.0);
    let range = if percent(low) == percent(high) { percent(low) } else { format!("{low:.0}–{}", percent(high)) };
    let unsure = beside_others(view);
    match row.scope {
        WhatIfScope::Wait => format!("; half of the waiting in {function} would save {range}{unsure}"),
        _ => format!("; {function} at twice the speed would save {range}{unsure}"),
    }
}

/// What makes a projected saving a rough guess, in brackets.
pub(super) fn beside_others(view: &CriticalityView) -> String {
    if !view.contention.much {
        return String::new();
    }
    format!(" (a rough guess: others had the CPUs for {} of the run)", percent(view.contention.of_run * 100.0))
}

/// Waiting in loops. Go's idle threads look for goroutines, which nobody could repair.
fn spins(view: &CriticalityView) -> impl Iterator<Item = &CriticalWaitRow> {
    let idle = |function: &String| [GO_SCHEDULER, GO_MONITOR].contains(&function.as_str());
    view.waits.iter().filter(move |row| row.kind == WaitKind::Spin && !row.stack.iter().any(idle))
}

/// Threads that wait for others in a loop.
pub(super) fn spinning(view: &CriticalityView) -> Option<FindingRow> {
    let (critical, spun) = spins(view).fold((0, 0), |(c, n), row| (c + row.critical_ns, n + row.ns));
    let first = spins(view).next().filter(|_| share(view, critical) >= LEAST_PERCENT)?;
    let place = place(view, first);
    // The function with the loop may be inlined into that which stands in the symbol table.
    let loops = view.places.iter().filter(|row| row.symbol() == place && row.spin_samples > 0);
    let looping = loops.max_by_key(|row| row.spin_samples).filter(|row| row.line > 0);
    let at = looping.map(|row| format!("{} at {}:{}", brief(&row.function), file_name(&row.file), row.line));
    let at = at.unwrap_or_else(|| brief(place));
    let mut evidence = format!("{} spent waiting in a loop, mostly in {at}", time(spun));
    if let Some(worker) = &first.meanwhile {
        evidence += &format!(", while thread {} was in {}", worker.thread, brief(&worker.function));
        evidence += &saving(view, &worker.function);
    }
    // Where there are more threads than CPUs, those that spin have the CPUs that the one that they wait for lacks.
    let (finding, next, code) = if is_crowded(view) {
        let finding = format!("Threads of group {} wait for others in a loop, on CPUs that these lack", first.group);
        (finding, "Have them block (a condition variable, a futex) instead of spinning", place)
    } else {
        let code = first.meanwhile.as_ref().map_or(place, |worker| worker.function.as_str());
        let finding = format!("Threads of group {} wait for others in a loop", first.group);
        (finding, "Speed up who is waited for, or spread the work", code)
    };
    Some(FindingRow {
        finding,
        evidence,
        view: "criticality".to_owned(),
        next: view_of(next, code),
        kind: FindingKind::Spinning,
        percent: share(view, critical),
        saves_percent: Some(share(view, critical)),
        confidence: Some(Confidence::Interval),
        place: Place { function: Some(code.to_owned()), thread_group: Some(first.group.clone()), ..Place::default() },
    })
}

/// Whether more threads are active than there are CPUs.
fn is_crowded(view: &CriticalityView) -> bool {
    view.parallelism_mean.unwrap_or(0.0) >= view.cpus as f64 * CROWDED
}

/// Code that runs while CPUs have nothing to do.
fn serial(view: &CriticalityView, explained: &[String], groups: &mut Vec<String>) -> Vec<FindingRow> {
    if view.threads.len() < 2 || view.cpus < 2 {
        return Vec::new();
    }
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    // Place, low-parallelism criticality, active time, time as if alone, group.
    let mut places: Vec<(&str, i64, i64, &str)> = Vec::new();
    for row in view.paths.iter().filter(|row| row.state == PathState::Running && !row.is_unattributed()) {
        let at = *index.entry(&row.place).or_insert_with(|| {
            places.push((&row.place, 0, 0, &row.group));
            places.len() - 1
        });
        let sum = &mut places[at];
        let spun = row.spin_ns.min(row.low_parallelism_ns);
        sum.1 += row.low_parallelism_ns - spun;
        sum.2 += row.parallelism.iter().filter(|level| i64::from(level.n) < view.cpus).map(|l| l.ns).sum::<i64>();
    }
    // Where the others would only wait longer for something else, it does not matter.
    let matters =
        |place: &str| prediction(view, place, f64::INFINITY).is_none_or(|row| row.saving * 100.0 >= LEAST_PERCENT);
    let told = |place: &str| explained.iter().any(|other| other == place);
    places.retain(|&(place, low, ..)| share(view, low) >= LEAST_PERCENT && matters(place) && !told(place));
    places.sort_by_key(|&(place, low, ..)| (std::cmp::Reverse(low), place));
    places.truncate(MOST);
    groups.extend(places.iter().map(|&(.., group)| group.to_owned()));
    let finding = |(place, low, active, group): (&str, i64, i64, &str)| {
        let mean = active as f64 / low.max(1) as f64;
        let by = if group.is_empty() { String::new() } else { format!(", by group {group}") };
        FindingRow {
            finding: format!("{place} runs while most CPUs have nothing to do"),
            evidence: format!(
                "{} of {} pass in it at {:.1} active threads on the average, on {} CPUs{by}{}",
                time(low),
                time(view.run_ns()),
                mean.max(1.0),
                view.cpus,
                saving(view, place),
            ),
            view: "criticality".to_owned(),
            next: view_of("Make it faster, or have several threads do it", place),
            kind: FindingKind::SerialCode,
            percent: share(view, low),
            ..FindingRow::default()
        }
    };
    places.into_iter().map(finding).collect()
}

/// More active threads than CPUs. What is done at locks that threads wait for, `at_locks_ns`, more CPUs don't shorten.
pub(super) fn crowded(view: &CriticalityView, at_locks_ns: i64) -> Option<FindingRow> {
    let rows = || view.waits.iter().filter(|row| row.kind == WaitKind::RunQueue);
    let (critical, ns) = rows().fold((0, 0), |(c, n), row| (c + row.critical_ns, n + row.ns));
    // Sleeps and what is done under a lock take their time with any number of CPUs.
    let cpus = |row: &&WhatIfRow| row.object.is_empty() && row.path == CPUS && row.speedup.is_infinite();
    let most = view.what_if.iter().find(cpus).map_or(view.run_ns(), |row| row.saving_high_ns);
    let critical = critical.min(view.run_ns() - at_locks_ns).min(most).max(0);
    let mean = view.parallelism_mean.unwrap_or(0.0);
    let first = rows().next().filter(|_| share(view, critical) >= LEAST_PERCENT)?;
    let spun: i64 = spins(view).map(|row| row.ns).sum();
    // Of those that spin it is said that they take the CPUs.
    if !is_crowded(view) || spun as f64 >= MOSTLY_SPUN * ns as f64 {
        return None;
    }
    Some(FindingRow {
        finding: format!("Threads wait for CPUs: {mean:.1} are active on {}", view.cpus),
        evidence: format!(
            "threads could have run for {} (summed) and had no CPU, most of it group {}; with a CPU for each the run would take up to {} less of its {}",
            time(ns),
            first.group,
            time(critical),
            time(view.run_ns()),
        ),
        view: "criticality".to_owned(),
        next: "Give the program more CPUs, or do less in what takes them: --view criticality".to_owned(),
        kind: FindingKind::Oversubscription,
        percent: share(view, critical),
        saves_percent: Some(share(view, critical)),
        confidence: Some(Confidence::Exact),
        place: Place { thread_group: Some(first.group.clone()), ..Place::default() },
    })
}

/// Threads that wait for one another on the CPUs that they are pinned to, while the program may use others.
pub(super) fn pinned(view: &CriticalityView) -> Option<FindingRow> {
    let pinned = view.pinned.as_ref()?;
    let row = view.what_if.iter().find(|row| row.object == PINNED && row.speedup.is_infinite())?;
    if row.saving_high * 100.0 < LEAST_PERCENT {
        return None;
    }
    let cpus = if pinned.cpus.contains(['-', ',']) { "CPUs" } else { "CPU" };
    Some(FindingRow {
        finding: format!(
            "{} threads of the program compete for {cpus} {}, to which they are pinned",
            pinned.threads, pinned.cpus
        ),
        evidence: format!(
            "threads could have run for {} (summed) on others of the program's {} CPUs; on all of them the run would take up to {} less of its {}",
            time(pinned.ns),
            view.cpus,
            time(row.saving_high_ns),
            time(view.run_ns()),
        ),
        view: "criticality".to_owned(),
        next: "Let them use more CPUs (sched_setaffinity, taskset): --view criticality".to_owned(),
        kind: FindingKind::Oversubscription,
        percent: row.saving_high * 100.0,
        saves_percent: Some(row.saving_high * 100.0),
        confidence: Some(Confidence::Interval),
        place: Place::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_called_as_its_kind_is_named_once() {
        assert_eq!(named(WaitKind::Socket, "socket"), "the socket");
        assert_eq!(named(WaitKind::Socket, "tcp 10.0.0.1:80"), "the socket tcp 10.0.0.1:80");
        assert_eq!(named(WaitKind::Mutex, ""), "the mutex");
        assert_eq!(named(WaitKind::Poll, "a time limit"), "a time limit that ran out (a sleep)");
    }
}
