//! Rows for tests of this module.

use transect_profile_model::{Origin, SchedSample, SchedSession, SchedWait, Task, WaitKind};

pub(super) fn session(cpus: i64) -> SchedSession {
    SchedSession {
        estimate: false,
        per_process: false,
        cpus,
        sample_hz: 1000,
        min_parallelism: cpus,
        stack_depth: 64,
        busy_ns: 0,
        idle_ns: 0,
        unattributed_ns: 0,
        drift: 0,
        slices: 0,
        critical_slices: 0,
        start_ns: 0,
        end_ns: 0,
    }
}

pub(super) fn sample(task: u32, stack: u32, n: i32, criticality_ns: i64, spin: bool) -> SchedSample {
    let active_ns = criticality_ns * i64::from(n);
    SchedSample { task, stack, n, origin: Origin::Sample, samples: 1, criticality_ns, active_ns, spin }
}

/// A thread that lives from the start to `end_ns`.
pub(super) fn task(end_ns: i64) -> Task {
    Task { end_ns, ..Task::default() }
}

/// A sleep of a thread that nobody ends, of no length.
pub(super) fn sleep(task: u32) -> SchedWait {
    SchedWait {
        task,
        kind: WaitKind::Sleep,
        object: "".into(),
        stack: None,
        holder: None,
        waker: None,
        count: 1,
        begin_ns: 0,
        end_ns: 0,
        ns: 0,
        idle_ns: 0,
        holder_gain_ns: 0,
    }
}
