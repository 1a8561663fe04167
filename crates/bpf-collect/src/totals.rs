//! States of the kernel's state machine (`sched_state.h`), read at the end.

use crate::plain;
use crate::record::{FRACTION_BITS, record_type, task_event, waker_context};
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
        let wait = (thread.active == 0 && slot.wait.begin > 0).then(|| open_wait(&slot, now));
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

/// What is written at a wait's end is still that of an earlier one, perhaps of another thread that had the slot.
fn open_wait(slot: &sched_slot, now: u64) -> sched_wait {
    let wait = sched_wait {
        end: now,
        idle: 0,
        waker: 0,
        waker_stack: 0,
        waker_context: waker_context::NONE,
        waker_comm: [0; 16],
        holder_gain: 0,
        waker_gain: 0,
        ..slot.wait
    };
    if slot.undetailed == 0 {
        return wait;
    }
    // So is what describing it would have written.
    let object = sched_object::default();
    sched_wait { system_call: -2, object, owner_tid: 0, holder: 0, held: 0, chance: 0, ..wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::types::sched_thread;

    #[test]
    fn an_open_wait_has_nothing_of_the_one_before() {
        let before = sched_wait {
            begin: 500,
            end: 400,
            idle: 300,
            waker: 7,
            waker_stack: 8,
            waker_context: waker_context::TASK,
            waker_comm: [1; 16],
            holder_gain: 9,
            waker_gain: 10,
            system_call: 202,
            holder: 3,
            held: 1,
            ..Default::default()
        };
        let thread = sched_thread { changed: 500, ..Default::default() };
        let mut slot = sched_slot { task: 1, thread, wait: before, ..Default::default() };
        let open = |slot: &sched_slot| OpenThread::decode(plain::bytes_of(slot), 900, &[]).unwrap().wait.unwrap();
        let wait = open(&slot);
        assert_eq!((wait.begin, wait.end, wait.idle, wait.system_call, wait.holder), (500, 900, 0, 202, 3));
        assert_eq!((wait.waker, wait.waker_stack, wait.waker_context), (0, 0, waker_context::NONE));
        assert_eq!((wait.waker_comm, wait.holder_gain, wait.waker_gain, wait.held), ([0; 16], 0, 0, 1));
        slot.undetailed = 1;
        let wait = open(&slot);
        assert_eq!((wait.system_call, wait.holder, wait.held, wait.idle), (-2, 0, 0, 0));
    }
}
