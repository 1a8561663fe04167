//! Lifetimes of counted threads, as the scheduler has them. Looks from outside find a thread some time after its first call, and
//! after its end: a short one was dead before it was seen, and has no name. The scheduler knows when each began and ended.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{ProcessId, Profile, Task, TaskId, Thread, ThreadId};

/// Gives each counted thread the lifetime, the name and the group of its task. A thread whose calls are in two rows becomes one.
pub(crate) fn join(profile: &mut Profile) {
    let pids: Vec<i32> = profile.processes.iter().map(|process| process.pid).collect();
    let pid = |process: ProcessId| pids.get(process as usize).copied();
    let mut tasks: HashMap<(Option<i32>, i32), Vec<TaskId>> = HashMap::default();
    for (number, task) in (0..).zip(&profile.sched.tasks) {
        tasks.entry((pid(task.process), task.tid)).or_default().push(number);
    }
    let task = |number: TaskId| &profile.sched.tasks[number as usize];
    let mut rows: Vec<Thread> = Vec::with_capacity(profile.threads.len());
    let mut row_of_task: HashMap<TaskId, usize> = HashMap::default();
    let mut new_ids: Vec<ThreadId> = Vec::with_capacity(profile.threads.len());
    for mut thread in std::mem::take(&mut profile.threads) {
        // Numbers come back. A thread's was seen to be free after its end, and before the next one with it has begun.
        let end_ns = thread.start_ns + thread.wall_ns;
        let of_number = tasks.get(&(pid(thread.process), thread.tid)).into_iter().flatten().copied();
        let own =
            of_number.filter(|&number| task(number).start_ns <= end_ns).max_by_key(|&number| task(number).start_ns);
        let known = own.and_then(|number| row_of_task.get(&number).copied());
        if let Some(known) = known {
            rows[known].calls += thread.calls;
        } else {
            if let Some(number) = own {
                live_as(&mut thread, task(number));
                row_of_task.insert(number, rows.len());
            }
            rows.push(thread);
        }
        new_ids.push(known.unwrap_or(rows.len() - 1) as ThreadId);
    }
    profile.threads = rows;
    let of_flows = profile.flows.iter_mut().map(|flow| &mut flow.thread);
    let of_waits = profile.waits.iter_mut().map(|wait| &mut wait.thread);
    let of_events = profile.trace.iter_mut().map(|event| &mut event.thread);
    for thread in of_flows.chain(of_waits).chain(of_events) {
        *thread = new_ids[*thread as usize];
    }
}

fn live_as(thread: &mut Thread, task: &Task) {
    (thread.start_ns, thread.wall_ns) = (task.start_ns, task.end_ns - task.start_ns);
    thread.wait_ns = task.blocked_ns.min(thread.wall_ns);
    thread.busy_ns = thread.wall_ns - thread.wait_ns;
    thread.attributed_ns = task.criticality_ns;
    (thread.name, thread.group) = (task.name.clone(), task.group.clone());
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process};

    use super::*;

    fn thread(tid: i32, start_ns: i64, wall_ns: i64, calls: i64) -> Thread {
        Thread {
            process: 0,
            tid,
            name: String::new(),
            group: String::new(),
            start_routine: String::new(),
            start_ns,
            wall_ns,
            busy_ns: wall_ns,
            wait_ns: 0,
            calls,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        }
    }

    fn task(tid: i32, name: &str, start_ns: i64, end_ns: i64) -> Task {
        let blocked_ns = (end_ns - start_ns) / 2;
        let (name, group) = (name.to_owned(), format!("of {name}"));
        Task { tid, name, group, start_ns, end_ns, blocked_ns, running_ns: blocked_ns, ..Task::default() }
    }

    fn joined(threads: Vec<Thread>, tasks: Vec<Task>) -> Vec<(String, i64, i64, i64, i64)> {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.processes.push(Process { pid: 1, parent_pid: 0, executable: "app".into(), start_ns: 0, wall_ns: 900 });
        (profile.threads, profile.sched.tasks) = (threads, tasks);
        join(&mut profile);
        let row = |row: &Thread| (row.group.clone(), row.start_ns, row.wall_ns, row.busy_ns, row.calls);
        profile.threads.iter().map(row).collect()
    }

    /// It lived for a moment between two looks: both were after its end.
    #[test]
    fn a_short_thread_is_its_task() {
        let found = joined(vec![thread(7, 150, 0, 3)], vec![task(7, "short", 110, 120)]);
        assert_eq!(found, [("of short".to_owned(), 110, 10, 5, 3)]);
    }

    #[test]
    fn threads_with_one_number_one_after_another_are_not_one() {
        let tasks = vec![task(7, "a", 0, 90), task(7, "b", 210, 220), task(7, "c", 410, 430)];
        let found = joined(vec![thread(7, 50, 50, 1), thread(7, 250, 0, 2)], tasks);
        assert_eq!(found, [("of a".to_owned(), 0, 90, 45, 1), ("of b".to_owned(), 210, 10, 5, 2)]);
    }

    /// A signal handler that came into its thread's first call has counters of its own.
    #[test]
    fn counters_of_a_handler_are_its_threads() {
        let mut found = joined(vec![thread(7, 50, 50, 1), thread(7, 50, 50, 2)], vec![task(7, "a", 0, 90)]);
        assert_eq!(found.remove(0).4, 3);
        assert!(found.is_empty());
    }

    #[test]
    fn a_thread_that_the_scheduler_lost_stays_as_it_was_seen() {
        let found = joined(vec![thread(7, 50, 50, 1)], vec![task(8, "a", 0, 90), task(7, "later", 500, 600)]);
        assert_eq!(found, [(String::new(), 50, 50, 50, 1)]);
    }
}
