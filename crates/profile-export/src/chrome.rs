//! Chrome trace events, JSON object format.
//!
//! Each thread is one complete event over its lifetime, each traced call an instant event on its thread, each sampled
//! function a counter of its latency over time; folded flows have no point in time and are not in it. Of the scheduler,
//! each slice and each wait is a complete event on its thread, and the number of active threads a counter. Of features,
//! each stay in a region is a complete event on its thread.

use std::io::Write;

use serde_json::{Value, json};
use transect_profile_model::{Profile, Timing, TraceEvent};

use crate::stack::Stacks;
use crate::{ExportError, Format, Subject, schedule_events};

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
    let fail = |e| ExportError::json(Format::Chrome, e);
    // Written event by event: a trace may hold millions.
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    serde_json::to_writer(&mut *out, &json!({ "command": profile.meta.command, "exporter": "transect" }))
        .map_err(fail)?;
    out.write_all(b",\"traceEvents\":[")?;
    let stacks = Stacks::collect(profile, Subject::Flows);
    let metadata = metadata_events(profile);
    let spans = thread_spans(profile);
    let calls = profile.trace.iter().filter_map(|event| traced_call(profile, &stacks, event));
    let latencies = crate::latency_counters::events(profile);
    for (n, event) in metadata
        .into_iter()
        .chain(spans)
        .chain(latencies)
        .chain(calls)
        .chain(schedule_events::events(profile))
        .chain(crate::region_slices::events(profile))
        .enumerate()
    {
        out.write_all(if n == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &event).map_err(fail)?;
    }
    out.write_all(b"\n]}\n")?;
    Ok(())
}

/// The format's unit is the microsecond; fractions keep the nanoseconds.
pub(crate) fn microseconds(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

/// The name of a process or thread.
pub(crate) fn metadata_event(name: &str, pid: i32, tid: i32, value: &str) -> Value {
    // Category and time say nothing here, but strict readers take no event without.
    json!({
        "ph": "M", "cat": "__metadata", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": { "name": value },
    })
}

fn metadata_events(profile: &Profile) -> Vec<Value> {
    let event = metadata_event;
    let processes = profile.processes.iter().map(|p| event("process_name", p.pid, p.pid, &p.executable));
    let threads = profile.threads.iter().filter_map(|t| {
        let pid = profile.processes.get(t.process as usize)?.pid;
        Some(event("thread_name", pid, t.tid, &t.name))
    });
    processes.chain(threads).chain(schedule_events::thread_names(profile)).collect()
}

fn thread_spans(profile: &Profile) -> Vec<Value> {
    // Counts alone don't tell when a thread waited.
    let told = profile.meta.timing != Timing::Count || profile.meta.criticality.as_ref().is_some_and(|s| !s.estimate);
    let span = |t: &transect_profile_model::Thread| {
        let pid = profile.processes.get(t.process as usize)?.pid;
        Some(json!({
            "ph": "X", "cat": "thread", "name": t.name, "pid": pid, "tid": t.tid,
            "ts": microseconds(t.start_ns), "dur": microseconds(t.wall_ns),
            "args": {
                "group": t.group, "start_routine": t.start_routine,
                "busy_ns": told.then_some(t.busy_ns), "wait_ns": told.then_some(t.wait_ns), "calls": t.calls,
            },
        }))
    };
    profile.threads.iter().filter_map(span).collect()
}

fn traced_call(profile: &Profile, stacks: &Stacks<'_>, event: &TraceEvent) -> Option<Value> {
    let thread = profile.threads.get(event.thread as usize)?;
    let pid = profile.processes.get(thread.process as usize)?.pid;
    // Numbers of JavaScript readers end at 2^53: arguments go as text.
    let args: Vec<String> = event.args.iter().map(|a| format!("{a:#x}")).collect();
    Some(json!({
        "ph": "i", "s": "t", "cat": "call", "name": event.api, "pid": pid, "tid": thread.tid,
        "ts": microseconds(event.time_ns),
        "args": { "caller": stacks.component(event.caller), "registers": args },
    }))
}
