//! Waits that another process ended unseen: a peer on a socket, through the network's interrupt. A replay lets them last as long as
//! they did; what they wait for may be what a candidate makes shorter. So the range reaches as far as the time in which all waited.

use transect_profile_model::{ProcessId, SchedWait, WaitKind};

use super::super::Source;

/// Waits that may depend on other processes, by their begin.
pub(super) struct Hidden {
    begins: Vec<i64>,
    /// The latest end of those so far, and the latest of another process.
    ends: Vec<[(i64, Option<ProcessId>); 2]>,
}

impl Hidden {
    pub fn new(source: &Source<'_>) -> Self {
        let process = |wait: &SchedWait| source.tables.tasks.get(wait.task as usize).map(|task| task.process);
        let mut waits: Vec<&SchedWait> = source.tables.waits.iter().filter(|wait| may_depend(wait)).collect();
        waits.sort_by_key(|wait| wait.begin_ns);
        let mut last = [(i64::MIN, None); 2];
        let mut ends = Vec::with_capacity(waits.len());
        for wait in &waits {
            last = with(last, (wait.end_ns, process(wait)));
            ends.push(last);
        }
        Self { begins: waits.iter().map(|wait| wait.begin_ns).collect(), ends }
    }

    /// Idle time of rows at whose end a thread of another process waits for something that nobody was seen to give it, ns.
    pub fn idle_ns(&self, source: &Source<'_>, rows: &[u32]) -> i64 {
        let wait = |row: &u32| &source.tables.waits[*row as usize];
        let depends = |wait: &&SchedWait| {
            let own = source.tables.tasks.get(wait.task as usize).map(|task| task.process);
            let begun = self.begins.partition_point(|&begin| begin < wait.end_ns);
            let others = begun.checked_sub(1).map(|last| self.ends[last]);
            others.is_some_and(|ends| ends.iter().any(|&(end, process)| end >= wait.end_ns && process != own))
        };
        rows.iter().map(wait).filter(|wait| wait.idle_ns > 0).filter(depends).map(|wait| wait.idle_ns).sum()
    }
}

/// The two latest ends, of different processes.
fn with(
    [first, second]: [(i64, Option<ProcessId>); 2],
    new: (i64, Option<ProcessId>),
) -> [(i64, Option<ProcessId>); 2] {
    match (new.1 == first.1, new.0 > first.0) {
        (true, true) => [new, second],
        (true, false) => [first, second],
        (false, true) => [new, first],
        (false, false) if new.0 > second.0 => [first, new],
        (false, false) => [first, second],
    }
}

/// Nobody was seen to end it, and it is for what another process may do.
fn may_depend(wait: &SchedWait) -> bool {
    use WaitKind as K;
    let outside = matches!(wait.kind, K::Socket | K::Poll | K::Pipe | K::Mutex | K::Rwlock | K::Semaphore | K::Futex);
    outside && wait.waker.is_none() && wait.holder.is_none()
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn the_latest_ends_are_of_two_processes() {
        let none = [(i64::MIN, None); 2];
        let all = [(5, Some(1)), (9, Some(1)), (7, Some(2)), (8, Some(3)), (20, Some(2))];
        assert_eq!(all.into_iter().fold(none, with), [(20, Some(2)), (9, Some(1))]);
    }
}
