//! Work that is spread unevenly over threads.

use super::facts::Facts;
use super::words::{percent, time};
use super::{FindingKind, FindingRow};
use crate::GroupRow;

/// "Differs by more than four times".
const BUSY_RATIO: f64 = 4.0;
/// Busiest thread of a group against its mean from which the others clearly wait for it.
const GROUP_IMBALANCE: f64 = 1.5;
/// The busiest threads must be busy for this part of the run, or else they do not determine how long it takes.
const BUSIEST_OF_WALL: f64 = 0.4;
/// Part of the run's wall time that perfect balance would save at most; below it, a rarely used helper thread
/// (logging, timers) is all there is to see.
const LEAST_GAIN_PERCENT: f64 = 20.0;
/// The main thread of most programs starts the others and joins them.
const MAIN: &str = "main";

pub(super) fn find(facts: &Facts<'_>, findings: &mut Vec<FindingRow>) {
    let wall = facts.totals.wall_ns as f64;
    if wall <= 0.0 {
        return;
    }
    for group in facts.groups.iter().filter(|group| group.group != MAIN && group.threads > 1) {
        let Some(busy) = Busy::of(group) else { continue };
        let balanced = balanced_ns(busy.all_ns, group.threads, facts);
        let gain = (busy.max_ns - balanced) as f64 * 100.0 / wall;
        let Some(imbalance) = group.imbalance else { continue };
        if imbalance >= GROUP_IMBALANCE && gain >= LEAST_GAIN_PERCENT {
            findings.push(within(&busy, imbalance, gain.min(100.0)));
        }
    }
    let mut executables: Vec<&str> = facts.groups.iter().map(|group| group.executable.as_str()).collect();
    executables.sort_unstable();
    executables.dedup();
    for executable in executables {
        let groups = facts.groups.iter().filter(|group| group.executable == executable);
        // A group of which it is not known may be the busiest.
        let Some(groups) = groups.map(Busy::of).collect::<Option<Vec<_>>>() else { continue };
        findings.extend(between(&groups, wall, facts));
    }
}

/// A group whose busy times are known.
struct Busy<'a> {
    row: &'a GroupRow,
    all_ns: i64,
    mean_ns: i64,
    max_ns: i64,
}

impl<'a> Busy<'a> {
    fn of(row: &'a GroupRow) -> Option<Self> {
        Some(Self { row, all_ns: row.busy_ns?, mean_ns: row.mean_busy_ns?, max_ns: row.max_busy_ns? })
    }
}

/// How long threads are busy that share this work evenly: no more of them run at once than there are CPUs.
fn balanced_ns(busy_ns: i64, threads: i64, facts: &Facts<'_>) -> i64 {
    let cpus = i64::from(facts.profile.meta.machine.cpus).max(1);
    busy_ns / threads.clamp(1, cpus)
}

fn within(group: &Busy<'_>, imbalance: f64, gain: f64) -> FindingRow {
    FindingRow {
        finding: format!("The threads of group {} share their work unevenly", group.row.group),
        evidence: format!(
            "busiest of {} threads {}, mean {} ({imbalance:.1} times); balance would save up to {} of the wall time",
            group.row.threads,
            time(group.max_ns),
            time(group.mean_ns),
            percent(gain),
        ),
        view: "threads".to_owned(),
        next: "Split the work into smaller pieces, or let idle threads take from busy ones: --view threads".to_owned(),
        kind: FindingKind::Imbalance,
        percent: gain,
        ..FindingRow::default()
    }
}

fn between(groups: &[Busy<'_>], wall: f64, facts: &Facts<'_>) -> Option<FindingRow> {
    let busiest = groups.iter().max_by_key(|group| group.mean_ns)?;
    // A main thread that mostly waits is normal, and so is one busy thread with a single helper.
    let counts = |group: &&Busy<'_>| group.row.group != MAIN && (busiest.row.group != MAIN || group.row.threads > 1);
    let least = groups.iter().filter(counts).min_by_key(|group| group.mean_ns)?;
    let ratio = busiest.mean_ns as f64 / least.mean_ns.max(1) as f64;
    let part: Vec<&Busy<'_>> =
        groups.iter().filter(|group| counts(group) || group.row.group == busiest.row.group).collect();
    let threads: i64 = part.iter().map(|group| group.row.threads).sum();
    let balanced = balanced_ns(part.iter().map(|group| group.all_ns).sum(), threads, facts);
    let gain = ((busiest.mean_ns - balanced) as f64 * 100.0 / wall).min(100.0);
    if ratio <= BUSY_RATIO || gain < LEAST_GAIN_PERCENT || (busiest.mean_ns as f64) < wall * BUSIEST_OF_WALL {
        return None;
    }
    let mut list = part;
    list.sort_by_key(|group| std::cmp::Reverse(group.mean_ns));
    let list: Vec<String> = list
        .iter()
        .take(6)
        .map(|group| {
            format!(
                "{} {} ({} thread{})",
                group.row.group,
                time(group.mean_ns),
                group.row.threads,
                if group.row.threads == 1 { "" } else { "s" }
            )
        })
        .collect();
    let times = if least.mean_ns > 0 { format!("{ratio:.0} times") } else { "much".to_owned() };
    Some(FindingRow {
        finding: format!("Group {} is {times} as busy as group {}", busiest.row.group, least.row.group),
        evidence: format!(
            "busy time of the mean thread: {}; balance would save up to {} of the wall time",
            list.join(", "),
            percent(gain)
        ),
        view: "threads".to_owned(),
        next: format!("Give group {} more threads or less work: --view threads", busiest.row.group),
        kind: FindingKind::Imbalance,
        percent: gain,
        ..FindingRow::default()
    })
}
