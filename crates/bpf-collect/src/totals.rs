//! States of the kernel's state machine (`sched_state.h`), read at the end.

use crate::plain;
use crate::record::FRACTION_BITS;
use crate::skeleton::types::{sched_application, sched_clock, sched_slot};

/// One application's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationTotals {
    /// Its number, as in the records.
    pub application: u32,
    /// Time with at least one active thread, ns.
    pub busy_ns: u64,
    /// Time without, between its first activity and now, ns.
    pub idle_ns: u64,
    /// Of it since the last thread blocked: not ended by any wait, ns.
    pub idle_open_ns: u64,
    /// Time at each number of active threads, ns; without the zeros at the end.
    pub histogram: Vec<u64>,
    /// Threads active now.
    pub active: u32,
    /// Criticality of a thread that was active all the time, fixed point.
    pub criticality: u64,
}

impl ApplicationTotals {
    /// From the map's value, brought up to `now`. `None` if it was never active or the value is of another size.
    pub(crate) fn decode(application: u32, bytes: &[u8], now: u64) -> Option<Self> {
        let clock: sched_clock = plain::read::<sched_application>(bytes)?.clock;
        if clock.started == 0 {
            return None;
        }
        let dt = now.saturating_sub(clock.time);
        let mut histogram = clock.histogram.to_vec();
        histogram[(clock.active as usize).min(clock.histogram.len() - 1)] += dt;
        histogram.truncate(histogram.iter().rposition(|&ns| ns > 0).map_or(0, |last| last + 1));
        let (mut busy_ns, mut idle_ns, mut criticality) = (clock.busy, clock.idle, clock.criticality);
        if clock.active > 0 {
            busy_ns += dt;
            criticality += (dt << FRACTION_BITS) / u64::from(clock.active);
        } else {
            idle_ns += dt;
        }
        let idle_open_ns = if clock.active == 0 { now.saturating_sub(clock.idle_since) } else { 0 };
        Some(Self { application, busy_ns, idle_ns, idle_open_ns, histogram, active: clock.active, criticality })
    }
}

/// A thread that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenThread {
    /// Its task number, as in the records.
    pub task: u32,
    /// Its application.
    pub application: u32,
    /// Process and thread, as the recorder's pid namespace numbers them.
    pub tgid: i32,
    /// See `tgid`.
    pub tid: i32,
    /// Criticality, fixed point.
    pub criticality: u64,
    /// Of it since its last sample, fixed point.
    pub unattributed: u64,
    /// Time on a processor, ns.
    pub running_ns: u64,
    /// Time active without one, ns.
    pub runnable_ns: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Whether it is active.
    pub active: bool,
    /// Since when it is what it is (`CLOCK_MONOTONIC`, ns).
    pub since: u64,
    /// The stack that it waits at; 0 if it is active or none was taken.
    pub stack: u64,
}

impl OpenThread {
    pub(crate) fn decode(bytes: &[u8], now: u64, applications: &[ApplicationTotals]) -> Option<Self> {
        let slot: sched_slot = plain::read(bytes)?;
        if slot.task == 0 {
            return None;
        }
        let thread = slot.thread;
        let (mut criticality, mut active_ns, mut blocked_ns) = (thread.gained, thread.active_ns, thread.blocked_ns);
        if thread.active != 0 {
            let clock = applications.iter().find(|clock| clock.application == slot.application)?;
            criticality += clock.criticality.saturating_sub(thread.since);
            active_ns += now.saturating_sub(thread.changed);
        } else if thread.changed > 0 {
            blocked_ns += now.saturating_sub(thread.changed);
        }
        let on_cpu_ns = if thread.on_cpu_since > 0 { now.saturating_sub(thread.on_cpu_since) } else { 0 };
        let running_ns = thread.running_ns + on_cpu_ns;
        Some(Self {
            task: slot.task,
            application: slot.application,
            tgid: slot.tgid,
            tid: slot.tid,
            criticality,
            unattributed: criticality.saturating_sub(thread.sampled),
            running_ns,
            runnable_ns: active_ns.saturating_sub(running_ns),
            blocked_ns,
            active: thread.active != 0,
            since: thread.changed,
            stack: if thread.active == 0 { slot.wait.stack } else { 0 },
        })
    }
}
