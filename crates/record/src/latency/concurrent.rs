//! Latencies measured beside another collector: a program that somebody else launches is attached to as soon as it is
//! ready, by a thread of its own (the kernel binds a tracer to its thread).

use std::sync::mpsc::{Receiver, Sender, channel};

use transect_profile_model::Profile;

use super::session::Measurement;
use super::{LatencyOutcome, LatencySettings, LatencyTarget};
use crate::RecordError;
use crate::attached_collector::{AttachedCollector, AttachedOutcome, LATENCY, Orders};
use crate::clock::Clock;
use crate::component_rows::place;
use crate::lead::Lead;
use crate::probe_session::LaunchGuard;

/// A measurement that waits for its process.
#[derive(Debug)]
pub struct ConcurrentLatency {
    ready: Option<Sender<i32>>,
    collector: AttachedCollector,
}

impl ConcurrentLatency {
    /// Starts the thread. The settings' target is not used.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(settings: LatencySettings, clock: Clock) -> Result<ConcurrentLatency, RecordError> {
        let (ready, process) = channel();
        let run = move |orders: &Orders| measure(&settings, &process, &Lead::beside(orders, clock));
        Ok(ConcurrentLatency { ready: Some(ready), collector: AttachedCollector::start(LATENCY, run)? })
    }

    /// Names the process, once; it is measured from now on until it ends.
    pub fn follow(&mut self, pid: i32) {
        if let Some(ready) = self.ready.take() {
            // The thread ends early only with an error, which `finish` gives.
            let _ = ready.send(pid);
        }
    }

    /// The profile so far, if there is one.
    pub fn so_far(&self) -> Option<Profile> {
        // It hears nothing before it knows the process.
        if self.ready.is_some() { None } else { self.collector.so_far() }
    }

    /// Ends it, after the process has.
    ///
    /// # Errors
    /// If it could not be measured: [`RecordError::EndedBefore`] if it ended too soon for that, or was not named.
    pub fn finish(self) -> Result<Profile, RecordError> {
        drop(self.ready);
        Ok(self.collector.finish()?.profile)
    }
}

/// Measures running processes, which are left as they were, until it is told that it is enough.
///
/// # Errors
/// If no thread can be had.
pub(crate) fn attach(settings: LatencySettings, clock: Clock) -> Result<AttachedCollector, RecordError> {
    let LatencyTarget::Attach { pids, .. } = settings.target.clone() else { return Err(RecordError::NoCommand) };
    AttachedCollector::start(LATENCY, move |orders| {
        let mut measurement = Measurement::new(&settings, clock)?;
        measurement.attach(&pids, &Lead::beside(orders, clock))?;
        Ok(concluded(measurement))
    })
}

fn concluded(measurement: Measurement<'_>) -> AttachedOutcome {
    let LatencyOutcome { profile, left_behind, .. } = measurement.conclude(None);
    AttachedOutcome { profile, left_behind }
}

fn measure(
    settings: &LatencySettings,
    process: &Receiver<i32>,
    lead: &Lead<'_>,
) -> Result<AttachedOutcome, RecordError> {
    // Before the process is there: it may not be for long.
    let mut measurement = Measurement::new(settings, lead.clock)?;
    // It is not there yet, and the agent that counts calls is left in it in any case.
    measurement.guarded = false;
    let mut guard = LaunchGuard::start(&measurement.agent);
    let ended = || RecordError::EndedBefore { what: "its functions had probes" };
    let pid = process.recv().map_err(|_| ended())?;
    guard.watch(pid);
    let attached = measurement.attach(&[pid], lead);
    guard.dismiss();
    match attached {
        Ok(()) => Ok(concluded(measurement)),
        Err(RecordError::Attach(error)) if error.is_end() => Err(ended()),
        Err(error) => Err(error),
    }
}

/// Puts the latencies of one profile into another of the same run.
pub fn merge(into: &mut Profile, mut from: Profile) {
    let components: Vec<u32> = from.components.iter().map(|component| place(&mut into.components, component)).collect();
    let processes: Vec<u32> = from
        .processes
        .iter()
        .map(|process| match into.processes.iter().position(|p| p.pid == process.pid) {
            Some(index) => index as u32,
            None => {
                into.processes.push(process.clone());
                into.processes.len() as u32 - 1
            }
        })
        .collect();
    for row in &mut from.latency {
        row.component = components[row.component as usize];
        row.process = processes[row.process as usize];
    }
    // Each has counted time from its own start.
    let offset = from.meta.started_unix_ns - into.meta.started_unix_ns;
    for slice in &mut from.latency_slices {
        slice.start_ns += offset;
        slice.end_ns += offset;
    }
    into.latency = from.latency;
    into.latency_slices = from.latency_slices;
    into.loss.extend(from.loss);
    into.meta.collectors.extend(from.meta.collectors);
    into.meta.latency = from.meta.latency;
    into.meta.overhead_estimate = (into.meta.overhead_estimate + from.meta.overhead_estimate).min(1.0);
}
