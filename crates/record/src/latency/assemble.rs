//! From finished processes to the tables of a profile.

use std::collections::{BTreeMap, HashMap};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use transect_profile_model::{
    Clock as ClockFacts, Component, ComponentId, Latency, LatencySession, Loss, LossKind, Meta, Overhead, Process,
    ProcessId, Profile,
};

use super::measured::{Finished, MeasuredFunction};
use super::reading::Reading;
use super::{BucketScale, LatencySettings, LatencyTarget, TimeSlices};
use crate::clock::Clock;
use crate::machine;

/// A measurement that has ended.
pub struct Facts<'a> {
    pub settings: &'a LatencySettings,
    pub clock: &'a Clock,
    /// For how long it was measured, ns.
    pub wall_ns: i64,
    pub reading: Reading,
    pub finished: Vec<Finished>,
    /// Processes without measurement: (which, why).
    pub unmeasured: &'a [(String, String)],
    /// Processes that lived too shortly to be measured, and programs that came too late for it.
    pub left_out: Vec<Loss>,
    pub slices: &'a TimeSlices,
    /// The launched process' exit status.
    pub status: Option<i32>,
    /// For how long launched programs were held at their start: the first, and all others, ns.
    pub held_ns: [u64; 2],
    /// What is in these and in the stops of the processes, ns.
    pub counted_stops_ns: u64,
}

/// Part of the wall time that programs which have ended need for their CPU time, on all CPUs.
fn least_own_share(wall_ns: i64) -> f64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| {
        let total = usage.user_time() + usage.system_time();
        total.num_nanoseconds()
    });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (used as f64 / cpus as f64 / wall_ns.max(1) as f64).clamp(0.0, 1.0)
}

/// Builds the profile.
pub fn assemble(facts: Facts<'_>) -> Profile {
    let rate = facts.clock.rate();
    let scale = facts.reading.scale(rate);
    let wall_ns = facts.wall_ns;
    let since_start =
        |ticks: u64| ((ticks.saturating_sub(facts.clock.epoch()) as f64 / rate).round() as i64).min(wall_ns);
    let mut tables = Tables::default();
    for finished in &facts.finished {
        tables.add(finished, &scale, since_start);
    }
    tables.latency.sort_by_key(|(row, _)| *row);
    // Rows are dense: every function that got a number belongs to a process that is finished by now, unless its
    // counts were lost with it.
    let places: HashMap<u32, u32> = tables.latency.iter().zip(0..).map(|((row, _), place)| (*row, place)).collect();
    let mut slices = facts.slices.rows(&scale);
    slices.retain_mut(|slice| match places.get(&slice.latency) {
        Some(&place) => {
            slice.latency = place;
            true
        }
        None => false,
    });
    let session = session(&facts, &tables, rate, &scale);
    let overhead_ticks = session.samples as f64 * facts.reading.call.cost_ticks;
    // Whoever waits for a program waits until it has its probes.
    let loading_ns: u64 = facts.finished.iter().map(|finished| finished.loading_ns).sum();
    let stops_ns = (session.total_stop_ns.cast_unsigned()).saturating_sub(facts.counted_stops_ns);
    let held_ns = (facts.held_ns[1] + loading_ns + stops_ns) as f64;
    let cost = (overhead_ticks / rate + held_ns) / wall_ns.max(1) as f64 + session.toggling_share;
    // What was held beside what ran is no loss: the program takes at least what its CPU time takes.
    let recurring = cost.min(1.0 - least_own_share(wall_ns));
    let mut overhead = Overhead { start_ns: facts.held_ns[0] as i64, ..Overhead::default() };
    overhead.over(wall_ns, recurring);
    tables.loss.extend(facts.left_out.iter().cloned());
    for (what, why) in facts.unmeasured {
        tables.loss.push(Loss {
            what: LossKind::UnprofiledChildren,
            place: format!("process {what}"),
            count: 1,
            reason: why.clone(),
        });
    }
    Profile {
        components: tables.components,
        processes: tables.processes,
        latency: tables.latency.into_iter().map(|(_, row)| row).collect(),
        latency_slices: slices,
        loss: tables.loss,
        ..Profile::new(Meta {
            command: command(&facts),
            collectors: vec!["latency".to_owned()],
            overhead_estimate: recurring.min(1.0),
            overhead: Some(overhead),
            wall_ns,
            started_unix_ns: facts.clock.started_unix_ns,
            exit_status: facts.status,
            latency: Some(session),
            ..Meta::new(
                machine::here(),
                ClockFacts {
                    source: "tsc".to_owned(),
                    ticks_per_ns: rate,
                    timed_call_ns: facts.reading.call.cost_ticks / rate,
                    counted_call_ns: 0.0,
                },
            )
        })
    }
}

fn command(facts: &Facts<'_>) -> Vec<String> {
    match &facts.settings.target {
        LatencyTarget::Launch { command, .. } => {
            command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        }
        LatencyTarget::Attach { .. } => match facts.finished.as_slice() {
            [only] => only.command.clone(),
            several => several.iter().map(|process| process.command.join(" ")).collect(),
        },
    }
}

fn session(facts: &Facts<'_>, tables: &Tables, rate: f64, scale: &BucketScale) -> LatencySession {
    let sum = |value: fn(&Finished) -> u64| facts.finished.iter().map(value).sum::<u64>();
    let began = facts.finished.iter().map(|f| f.span.0).min().unwrap_or(0).max(facts.clock.epoch());
    let ended = facts.finished.iter().map(|f| f.span.1).max().unwrap_or(0);
    let measured_ns = ended.saturating_sub(began) as f64 / rate;
    let seconds = (measured_ns / 1e9).max(1e-9);
    let samples: i64 = tables.latency.iter().map(|(_, row)| row.samples).sum();
    let toggles = sum(|f| f.toggles);
    LatencySession {
        metric: facts.settings.metric,
        sampling: facts.settings.sampling,
        epoch_ns: facts.settings.epoch.as_nanos() as i64,
        measured_ns: measured_ns as i64,
        probes_installed: sum(|f| f.probes as u64) as i64,
        probes_active: tables.latency.iter().filter(|(_, row)| row.calls_seen > 0).count() as i64,
        sites_refused: sum(|f| (f.refused.len() + f.unwritten.len()) as u64) as i64,
        toggles: toggles as i64,
        toggles_per_second: toggles as f64 / seconds,
        samples,
        samples_per_second: samples as f64 / seconds,
        toggling_share: sum(|f| f.toggling_ticks) as f64 / rate / measured_ns.max(1.0),
        empty_ns: scale.added(),
        hidden_ns: scale.hidden(),
        thread_ns: (facts.finished.iter().map(|f| f.thread_ticks).sum::<f64>() / rate) as i64,
        stops: sum(|f| f.stops.0) as i64,
        longest_stop_ns: facts.finished.iter().map(|f| f.stops.1).max().unwrap_or(0) as i64,
        total_stop_ns: sum(|f| f.stops.2) as i64,
        abandoned: sum(|f| f.abandoned) as i64,
        untimed: sum(|f| f.untimed) as i64,
        unread: sum(|f| f.unread) as i64,
    }
}

#[derive(Default)]
struct Tables {
    components: Vec<Component>,
    processes: Vec<Process>,
    /// With the row numbers given while measuring.
    latency: Vec<(u32, Latency)>,
    loss: Vec<Loss>,
    known: HashMap<(String, String), ComponentId>,
}

impl Tables {
    fn add(&mut self, finished: &Finished, scale: &BucketScale, since_start: impl Fn(u64) -> i64) {
        let process = self.processes.len() as ProcessId;
        let (start_ns, end_ns) = (since_start(finished.span.0), since_start(finished.span.1));
        self.processes.push(Process {
            pid: finished.pid,
            parent_pid: finished.parent,
            executable: finished.executable.clone(),
            start_ns,
            wall_ns: end_ns - start_ns,
        });
        let components: Vec<ComponentId> =
            finished.objects.iter().map(|object| self.component(object, &finished.executable)).collect();
        for function in &finished.functions {
            self.latency.push((function.row, latency(function, process, components[function.object], scale)));
        }
        let mut refused: BTreeMap<(usize, String), i64> = BTreeMap::new();
        for one in &finished.refused {
            *refused.entry((one.object, one.reason.to_string())).or_default() += 1;
        }
        for (object, reason) in &finished.unwritten {
            *refused.entry((*object, reason.clone())).or_default() += 1;
        }
        for ((object, reason), count) in refused {
            let place = finished.objects[object].0.clone();
            self.loss.push(Loss { what: LossKind::SkippedFunctions, place, count, reason });
        }
        for trouble in &finished.troubles {
            let (place, reason) = (finished.executable.clone(), trouble.clone());
            self.loss.push(Loss { what: LossKind::SkippedFunctions, place, count: 1, reason });
        }
        for object in &finished.unreadable {
            let place = object.path.to_string_lossy().into_owned();
            self.loss.push(Loss { what: LossKind::SkippedFunctions, place, count: 1, reason: object.reason.clone() });
        }
    }

    fn component(&mut self, (path, build_id): &(String, String), executable: &str) -> ComponentId {
        let next = self.components.len() as ComponentId;
        *self.known.entry((path.clone(), build_id.clone())).or_insert_with(|| {
            self.components.push(Component {
                path: path.clone(),
                build_id: build_id.clone(),
                executable: path == executable,
                synthetic: false,
                static_in: None,
            });
            next
        })
    }
}

fn latency(function: &MeasuredFunction, process: ProcessId, component: ComponentId, scale: &BucketScale) -> Latency {
    let unseen = function.unseen;
    let histogram = || function.histogram.iter().map(|&count| u64::from(count));
    let total = scale.total(function.ticks, histogram());
    // Not each call that met the probe could be timed.
    let timed = (function.calls - function.counted.min(function.calls)).max(function.samples);
    let seen = total as f64 * timed as f64 / function.samples.max(1) as f64;
    let estimated = seen + scale.ticks(unseen.ticks);
    Latency {
        process,
        component,
        function: function.name.clone(),
        symbol: function.symbol.clone(),
        address: function.vaddr.cast_signed(),
        file: function.source.0.clone(),
        line: function.source.1,
        calls_seen: function.calls as i64,
        samples: function.samples as i64,
        total,
        total_estimated: (function.samples > 0).then_some(estimated as i64),
        max: if function.samples == 0 { 0 } else { scale.amount(function.max_ticks) },
        calls_estimated: unseen.is_known(function.calls).then_some((function.calls + unseen.calls as u64) as i64),
        calls_error: Some(unseen.error.ceil() as i64),
        histogram: scale.histogram(histogram()),
    }
}
