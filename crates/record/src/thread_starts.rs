//! A program's first thread begins with the kernel's start of it. The agent is there only once the loader has mapped it: what the
//! loader took before, and the kernel to execute the program, is of the thread's life, too. Where a process executes several
//! programs, each begins when the one before it ended.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{Profile, Task, ThreadId};

/// Begins the first threads of processes with their tasks. The time that this adds is in no call.
pub(crate) fn join(profile: &mut Profile, tasks: &[Task]) {
    let pid = |process: u32| profile.processes.get(process as usize).map(|process| process.pid);
    let mut programs: HashMap<i32, Vec<ThreadId>> = HashMap::default();
    for (id, thread) in (0..).zip(&profile.threads) {
        if pid(thread.process) == Some(thread.tid) {
            programs.entry(thread.tid).or_default().push(id);
        }
    }
    for threads in programs.values_mut() {
        threads.sort_by_key(|id| profile.threads[*id as usize].start_ns);
    }
    let firsts = tasks.iter().filter(|task| pid(task.process) == Some(task.tid));
    let firsts: Vec<(i32, i64, i64)> = firsts.map(|task| (task.tid, task.start_ns, task.end_ns)).collect();
    for (tid, mut begin, end) in firsts {
        for &id in programs.get(&tid).into_iter().flatten() {
            let thread = &mut profile.threads[id as usize];
            // The number may have been another process' before, or after.
            if thread.start_ns + thread.wall_ns < begin || thread.start_ns > end {
                continue;
            }
            let before = thread.start_ns - begin;
            if before > 0 {
                // As many threads are taken to have been active meanwhile as later.
                let share = thread.attributed_ns as f64 / thread.wall_ns.max(1) as f64;
                let share = if thread.wall_ns > 0 { share } else { 1.0 };
                thread.start_ns = begin;
                thread.wall_ns += before;
                thread.busy_ns += before;
                thread.attributed_ns += (before as f64 * share) as i64;
                if let Some(process) = profile.processes.get_mut(thread.process as usize) {
                    let earlier = (process.start_ns - begin).max(0);
                    (process.start_ns, process.wall_ns) = (process.start_ns - earlier, process.wall_ns + earlier);
                }
            }
            begin = thread.start_ns + thread.wall_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process, Thread};

    use super::*;

    /// A process that is another program from 500 on, and one that has its number later.
    #[test]
    fn programs_begin_with_their_process_or_after_the_one_before() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        for (start_ns, wall_ns) in [(100, 300), (500, 100), (900, 50)] {
            let process = profile.processes.len() as u32;
            profile.processes.push(Process { pid: 7, parent_pid: 1, executable: "app".into(), start_ns, wall_ns });
            profile.threads.push(Thread {
                process,
                tid: 7,
                name: "app".into(),
                group: "main".into(),
                start_routine: String::new(),
                start_ns,
                wall_ns,
                busy_ns: wall_ns,
                wait_ns: 0,
                calls: 0,
                outermost_ns: 10,
                outermost_attributed_ns: 5,
                attributed_ns: wall_ns / 2,
            });
        }
        let task = |process, start_ns, end_ns| Task {
            process,
            tid: 7,
            parent: None,
            name: "app".into(),
            group: "main".into(),
            start_ns,
            end_ns,
            criticality_ns: 0,
            running_ns: end_ns - start_ns,
            runnable_ns: 0,
            blocked_ns: 0,
            unattributed_ns: 0,
            ..Task::default()
        };
        join(&mut profile, &[task(0, 40, 600), task(2, 880, 950)]);
        let times: Vec<_> = profile
            .threads
            .iter()
            .map(|t| (t.start_ns, t.wall_ns, t.busy_ns, t.attributed_ns, t.outermost_ns))
            .collect();
        assert_eq!(times, [(40, 360, 360, 180, 10), (400, 200, 200, 100, 10), (880, 70, 70, 35, 10)]);
        let processes: Vec<_> = profile.processes.iter().map(|p| (p.start_ns, p.wall_ns)).collect();
        assert_eq!(processes, [(40, 360), (400, 200), (880, 70)]);
    }
}
