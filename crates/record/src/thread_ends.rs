//! No thread outlives its process. Of a thread that was alive when its process ended, the agent has no end, and the recorder's
//! look comes tens of milliseconds later.

use transect_profile_model::Profile;

/// Ends threads with their processes, whose ends are the kernel's. What a thread seemed to live beyond that is
/// neither its own time nor a wait.
pub(crate) fn join(profile: &mut Profile) {
    let processes = &profile.processes;
    let mut lived = vec![i64::MAX; profile.threads.len()];
    for (thread, lived) in profile.threads.iter_mut().zip(&mut lived) {
        let Some(process) = processes.get(thread.process as usize) else { continue };
        let wall_ns = (process.start_ns + process.wall_ns - thread.start_ns).max(0);
        if wall_ns >= thread.wall_ns {
            continue;
        }
        // A wait that was open at the end has its part of it.
        thread.wait_ns = thread.wait_ns.min(wall_ns);
        thread.busy_ns = wall_ns - thread.wait_ns;
        thread.outermost_ns = thread.outermost_ns.min(wall_ns);
        thread.attributed_ns = thread.attributed_ns.min(wall_ns);
        thread.outermost_attributed_ns = thread.outermost_attributed_ns.min(thread.attributed_ns);
        thread.wall_ns = wall_ns;
        *lived = wall_ns;
    }
    let most = |thread: u32| lived.get(thread as usize).copied().unwrap_or(i64::MAX);
    for flow in &mut profile.flows {
        let most = most(flow.thread);
        let totals = [&mut flow.total_ns, &mut flow.total_ns_low, &mut flow.total_ns_high];
        let own = [&mut flow.self_ns, &mut flow.self_ns_low, &mut flow.self_ns_high];
        let shares = [&mut flow.attributed_ns, &mut flow.criticality_ns];
        totals.into_iter().chain(own).chain(shares).flatten().for_each(|ns| *ns = (*ns).min(most));
    }
    for wait in &mut profile.waits {
        wait.ns = wait.ns.min(most(wait.thread));
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{Clock, Machine, Meta, Process, Thread, Wait};

    use super::*;

    fn thread(start_ns: i64, wall_ns: i64, wait_ns: i64) -> Thread {
        Thread {
            process: 0,
            tid: 10,
            name: "app".into(),
            group: "main".into(),
            start_routine: String::new(),
            start_ns,
            wall_ns,
            busy_ns: wall_ns - wait_ns,
            wait_ns,
            calls: 0,
            outermost_ns: wait_ns,
            outermost_attributed_ns: wait_ns,
            attributed_ns: wall_ns,
        }
    }

    #[test]
    fn a_thread_ends_with_its_process() {
        let machine =
            Machine { hostname: String::new(), kernel: String::new(), cpu: String::new(), cpus: 1, memory_bytes: 0 };
        let clock = Clock { source: "tsc".into(), ticks_per_ns: 1.0, timed_call_ns: 0.0, counted_call_ns: 0.0 };
        let mut profile = Profile::new(Meta::new(machine, clock));
        profile.processes.push(Process {
            pid: 10,
            parent_pid: 1,
            executable: "app".into(),
            start_ns: 50,
            wall_ns: 100,
        });
        // One that ended before, one that was looked at too late, one that waited to the end.
        profile.threads = vec![thread(60, 20, 5), thread(50, 400, 30), thread(100, 350, 340)];
        let wait = |thread, ns| Wait { thread, api: "read".into(), object: String::new(), count: 1, ns, caller: 0 };
        profile.waits = vec![wait(0, 5), wait(2, 340)];
        join(&mut profile);
        let times: Vec<_> =
            profile.threads.iter().map(|t| (t.wall_ns, t.busy_ns, t.wait_ns, t.attributed_ns)).collect();
        assert_eq!(times, [(20, 15, 5, 20), (100, 70, 30, 100), (50, 0, 50, 50)]);
        assert_eq!(profile.waits.iter().map(|wait| wait.ns).collect::<Vec<_>>(), [5, 50]);
    }
}
