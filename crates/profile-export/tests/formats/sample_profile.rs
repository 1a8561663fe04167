//! A small profile whose every sum is known by hand.

use transect_profile_model::*;

/// Component indices.
pub const APP: u32 = 0;
pub const LIBZ: u32 = 1;
pub const LIBC: u32 = 2;

/// Symbol that tries to break every format.
pub const EVIL: &str = "=cmd|'/C calc'!A0;\u{1b}[31m\n<script>\"\u{202e},x";

/// Self times of all flows plus the threads' own code, ns: the sum of every stack export's weights.
pub const SELF_SUM_NS: i64 = 2_000_000_000 + 500_000_000;

fn flow(thread: u32, caller: u32, callee: u32, api: &str, class: ApiClass, calls: i64, ns: [i64; 2]) -> Flow {
    let [total, own] = ns;
    let timed = class != ApiClass::CountOnly;
    Flow {
        thread,
        context: 0,
        caller,
        callee,
        api: api.into(),
        symbol: format!("_Z{api}"),
        version: String::new(),
        class,
        calls,
        timed_calls: if timed { calls } else { 0 },
        abandoned_calls: 0,
        total_ns: timed.then_some(total),
        total_ns_low: None,
        total_ns_high: None,
        self_ns: timed.then_some(own),
        self_ns_low: None,
        self_ns_high: None,
        called_back_ns: 0,
        called_back_same_edge_ns: 0,
        attributed_ns: timed.then_some(total / 2),
        criticality_ns: None,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        bytes: None,
        dlsym: false,
    }
}

fn component(path: &str, executable: bool) -> Component {
    Component {
        path: path.into(),
        build_id: format!("{:040x}", path.len()),
        executable,
        synthetic: false,
        static_in: None,
    }
}

fn thread(process: u32, tid: i32, name: &str, group: &str, wall_ns: i64, outermost_ns: i64) -> Thread {
    Thread {
        process,
        tid,
        name: name.into(),
        group: group.into(),
        start_routine: String::new(),
        start_ns: 1_000_000,
        wall_ns,
        busy_ns: wall_ns,
        wait_ns: 0,
        calls: 10,
        outermost_ns,
        outermost_attributed_ns: outermost_ns / 2,
        attributed_ns: wall_ns / 2,
    }
}

/// Two threads of one program for 2 s in all, and a child of 0.5 s.
///
/// Thread 0 (1.5 s): 0.3 s own, deflate 0.7 s of which 0.1 s is memcpy called by libz, EVIL 0.2 s, lock 0.3 s.
/// Thread 1 (0.5 s): all in deflate. Child: all own.
pub fn profile() -> Profile {
    let mut deflate = flow(0, APP, LIBZ, "deflate", ApiClass::Compute, 100, [700_000_000, 600_000_000]);
    deflate.timed_calls = 50;
    deflate.total_ns_low = Some(690_000_000);
    deflate.total_ns_high = Some(710_000_000);
    deflate.bytes = Some(1 << 20);
    Profile {
        components: vec![
            component("/opt/app", true),
            component("/lib/libz.so.1", false),
            component("/lib/libc.so.6", false),
            component("/opt/helper", true),
        ],
        processes: vec![
            Process { pid: 100, parent_pid: 1, executable: "/opt/app".into(), start_ns: 0, wall_ns: 1_500_000_000 },
            Process {
                pid: 200,
                parent_pid: 100,
                executable: "/opt/helper".into(),
                start_ns: 1_000_000,
                wall_ns: 500_000_000,
            },
        ],
        threads: vec![
            thread(0, 100, "app", "main", 1_500_000_000, 1_200_000_000),
            thread(0, 101, "worker-1", "worker", 500_000_000, 500_000_000),
            thread(1, 200, "helper", "main", 500_000_000, 0),
        ],
        flows: vec![
            deflate,
            flow(0, LIBZ, LIBC, "memcpy", ApiClass::Compute, 1000, [100_000_000, 100_000_000]),
            flow(0, APP, LIBC, EVIL, ApiClass::Compute, 1, [200_000_000, 200_000_000]),
            flow(0, APP, LIBC, "pthread_mutex_lock", ApiClass::Lock, 7, [300_000_000, 300_000_000]),
            flow(0, APP, LIBC, "setjmp", ApiClass::CountOnly, 3, [0, 0]),
            flow(1, APP, LIBZ, "deflate", ApiClass::Compute, 20, [500_000_000, 500_000_000]),
        ],
        trace: vec![TraceEvent {
            time_ns: 2_500,
            thread: 0,
            caller: APP,
            api: "deflate".into(),
            args: [-1, 1, 2, 3, 4, 5],
        }],
        loss: vec![Loss {
            what: LossKind::UnhookedSlots,
            place: "/opt/app".into(),
            count: 2,
            reason: "address taken".into(),
        }],
        ..Profile::new(Meta {
            command: vec!["app".into(), "--in=a b".into()],
            collectors: vec!["flow".into()],
            timing: Timing::Adaptive { budget: 0.03 },
            overhead_estimate: 0.012,
            wall_ns: 1_500_000_000,
            started_unix_ns: 1_700_000_000_000_000_000,
            exit_status: Some(0),
            ..Meta::new(
                Machine {
                    hostname: "host".into(),
                    kernel: "6.1".into(),
                    cpu: "cpu".into(),
                    cpus: 2,
                    memory_bytes: 1 << 30,
                },
                Clock { source: "tsc".into(), ticks_per_ns: 2.1, timed_call_ns: 30.0, counted_call_ns: 0.5 },
            )
        })
    }
}

/// The same program recorded with `--timing count`.
pub fn counts_only() -> Profile {
    let mut profile = profile();
    profile.meta.timing = Timing::Count;
    for flow in &mut profile.flows {
        flow.timed_calls = 0;
        flow.total_ns = None;
        flow.total_ns_low = None;
        flow.total_ns_high = None;
        flow.self_ns = None;
        flow.attributed_ns = None;
    }
    profile
}
