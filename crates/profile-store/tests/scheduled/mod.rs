//! A profile with rows in every table of the scheduler collector.

use transect_analyze::synthetic::empty;
use transect_profile_model::{
    CallStack, Component, Origin, OtherThread, Parallelism, Process, Profile, SchedSample, SchedSession, SchedTables,
    SchedWait, Slice, Space, StackFrame, StackInstruction, Task, TimedSample, WaitKind,
};

/// Two processes of `threads` threads that run and wait in turn, `rounds` times.
pub fn scheduled(threads: u32, rounds: u32) -> Profile {
    let mut profile = empty();
    profile.components.push(Component {
        path: "/opt/app/bin/app".into(),
        build_id: "ab12".into(),
        executable: true,
        synthetic: false,
        static_in: None,
    });
    profile.processes = (0..2)
        .map(|number| Process {
            pid: 400 + number,
            parent_pid: 1,
            executable: "/opt/app/bin/app".into(),
            start_ns: 0,
            wall_ns: 1_000_000_000,
        })
        .collect();
    let mut sched = SchedTables::default();
    for number in 0..2 * threads {
        let process = number % 2;
        let main = number < 2;
        sched.tasks.push(Task {
            parent: (!main).then_some(process),
            process,
            tid: 400 + number as i32,
            name: if main { "app".into() } else { format!("worker-{number}") },
            group: if main { "main".into() } else { "worker".into() },
            start_ns: 0,
            end_ns: 1_000_000_000,
            criticality_ns: 1_000_003 + i64::from(number),
            running_ns: 7_000_000,
            runnable_ns: 5,
            blocked_ns: 992_999_995,
            unattributed_ns: 3,
            allowed_cpus: if main { String::new() } else { "0-3,8".into() },
            nice: 5 - number as i32,
        });
    }
    for n in 0..5 {
        let process = (n > 2).then_some(n as u32 % 2);
        sched.parallelism.push(Parallelism { process, n, ns: 1000 * i64::from(n) });
    }
    let frame = |function: &str, component, space, inlined| StackFrame {
        function: function.into(),
        component,
        file: if inlined { "/src/app.cc".into() } else { String::new() },
        line: if inlined { 17 } else { 0 },
        inlined,
        space,
    };
    sched.frames = vec![
        frame("main", Some(0), Space::User, false),
        frame("queue::take(Item&)", Some(0), Space::User, true),
        frame("0x7f0012", None, Space::User, false),
        frame("futex_wait", None, Space::Kernel, false),
    ];
    sched.stacks = vec![
        CallStack { frames: vec![0, 1, 3], complete: true, linked: 0b10 },
        CallStack { frames: vec![2], complete: false, linked: 0 },
        CallStack { frames: vec![], complete: false, linked: 0 },
    ];
    let address = |stack, depth, address| StackInstruction {
        stack,
        depth,
        address,
        samples: i64::from(depth) + 3,
        running_ns: 3_003_000,
        blocked_ns: 12 * i64::from(stack),
    };
    sched.instructions = vec![address(0, 0, 0x1139), address(0, 0, 0x1140), address(1, 0, 0xffff_ffff_8100_0000)];
    let tasks = sched.tasks.len() as u32;
    for round in 0..rounds {
        let (task, stack) = (round % tasks, round % 3);
        let time_ns = i64::from(round) * 1_000;
        let party = |stack| Some(OtherThread { task: (task + 1) % tasks, stack });
        sched.moments.push(TimedSample { time_ns, task, stack, period_ns: 1_003_009 });
        sched.samples.push(SchedSample {
            task,
            stack,
            n: round as i32 % 4,
            origin: if round % 5 == 0 { Origin::StackTop } else { Origin::Sample },
            samples: 2,
            criticality_ns: 700,
            active_ns: 900,
            spin: round % 7 == 0,
        });
        sched.waits.push(SchedWait {
            task,
            kind: WaitKind::ALL[round as usize % WaitKind::ALL.len()],
            object: if round % 2 == 0 { "0x55d0 (queue_lock)".into() } else { "".into() },
            stack: (round % 4 != 0).then_some(stack),
            holder: party(Some(stack)).filter(|_| round % 3 == 0),
            waker: party(None).filter(|_| round % 4 != 3),
            count: 1,
            begin_ns: time_ns,
            end_ns: time_ns + 600,
            ns: 600,
            idle_ns: 20,
            holder_gain_ns: 30,
        });
        sched.slices.push(Slice {
            task,
            start_ns: time_ns - 400,
            active_ns: 400,
            runnable_ns: 10,
            criticality_ns: 250,
            wait: if round % 9 == 8 { -1 } else { round as i32 },
        });
    }
    profile.sched = sched;
    profile.meta.collectors = vec!["sched".into()];
    profile.meta.criticality = Some(SchedSession {
        estimate: false,
        per_process: false,
        cpus: 4,
        sample_hz: 1000,
        min_parallelism: 4,
        stack_depth: 64,
        busy_ns: 900_000_000,
        idle_ns: 100_000_000,
        unattributed_ns: 12,
        drift: 0,
        slices: i64::from(rounds),
        critical_slices: 3,
        start_ns: 5,
        end_ns: 1_000_000_005,
    });
    profile
}
