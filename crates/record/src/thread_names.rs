//! One name a thread, whichever collector saw it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{ProcessId, Profile, TaskId};

use crate::sampled_flows::threads;

/// A thread of the scheduler's, and the group of its one row among the flows' threads.
type Grouped = (TaskId, Option<String>);

/// A thread that has named itself is called by that in the flows' rows, too. One that has not is of the group of its start
/// routine, which the flows' rows know, also in the scheduler's and the walk's.
pub(crate) fn join(profile: &mut Profile) {
    let tasks = &profile.sched.tasks;
    let pid = |process: ProcessId| profile.processes.get(process as usize).map(|process| process.pid);
    let firsts = tasks.iter().filter(|task| Some(task.tid) == pid(task.process));
    let first_names: HashMap<ProcessId, &str> = firsts.map(|task| (task.process, task.name.as_str())).collect();
    let mut names = Vec::new();
    let mut unnamed: HashMap<(ProcessId, String), Vec<Grouped>> = HashMap::default();
    for (number, rows) in threads(profile) {
        let task = &tasks[number as usize];
        let is_own = first_names.get(&task.process).is_some_and(|first| *first != task.name);
        if is_own && Some(task.tid) != pid(task.process) {
            names.extend(rows.into_iter().map(|row| (row, task.name.clone(), task.group.clone())));
        } else if Some(task.tid) != pid(task.process) {
            let group = match rows[..] {
                [row] => Some(profile.threads[row as usize].group.clone()),
                _ => None,
            };
            unnamed.entry((task.process, task.group.clone())).or_default().push((number, group));
        }
    }
    for ((process, before), tasks) in unnamed {
        let groups: BTreeSet<Option<&str>> = tasks.iter().map(|(_, group)| group.as_deref()).collect();
        let pid = profile.processes.get(process as usize).map(|process| process.pid);
        let of_process = |id: ProcessId| profile.processes.get(id as usize).map(|process| process.pid) == pid;
        let mut walked =
            profile.walk.groups.iter_mut().filter(|group| group.thread_group == before && of_process(group.process));
        // A group of the walk is one of names: it can't be divided.
        if let Some(group) = walked.next() {
            let [Some(after)] = groups.into_iter().collect::<Vec<_>>()[..] else { continue };
            after.clone_into(&mut group.thread_group);
        }
        for (task, group) in tasks {
            if let Some(group) = group {
                profile.sched.tasks[task as usize].group = group;
            }
        }
    }
    for (row, name, group) in names {
        let thread = &mut profile.threads[row as usize];
        (thread.name, thread.group) = (name, group);
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process, Task, Thread};

    use super::*;

    fn thread(tid: i32, group: &str) -> Thread {
        Thread {
            process: 0,
            tid,
            name: "app".into(),
            group: group.into(),
            start_routine: String::new(),
            start_ns: 0,
            wall_ns: 100,
            busy_ns: 100,
            wait_ns: 0,
            calls: 0,
            outermost_ns: 0,
            outermost_attributed_ns: 0,
            attributed_ns: 0,
        }
    }

    fn task(tid: i32, name: &str, group: &str) -> Task {
        Task {
            process: 0,
            tid,
            name: name.into(),
            group: group.into(),
            parent: None,
            start_ns: 0,
            end_ns: 100,
            criticality_ns: 0,
            running_ns: 0,
            runnable_ns: 0,
            blocked_ns: 0,
            unattributed_ns: 0,
            ..Task::default()
        }
    }

    #[test]
    fn who_has_named_itself_has_one_name() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.processes.push(Process { pid: 10, parent_pid: 1, executable: "app".into(), start_ns: 0, wall_ns: 100 });
        profile.threads = vec![thread(10, "main"), thread(11, "run"), thread(12, "run")];
        profile.sched.tasks = vec![task(10, "app", "main"), task(11, "worker1", "worker"), task(12, "app", "app")];
        join(&mut profile);
        let names: Vec<_> =
            profile.threads.iter().map(|thread| (thread.name.as_str(), thread.group.as_str())).collect();
        assert_eq!(names, [("app", "main"), ("worker1", "worker"), ("app", "run")]);
        let groups: Vec<_> = profile.sched.tasks.iter().map(|task| task.group.as_str()).collect();
        assert_eq!(groups, ["main", "worker", "run"]);
    }
}
