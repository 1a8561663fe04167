use rustc_hash::FxHashSet;
use serde::Serialize;
use transect_profile_model::{ApiClass, Parallelism, Profile, Task, Timing};

use crate::prepared::number_flows;
use crate::sharing::Sharing;

/// Sums over the whole profile: the denominators of every percentage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Wall time of the program from its beginning on, ns; of what ran before, of the recording.
    pub wall_ns: i64,
    /// What was recorded while it ran has ended before the recording did.
    pub ended: bool,
    /// Sum of all threads' lifetimes, ns.
    pub lifetime_ns: i64,
    /// Sum of all threads' attributed lifetimes, ns.
    pub attributed_ns: i64,
    /// Sum of all threads' busy time, ns.
    pub busy_ns: i64,
    /// Time in APIs of class `lock` and `wait`, ns.
    pub wait_ns: i64,
    /// Calls of all flows.
    pub calls: i64,
    /// Calls of all flows that were timed.
    pub timed_calls: i64,
    /// Number of threads.
    pub threads: i64,
    /// Number of processes.
    pub processes: i64,
    /// Number of flows (caller, callee, API).
    pub flows: i64,
    /// False where the recording took no times (`--timing count`).
    pub timed: bool,
    /// What threads did with their time, as the scheduler saw it; `None` if it was not seen.
    pub scheduled: Option<ThreadTimes>,
    /// Time in which all threads waited that waits without a stack ended, for the header, ns.
    #[serde(skip)]
    pub idle_without_stack_ns: i64,
}

/// Time of threads by state, summed over them, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTimes {
    /// On a CPU.
    pub on_cpu_ns: i64,
    /// Runnable, without a CPU.
    pub runnable_ns: i64,
    /// Of `runnable_ns`, what the program's own threads did not use of the CPUs that it may use.
    pub others_ns: i64,
    /// Of `runnable_ns`, what threads waited for others of the program on the CPUs that they are pinned to, while it had others.
    pub pinned_ns: i64,
    /// Blocked.
    pub blocked_ns: i64,
}

/// When a launched program began, since the recording's start, ns.
fn beginning(profile: &Profile) -> i64 {
    if profile.meta.exit_status.is_none() {
        return 0;
    }
    let tasks = profile.sched.tasks.iter().map(|task| task.start_ns);
    tasks.chain(profile.processes.iter().map(|process| process.start_ns)).min().unwrap_or(0).max(0)
}

/// Whether no thread was left when the recording of running processes ended.
fn has_ended(profile: &Profile) -> bool {
    let (tasks, processes) = (&profile.sched.tasks, &profile.processes);
    let before_end = |end_ns: i64| end_ns < profile.meta.wall_ns;
    let has_ended = if !tasks.is_empty() {
        tasks.iter().all(|task| before_end(task.end_ns))
    } else {
        // The calls alone say it, too: a process that lives is known to the recording's end.
        let calls_alone = profile.meta.collectors == ["flow"] && !processes.is_empty();
        calls_alone && processes.iter().all(|process| before_end(process.start_ns + process.wall_ns))
    };
    profile.meta.exit_status.is_none() && has_ended
}

/// Sums over the whole profile.
pub fn totals(profile: &Profile) -> Totals {
    Totals::new(profile, number_flows(profile).1)
}

impl Totals {
    /// Sums, given the number of distinct flows.
    pub(crate) fn new(profile: &Profile, flows: usize) -> Self {
        let (threads, outside) = crate::thread::outside(profile);
        let mut totals = Self {
            wall_ns: wall_ns(profile),
            ended: has_ended(profile),
            threads,
            processes: profile.processes.iter().map(|process| process.pid).collect::<FxHashSet<_>>().len() as i64,
            flows: flows as i64,
            scheduled: scheduled(profile),
            idle_without_stack_ns: crate::criticality::idle_without_stack_ns(profile),
            ..Self::default()
        };
        for thread in &profile.threads {
            totals.lifetime_ns += thread.wall_ns;
            totals.attributed_ns += thread.attributed_ns;
            totals.busy_ns += thread.busy_ns;
        }
        for thread in &outside {
            totals.lifetime_ns += thread.busy_ns + thread.wait_ns;
            totals.attributed_ns += thread.busy_attributed_ns + thread.wait_attributed_ns;
            totals.busy_ns += thread.busy_ns;
        }
        let mut timeable = false;
        for flow in &profile.flows {
            totals.calls += flow.calls;
            totals.timed_calls += flow.timed_calls;
            if flow.class.is_wait() {
                totals.wait_ns += flow.self_ns.or(flow.total_ns).unwrap_or(0);
            }
            timeable |= flow.class != ApiClass::CountOnly;
            totals.timed |= flow.total_ns.is_some();
        }
        // A program without a call that can be timed has its executable's time at least.
        totals.timed |= !timeable && profile.meta.timing != Timing::Count;
        totals
    }

    /// Share of the attributed lifetime, 0–100; `None` without times.
    pub(crate) fn attributed_percent(&self, ns: i64) -> Option<f64> {
        percent(ns, self.attributed_ns)
    }

    /// Share of the raw lifetime, 0–100; `None` without times.
    pub(crate) fn raw_percent(&self, ns: i64) -> Option<f64> {
        percent(ns, self.lifetime_ns)
    }

    /// What `--min-percent` compares: the attributed share, else the raw one, else the share of the calls.
    pub(crate) fn weight(&self, attributed_ns: Option<i64>, total_ns: Option<i64>, calls: i64) -> f64 {
        let share = if self.timed {
            attributed_ns
                .and_then(|ns| percent(ns, self.attributed_ns))
                .or(total_ns.and_then(|ns| self.raw_percent(ns)))
        } else {
            percent(calls, self.calls)
        };
        share.unwrap_or(0.0)
    }
}

/// The launched program's time from start to end, ns.
pub(crate) fn wall_ns(profile: &Profile) -> i64 {
    let tasks = profile.sched.tasks.iter().map(|task| task.end_ns);
    let ends = tasks.chain(profile.processes.iter().map(|process| process.start_ns + process.wall_ns)).max();
    // On a busy machine the recorder may come to see that the program has ended long after it has.
    let end = ends.filter(|&end| end > 0 && profile.meta.exit_status.is_some()).unwrap_or(i64::MAX);
    (profile.meta.wall_ns.min(end) - beginning(profile)).max(0)
}

/// What threads of a recording of the scheduler did; `None` without one.
pub(crate) fn scheduled(profile: &Profile) -> Option<ThreadTimes> {
    let session = profile.meta.criticality.as_ref().filter(|session| !session.estimate)?;
    let sum = |of: fn(&Task) -> i64| profile.sched.tasks.iter().map(of).sum::<i64>();
    // Threads beyond the number of CPUs queue for their own sake.
    let own = |level: &Parallelism| (i64::from(level.n) - session.cpus).max(0).saturating_mul(level.ns);
    let queued: i64 = profile.sched.parallelism.iter().map(own).sum();
    let sharing = Sharing::new(&profile.sched.tasks, session.cpus);
    let on_cpu_ns = sum(|task| task.running_ns);
    let runnable_ns = sum(|task| task.runnable_ns);
    let pinned_ns = if sharing.is_pinned() {
        let all = sharing.queued(&profile.sched, &[]).0 as i64;
        (all - queued).min(runnable_ns - queued).max(0)
    } else {
        0
    };
    // While other programs did nothing, a thread waited for its CPU to wake up.
    let others = profile.meta.machine_busy_ns.map_or(i64::MAX, |busy_ns| busy_ns - on_cpu_ns);
    Some(ThreadTimes {
        on_cpu_ns,
        runnable_ns,
        others_ns: (runnable_ns - queued - pinned_ns).min(others).max(0),
        pinned_ns,
        blocked_ns: sum(|task| task.blocked_ns),
    })
}

fn percent(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process};

    use super::*;

    #[test]
    fn counted_calls_tell_whether_a_running_process_has_ended() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta { wall_ns: 100, ..Meta::new(machine, clock) });
        profile.meta.collectors = vec!["flow".to_owned()];
        let process = |wall_ns| Process { pid: 1, parent_pid: 0, executable: String::new(), start_ns: 5, wall_ns };
        let mut ended = |lives: &[i64]| {
            profile.processes = lives.iter().copied().map(process).collect();
            has_ended(&profile)
        };
        assert!(ended(&[94]) && ended(&[20, 94]));
        assert!(!ended(&[95]) && !ended(&[20, 96]), "known to the end");
        assert!(!ended(&[]));
        profile.meta.exit_status = Some(0);
        assert!(!has_ended(&profile), "its status says more");
    }
}
