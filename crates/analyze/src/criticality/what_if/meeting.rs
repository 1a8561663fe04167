//! Threads that wait until all of them have come.

use rustc_hash::{FxHashMap, FxHashSet};
use transect_profile_model::WaitKind;

use super::super::Source;
use super::timeline::Timelines;
use super::trace::{Ending, Point, Trace};

/// Threads that meet are woken within this time, ns.
const TOGETHER: i64 = 200_000;

/// Which waits that end together count as meetings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meetings {
    /// Those at barriers.
    Barriers,
    /// Those for conditions and futexes, too.
    AllTogether,
}

/// A wake-up: who did it, when, and of which wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WakeUp {
    waker: u32,
    object: u32,
    at: i64,
    wait: u32,
}

/// Joins wake-ups in `points` to meetings: one of them is kept, and threads of the same team that came without having to
/// wait get a point of their own.
pub(super) fn arrange(
    source: &Source<'_>,
    timelines: &Timelines,
    trace: &mut Trace,
    points: &mut Vec<(u32, i64, Point)>,
    which: Meetings,
) {
    let mut wake_ups: Vec<WakeUp> = Vec::new();
    for &(waker, at, point) in points.iter() {
        let Point::Fire(wait) = point else { continue };
        let row = trace.waits[wait as usize].row as usize;
        let meets = match source.tables.waits[row].kind {
            WaitKind::Barrier => true,
            WaitKind::Condition | WaitKind::Futex => which == Meetings::AllTogether,
            _ => false,
        };
        if meets {
            wake_ups.push(WakeUp { waker, object: source.objects.of(row), at, wait });
        }
    }
    wake_ups.sort_unstable();
    let waiter = |wake_up: &WakeUp| source.tables.waits[trace.waits[wake_up.wait as usize].row as usize].task;
    let mut groups: Vec<Vec<WakeUp>> = Vec::new();
    for &wake_up in &wake_ups {
        let joins = groups.last().is_some_and(|group| {
            let first = group[0];
            (first.waker, first.object) == (wake_up.waker, wake_up.object)
                && wake_up.at - first.at <= TOGETHER
                && group.iter().all(|other| waiter(other) != waiter(&wake_up))
        });
        match groups.last_mut().filter(|_| joins) {
            Some(group) => group.push(wake_up),
            None => groups.push(vec![wake_up]),
        }
    }
    let is_barrier = |group: &[WakeUp]| {
        source.tables.waits[trace.waits[group[0].wait as usize].row as usize].kind == WaitKind::Barrier
    };
    groups.retain(|group| group.len() > 1 || is_barrier(group));

    let mut teams: FxHashMap<u32, (FxHashSet<u32>, usize)> = FxHashMap::default();
    for group in groups.iter().filter(|group| is_barrier(group)) {
        let (team, most) = teams.entry(group[0].object).or_default();
        team.insert(group[0].waker);
        team.extend(group.iter().map(waiter));
        *most = (*most).max(group.len() + 1);
    }
    let mut joined: FxHashSet<u32> = FxHashSet::default();
    let mut came: Vec<(u32, i64, Point)> = Vec::new();
    let mut endings: Vec<(u32, u32)> = Vec::new();
    for group in &groups {
        let number = trace.meetings.len() as u32;
        let first = group[0];
        let mut size = group.len() as u32 + 1;
        if let Some((team, most)) = teams.get(&first.object).filter(|_| is_barrier(group))
            && team.len() == *most
        {
            let there = |task: &u32| *task == first.waker || group.iter().any(|other| waiter(other) == *task);
            for &task in team.iter().filter(|task| !there(task)) {
                if timelines.active(source.tables, task, first.at) == Some(first.at) {
                    came.push((task, first.at, Point::Meet(number)));
                    size += 1;
                }
            }
        }
        trace.meetings.push(size);
        endings.extend(group.iter().map(|wake_up| (wake_up.wait, number)));
        joined.extend(group[1..].iter().map(|wake_up| wake_up.wait));
    }
    for (wait, number) in endings {
        trace.waits[wait as usize].ending = Ending::Meeting(number);
    }
    points.retain(|(_, _, point)| !matches!(point, Point::Fire(wait) if joined.contains(wait)));
    points.extend(came);
}
