use transect_profile_model::{
    CallStack, OtherThread, Process, SchedSession, SchedWait, Slice, Task, TimedSample, WaitKind, WalkFrame, WalkNode,
};

use super::*;
use crate::synthetic;

const MS: i64 = 1_000_000;

/// A proxy of one thread that waits in `select` for its helper nine of ten milliseconds; the helper is in `unlink` then:
/// of each wait 6 ms blocked in the disk, 3 ms computing.
fn proxy_and_helper() -> Profile {
    let mut profile = synthetic::empty();
    let tables = &mut profile.sched;
    for name in ["main", "serve", "select", "remove_file", "unlink", "submit_bio_wait"] {
        let space = if name == "submit_bio_wait" { Space::Kernel } else { Space::User };
        let (function, file) = (name.to_owned(), "proxy.c".to_owned());
        tables.frames.push(StackFrame { function, component: None, file, line: 7, inlined: false, space });
    }
    for frames in [vec![0, 1, 2], vec![0, 3, 4], vec![0, 3, 4, 5]] {
        tables.stacks.push(CallStack { frames, complete: true, linked: 0 });
    }
    for (pid, name) in [(10, "proxy"), (11, "helper")] {
        let executable = format!("/bin/{name}");
        profile.processes.push(Process { pid, parent_pid: 1, executable, start_ns: 0, wall_ns: 1000 * MS });
        tables.tasks.push(Task {
            process: pid as u32 - 10,
            tid: pid,
            name: name.to_owned(),
            group: name.to_owned(),
            parent: None,
            start_ns: 0,
            end_ns: 1000 * MS,
            criticality_ns: 0,
            running_ns: 400 * MS,
            runnable_ns: 0,
            blocked_ns: 600 * MS,
            unattributed_ns: 0,
            ..Task::default()
        });
    }
    let wait = |task, kind, stack, begin: i64, end: i64, waker: Option<TaskId>| SchedWait {
        task,
        kind,
        object: "".into(),
        stack: Some(stack),
        holder: None,
        waker: waker.map(|task| OtherThread { task, stack: None }),
        count: 1,
        begin_ns: begin * MS,
        end_ns: end * MS,
        ns: (end - begin) * MS,
        idle_ns: 0,
        holder_gain_ns: 0,
    };
    for round in 0..100 {
        let at = round * 10;
        tables.waits.push(wait(0, WaitKind::Poll, 0, at + 1, at + 10, Some(1)));
        tables.waits.push(wait(1, WaitKind::FileWrite, 2, at + 1, at + 7, None));
        tables.moments.push(TimedSample { time_ns: (at + 8) * MS, task: 1, stack: 1, period_ns: MS });
    }
    tables.slices = Vec::<Slice>::new();
    profile.meta.criticality = Some(SchedSession {
        estimate: false,
        per_process: false,
        cpus: 2,
        sample_hz: 997,
        min_parallelism: 2,
        stack_depth: 127,
        busy_ns: 0,
        idle_ns: 0,
        unattributed_ns: 0,
        drift: 0,
        slices: 0,
        critical_slices: 0,
        start_ns: 0,
        end_ns: 1000 * MS,
    });
    let (total, on_ns, runnable_ns, blocked_ns) = (1000 * MS, 100 * MS, 0, 900 * MS);
    profile.walk.groups.push(WalkGroup {
        process: 0,
        thread_group: "main".to_owned(),
        threads: 1,
        total,
        on_ns,
        runnable_ns,
        blocked_ns,
    });
    profile.walk.nodes.push(WalkNode {
        group: 0,
        parent: None,
        function: "select".to_owned(),
        component: None,
        space: Space::User,
        inlined: false,
        file: String::new(),
        line: 0,
        address: None,
        total: 900 * MS,
        on_ns: 0,
        runnable_ns,
        blocked_ns,
        samples: 100,
    });
    profile.walk.chains.push(WalkChain {
        group: 0,
        share: 0.9,
        ends: WalkEnd::Waiting,
        waiting_for: "poll".to_owned(),
        woken_by: "helper in write".to_owned(),
        frames: vec![WalkFrame {
            node: 0,
            share: 0.9,
            share_low: 0.9,
            share_high: 0.9,
            method: transect_profile_model::ShareMethod::Sampled,
            disputed: None,
            woken_by: String::new(),
        }],
    });
    profile
}

fn continued(profile: &Profile, threshold: f64) -> Vec<WalkContinuation> {
    let names = Names::new(profile);
    let all = Continuations::new(profile, &names, threshold);
    all.map(|all| all.of(&profile.walk.chains[0])).unwrap_or_default()
}

#[test]
fn a_wait_goes_on_in_who_ended_it_weighted_by_the_time_waited() {
    let found = continued(&proxy_and_helper(), 0.25);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].thread_group.as_str(), found[0].process), ("helper", 11));
    let shares: Vec<(&str, i64)> =
        found[0].frames.iter().map(|frame| (frame.function.as_str(), (frame.share * 100.0).round() as i64)).collect();
    assert_eq!(shares, [("main", 90), ("remove_file", 90), ("unlink", 90), ("submit_bio_wait", 60)]);
    assert_eq!((found[0].ends, found[0].waiting_for.as_str()), (WalkEnd::Waiting, "file-write"));
}

#[test]
fn a_chain_whose_wait_nobody_ended_goes_nowhere() {
    let mut profile = proxy_and_helper();
    profile.sched.waits.iter_mut().for_each(|wait| wait.waker = None);
    assert_eq!(continued(&profile, 0.25), []);
    let mut profile = proxy_and_helper();
    profile.walk.chains[0].ends = WalkEnd::Function;
    assert_eq!(continued(&profile, 0.25), []);
}

#[test]
fn nothing_is_said_below_the_threshold() {
    assert_eq!(continued(&proxy_and_helper(), 0.95), []);
}

#[test]
fn threads_that_wait_for_one_another_end_it() {
    let mut profile = proxy_and_helper();
    for wait in profile.sched.waits.iter_mut().filter(|wait| wait.task == 1) {
        wait.waker = Some(OtherThread { task: 0, stack: None });
    }
    assert_eq!(continued(&profile, 0.25).len(), 1);
}

/// A program that starts a helper for each piece of work, five of them one after the other; each is of one program, and waits for
/// its own child in turn.
#[test]
fn who_waits_for_many_processes_of_one_program_waits_for_that_program() {
    let mut profile = proxy_and_helper();
    let pids = |kind: usize, round: usize| (2 + kind * 5 + round) as u32;
    for (kind, name) in ["driver", "compiler"].into_iter().enumerate() {
        for round in 0..5 {
            let (pid, executable) = (100 + pids(kind, round) as i32, format!("/bin/{name}"));
            profile.processes.push(Process { pid, parent_pid: 1, executable, start_ns: 0, wall_ns: 1000 * MS });
            let (process, tid) = (pids(kind, round), pid);
            let task =
                Task { process, tid, name: name.to_owned(), group: name.to_owned(), ..profile.sched.tasks[1].clone() };
            profile.sched.tasks.push(task);
        }
    }
    profile.sched.waits.clear();
    profile.sched.moments.clear();
    for round in 0..5 {
        let (begin, end) = (round as i64 * 200 * MS, (round as i64 + 1) * 200 * MS);
        let mut wait = |task: u32, stack, waker: u32| {
            profile.sched.waits.push(SchedWait {
                task,
                kind: WaitKind::Child,
                object: "".into(),
                stack: Some(stack),
                holder: None,
                waker: Some(OtherThread { task: waker, stack: None }),
                count: 1,
                begin_ns: begin,
                end_ns: end,
                ns: end - begin,
                idle_ns: 0,
                holder_gain_ns: 0,
            });
        };
        wait(0, 0, pids(0, round));
        wait(pids(0, round), 2, pids(1, round));
        let (time_ns, task) = (begin + MS, pids(1, round));
        profile.sched.moments.push(TimedSample { time_ns, task, stack: 1, period_ns: MS });
    }
    profile.walk.chains[0].waiting_for = "child".to_owned();
    let told = |profile: &Profile| -> Vec<(String, i64, WalkEnd)> {
        let found = continued(profile, 0.25);
        found.iter().map(|part| (part.executable.clone(), part.processes, part.ends)).collect()
    };
    let (driver, compiler) = (("driver".to_owned(), 5, WalkEnd::Waiting), "compiler".to_owned());
    assert_eq!(told(&profile), [driver.clone(), (compiler.clone(), 5, WalkEnd::Function)]);
    // They are known where no sample says what the compilers did.
    profile.sched.moments.clear();
    assert_eq!(told(&profile), [driver, (compiler, 5, WalkEnd::NothingAboveThreshold)]);
}
