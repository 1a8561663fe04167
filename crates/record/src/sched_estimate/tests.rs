use transect_profile_model::{
    ApiClass, Clock, Component, Flow, Machine, Meta, Process, Profile, Thread, Timing, Wait, WaitKind,
};

use super::estimate;

fn empty() -> Profile {
    Profile {
        components: ["/bin/app", "/lib/libz.so.1", "/lib/libc.so.6"]
            .iter()
            .zip(0..)
            .map(|(path, i)| Component {
                path: (*path).to_owned(),
                build_id: String::new(),
                executable: i == 0,
                synthetic: false,
                static_in: None,
            })
            .collect(),
        processes: vec![Process { pid: 7, parent_pid: 1, executable: "/bin/app".into(), start_ns: 0, wall_ns: 1000 }],
        ..Profile::new(Meta {
            command: vec!["app".into()],
            collectors: vec!["flow".into()],
            timing: Timing::Full,
            wall_ns: 1000,
            started_unix_ns: 0,
            exit_status: Some(0),
            ..Meta::new(
                Machine {
                    hostname: "here".into(),
                    kernel: "6.1".into(),
                    cpu: "one".into(),
                    cpus: 2,
                    memory_bytes: 1 << 30,
                },
                Clock { source: "tsc".into(), ticks_per_ns: 2.0, timed_call_ns: 20.0, counted_call_ns: 0.5 },
            )
        })
    }
}

fn thread(tid: i32, routine: &str, wall_ns: i64, wait_ns: i64, attributed_ns: i64) -> Thread {
    Thread {
        process: 0,
        tid,
        name: "app".into(),
        group: if routine.is_empty() { "main" } else { routine }.into(),
        start_routine: routine.into(),
        start_ns: 0,
        wall_ns,
        busy_ns: wall_ns - wait_ns,
        wait_ns,
        calls: 1,
        outermost_ns: 0,
        outermost_attributed_ns: 0,
        attributed_ns,
    }
}

fn flow(thread: u32, caller: u32, callee: u32, api: &str, class: ApiClass, times: [i64; 3]) -> Flow {
    let [total, own, attributed] = times;
    Flow {
        thread,
        context: 0,
        caller,
        callee,
        api: api.into(),
        symbol: api.into(),
        version: String::new(),
        class,
        calls: 4,
        timed_calls: 4,
        abandoned_calls: 0,
        total_ns: Some(total),
        total_ns_low: None,
        total_ns_high: None,
        self_ns: Some(own),
        self_ns_low: None,
        self_ns_high: None,
        called_back_ns: 0,
        called_back_same_edge_ns: 0,
        attributed_ns: Some(attributed),
        criticality_ns: None,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        bytes: None,
        dlsym: false,
    }
}

fn wait(thread: u32, api: &str, object: &str, count: i64, ns: i64, caller: u32) -> Wait {
    Wait { thread, api: api.into(), object: object.into(), count, ns, caller }
}

fn identities(profile: &Profile) {
    let session = profile.meta.criticality.as_ref().unwrap();
    assert!(session.estimate && session.per_process);
    let tables = &profile.sched;
    assert_eq!(tables.tasks.iter().map(|t| t.criticality_ns).sum::<i64>(), session.busy_ns);
    assert_eq!(tables.waits.iter().map(|w| w.idle_ns).sum::<i64>(), session.idle_ns);
    for (i, task) in tables.tasks.iter().enumerate() {
        let samples = tables.samples.iter().filter(|s| s.task as usize == i);
        assert_eq!(samples.map(|s| s.criticality_ns).sum::<i64>() + task.unattributed_ns, task.criticality_ns);
    }
}

fn path(profile: &Profile, stack: u32) -> Vec<&str> {
    let frames = &profile.sched.stacks[stack as usize].frames;
    frames.iter().map(|&f| profile.sched.frames[f as usize].function.as_str()).collect()
}

/// Main runs alone for 200 ns, starts a worker and waits for it; the worker runs alone for 300, reads for 100 (all
/// wait), runs for 400 together with main, of which it spends 160 in deflate.
#[test]
fn a_schedule_that_is_known() {
    let mut p = empty();
    // Main: 200 alone, then joins 400 (worker active 300, nobody 100), then 400 at n = 2.
    // ∫ dt / max(1, n): 200 + 300 + 100 + 200.
    p.threads = vec![thread(7, "", 1000, 400, 800), thread(8, "work", 800, 100, 600)];
    p.flows = vec![
        // The join: attributed 300 / 1 + 100.
        flow(0, 0, 2, "pthread_join", ApiClass::Wait, [400, 400, 400]),
        flow(1, 0, 2, "read", ApiClass::Io, [100, 100, 100]),
        flow(1, 0, 1, "deflate", ApiClass::Compute, [160, 120, 80]),
        flow(1, 1, 2, "memcpy", ApiClass::Compute, [40, 40, 20]),
    ];
    p.waits = vec![wait(0, "pthread_join", "0x7f", 1, 400, 0)];
    estimate(&mut p);
    identities(&p);
    let session = p.meta.criticality.as_ref().unwrap();
    // Main: 200 + 400 / 2; the worker: 300 + 400 / 2.
    let criticality: Vec<i64> = p.sched.tasks.iter().map(|t| t.criticality_ns).collect();
    assert_eq!(criticality, [400, 500]);
    assert_eq!((session.busy_ns, session.idle_ns), (900, 100));
    let of = |words: &[&str]| {
        let samples = p.sched.samples.iter().filter(|s| path(&p, s.stack) == words);
        samples.map(|s| (s.criticality_ns, s.active_ns, s.n)).collect::<Vec<_>>()
    };
    // 60 of the 80 attributed to deflate are its own.
    assert_eq!(of(&["work", "deflate"]), [(60, 120, 2)]);
    assert_eq!(of(&["work", "[libz.so.1]", "memcpy"]), [(20, 40, 2)]);
    assert_eq!(of(&["work"]), [(420, 540, 1)]);
    assert_eq!(of(&["main"]), [(400, 600, 2)]);
    let kinds: Vec<(WaitKind, i64, i64)> = p.sched.waits.iter().map(|w| (w.kind, w.count, w.ns)).collect();
    assert_eq!(kinds, [(WaitKind::FileRead, 4, 100), (WaitKind::Join, 1, 400)]);
    assert!(p.sched.waits.iter().all(|w| w.holder.is_none() && w.waker.is_none()));
}

/// Acquisitions that met nobody are no waits, nor are spin locks.
#[test]
fn free_locks_are_active_time() {
    let mut p = empty();
    p.threads = vec![thread(7, "", 1000, 50, 1000)];
    p.flows = vec![
        flow(0, 0, 2, "pthread_mutex_lock", ApiClass::Lock, [250, 250, 250]),
        flow(0, 0, 2, "pthread_spin_lock", ApiClass::Lock, [100, 100, 100]),
    ];
    p.waits = vec![wait(0, "pthread_mutex_lock", "0x10 (queue)", 2, 50, 0)];
    estimate(&mut p);
    identities(&p);
    assert_eq!(p.sched.tasks[0].criticality_ns, 950);
    assert_eq!((p.sched.waits[0].kind, &*p.sched.waits[0].object), (WaitKind::Mutex, "0x10 (queue)"));
    assert!(p.sched.samples.iter().any(|s| path(&p, s.stack) == ["main", "pthread_spin_lock"]));
}

/// Whatever the figures are, also such as sampling overshoots with, sums hold and nothing is negative.
#[test]
fn identities_hold_for_any_profile() {
    let mut state = 1u64;
    let mut random = |below: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % below.max(1)
    };
    for _ in 0..500 {
        let mut p = empty();
        p.processes.push(Process { pid: 9, parent_pid: 7, executable: "/bin/app".into(), start_ns: 5, wall_ns: 700 });
        for i in 0..random(5) {
            let wall = random(2000);
            let wait = random(wall);
            let mut t = thread(i as i32, ["", "work", "serve"][random(3) as usize], wall, wait, random(wall + 50));
            t.process = random(2) as u32;
            p.threads.push(t);
        }
        for _ in 0..if p.threads.is_empty() { 0 } else { random(12) } {
            let apis = [
                ("read", ApiClass::Io),
                ("pthread_mutex_lock", ApiClass::Lock),
                ("pthread_cond_wait", ApiClass::Wait),
                ("deflate", ApiClass::Compute),
                ("memcpy", ApiClass::Compute),
                ("setjmp", ApiClass::CountOnly),
            ];
            let (api, class) = apis[random(6) as usize];
            let t = random(p.threads.len() as i64) as u32;
            let mut f =
                flow(t, random(3) as u32, random(3) as u32, api, class, [random(3000), random(3000), random(3000)]);
            if class == ApiClass::CountOnly {
                (f.total_ns, f.self_ns, f.attributed_ns) = (None, None, None);
            }
            if class.is_wait() {
                p.waits.push(wait(t, api, "", 1 + random(5), random(3000), f.caller));
            }
            p.flows.push(f);
        }
        estimate(&mut p);
        let session = p.meta.criticality.as_ref().unwrap();
        let tables = &p.sched;
        assert_eq!(tables.tasks.iter().map(|t| t.criticality_ns).sum::<i64>(), session.busy_ns);
        assert_eq!(tables.waits.iter().map(|w| w.idle_ns).sum::<i64>(), session.idle_ns);
        for (i, task) in tables.tasks.iter().enumerate() {
            let samples = tables.samples.iter().filter(|s| s.task as usize == i);
            assert_eq!(samples.map(|s| s.criticality_ns).sum::<i64>(), task.criticality_ns);
        }
        assert!(tables.samples.iter().all(|s| s.criticality_ns >= 0 && s.active_ns >= 0 && s.n > 0));
        assert!(tables.waits.iter().all(|w| w.idle_ns >= 0 && w.ns >= 0));
    }
}
