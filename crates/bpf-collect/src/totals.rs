//! States of the kernel's state machine (`sched_state.h`), read at the end.

use crate::plain;
use crate::record::{FRACTION_BITS, record_type, task_event};
use crate::skeleton::types::{
    sched_application, sched_brief, sched_clock, sched_object, sched_slot, sched_task, sched_wait,
};

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
#[derive(Debug, Clone, Copy)]
pub struct OpenThread {
    /// What is known of it, with totals up to now; without its name.
    pub task: sched_task,
    /// The wait that it is in, which nothing has ended: `end` is now, and there is no waker.
    pub wait: Option<sched_wait>,
    /// Its short waits that no record told yet.
    pub brief: Option<sched_brief>,
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
        let mut wait = (thread.active == 0 && slot.wait.begin > 0).then_some(sched_wait { end: now, ..slot.wait });
        if let Some(wait) = wait.as_mut().filter(|_| slot.undetailed != 0) {
            // What it describes is an earlier one.
            let object = sched_object::default();
            *wait = sched_wait { system_call: -2, object, owner_tid: 0, holder: 0, chance: 0, ..*wait };
        }
        let brief = (slot.brief.count > 0).then_some(sched_brief { task: slot.task, ..slot.brief });
        let task = sched_task {
            r#type: record_type::TASK,
            event: task_event::EXIT,
            task: slot.task,
            parent: slot.parent,
            tid: slot.tid,
            tgid: slot.tgid,
            ns_tid: slot.ns_tid,
            ns_tgid: slot.ns_tgid,
            parent_tgid: slot.parent_tgid,
            application: slot.application,
            time: now,
            criticality,
            unattributed: criticality.saturating_sub(thread.sampled),
            running_ns,
            runnable_ns: active_ns.saturating_sub(running_ns),
            blocked_ns,
            ..Default::default()
        };
        Some(Self { task, wait, brief })
    }
}
