//! A recording of scheduler events alone: of a launched program, or of what runs already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::{Clock as ClockFacts, Meta, Profile};

use super::collected::Timeline;
use super::recording::{Followed, SchedOptions, SchedRecording};
use super::watched::{Keep, Watched};
use crate::attached_collector::AttachedCollector;
use crate::attached_collector::{FLOW, LATENCY};
use crate::attached_flows::{self, AttachedFlowSettings};
use crate::clock::Clock;
use crate::error::RecordError;
use crate::feature::{FeatureSettings, attached};
use crate::latency::{self, LatencySettings};
use crate::session::left_out;
use crate::signals::Signals;
use crate::snapshots::{Snapshot, Snapshots};
use crate::walk::WalkAfterRecording;
use crate::{launch, machine, thread_names};

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedTarget {
    /// A program that is launched.
    Launch {
        /// It and its arguments.
        command: Vec<OsString>,
        /// Until its last descendant has ended, not only itself.
        wait_all: bool,
    },
    /// Processes or cgroups that are there.
    Running {
        /// Which.
        followed: Vec<Followed>,
    },
}

/// A recording of scheduler events.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedSession {
    /// What of.
    pub target: SchedTarget,
    /// End after this time at the latest.
    pub duration: Option<Duration>,
    /// How.
    pub options: SchedOptions,
    /// Search the samples for the functions that finally hold the time, too.
    pub walk: bool,
    /// Sample durations of functions of running processes, too.
    pub latency: Option<LatencySettings>,
    /// Count calls between components of running processes, too.
    pub flows: Option<AttachedFlowSettings>,
    /// Record the features of running processes, too.
    pub features: Option<FeatureSettings>,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
    /// Files and folders that will be written afterwards: kept writable when privileges are dropped.
    pub writes: Vec<PathBuf>,
}

/// What came of it.
#[derive(Debug)]
pub struct SchedRecorded {
    /// The profile, without waits and slices.
    pub profile: Profile,
    /// Waits and slices.
    pub timeline: Timeline,
    /// Exit status of the launched program as a shell reports it.
    pub status: Option<i32>,
    /// What of ours had to stay in processes that go on, and why, in words.
    pub left_behind: Vec<String>,
}

/// Records until the program has ended, the time is over, or a signal says so (the program gets it first).
///
/// # Errors
/// If privileges or the kernel's help are missing, or there is nothing to record. The program is not started then.
pub fn record(session: &SchedSession, snapshot: Snapshot<'_>) -> Result<SchedRecorded, RecordError> {
    let signals = match &session.target {
        SchedTarget::Launch { .. } => Signals::watch()?,
        SchedTarget::Running { .. } => Signals::watch_running()?,
    };
    let programs = match &session.target {
        SchedTarget::Launch { command, .. } => command.first().map(PathBuf::from).into_iter().collect(),
        SchedTarget::Running { .. } => Vec::new(),
    };
    let launched_only = matches!(session.target, SchedTarget::Launch { .. });
    let options = SchedOptions { launched_only, programs, ..session.options.clone() };
    let options = if session.walk { WalkAfterRecording::options(options) } else { options };
    let walk = session.walk.then(WalkAfterRecording::prepare);
    let recording = SchedRecording::start(&options)?;
    if let SchedTarget::Launch { command, .. } = &session.target
        && let Some(program) = command.first()
    {
        recording.prepare(program)?;
    }
    let clock = Clock::start();
    let began = Instant::now();
    recording.begin(clock.started_monotonic_ns())?;
    // Before privileges are dropped; later for what is loaded later.
    let traced = session.latency.is_some();
    let mut beside = Vec::new();
    if let Some(settings) = session.features.clone() {
        beside.push(attached::start(settings, clock, traced)?);
    }
    let wait_begun = |beside: &[AttachedCollector]| beside.iter().any(|one| one.wait_begun(|| signals.ends()));
    let enough = wait_begun(&beside);
    let keep = Keep { writes: &session.writes, probes: !beside.is_empty() };
    let mut watched = match &session.target {
        SchedTarget::Launch { command, .. } => Watched::launch(command, &recording, keep)?,
        SchedTarget::Running { followed } => Watched::attach(followed, &recording, keep)?,
    };
    let begun = beside.len();
    if let Some(settings) = session.flows.clone() {
        beside.push(attached_flows::start(settings, clock)?);
    }
    if let Some(settings) = session.latency.clone() {
        beside.push(latency::attach(settings, clock)?);
    }
    // Large programs take a moment to get their probes, which is not the recording that was asked for.
    let enough = enough || wait_begun(&beside[begun..]);
    let duration = if enough { Some(Duration::ZERO) } else { session.duration };
    let limit = duration.map(|duration| match beside.is_empty() {
        // To follow all that runs takes a moment, and is part of the recording.
        true => (began + duration).max(Instant::now() + duration / 2),
        false => Instant::now() + duration,
    });
    let mut next = Snapshots::new(session.interval);
    // A snapshot is named by a thread of its own: that takes its time, and neither the end nor events wait for it.
    let naming = Mutex::new((walk, snapshot));
    let wall_ns = std::thread::scope(|scope| -> Result<i64, RecordError> {
        let (mut named, mut wanted): (Option<ScopedJoinHandle<'_, ()>>, _) = (None, false);
        let is_free =
            |named: &Option<ScopedJoinHandle<'_, ()>>| named.as_ref().is_none_or(ScopedJoinHandle::is_finished);
        let ended = loop {
            let until = next.look(limit);
            if !watched.wait_until(Some(until), &signals) {
                break true;
            }
            if limit.is_some_and(|limit| until >= limit) {
                break false;
            }
            wanted |= next.is_due(&signals);
            if wanted && is_free(&named) {
                wanted = false;
                let (command, wall_ns) = (watched.command().to_vec(), clock.elapsed_ns());
                let (naming, recording, options, clock, beside) = (&naming, &recording, &options, &clock, &beside);
                let name = move || {
                    let Ok(mut naming) = naming.lock() else { return };
                    let (walk, snapshot) = &mut *naming;
                    let so_far = |one: &AttachedCollector| (one.name, one.so_far().ok_or(RecordError::Busy));
                    let mut found: Found = beside.iter().map(so_far).collect();
                    let mut profile = take_flows(&mut found, empty(clock, command, wall_ns, None));
                    let timeline = scheduled_so_far(recording, walk.as_mut(), options, clock, &mut profile);
                    attached_flows::join_lifetimes(&mut profile);
                    add(found, &mut profile);
                    snapshot(&profile, timeline.ok().as_mut());
                };
                named = std::thread::Builder::new().name("snapshot".to_owned()).spawn_scoped(scope, name).ok();
            }
        };
        if ended && matches!(session.target, SchedTarget::Launch { wait_all: true, .. }) {
            while recording.live_threads()? > 0 && !signals.ends() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let wall_ns = clock.elapsed_ns();
        // What runs on is not recorded while the rest is found out; but others who record it end first.
        if !is_free(&named) || beside.is_empty() && matches!(session.target, SchedTarget::Running { .. }) {
            recording.stop()?;
        }
        Ok(wall_ns)
    })?;
    let (walk, _) = naming.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut left_behind = Vec::new();
    let mut finish = |one: AttachedCollector| {
        let found = (one.name, one.finish());
        (
            found.0,
            found.1.map(|outcome| {
                left_behind.extend(outcome.left_behind);
                outcome.profile
            }),
        )
    };
    let mut found: Found = beside.into_iter().map(&mut finish).collect();
    let command = watched.command().to_vec();
    let status = watched.status(&HashMap::default())?;
    let mut profile = take_flows(&mut found, empty(&clock, command, wall_ns, status));
    if let Some(walk) = walk
        && let Err(why) = walk.finish(&recording, &options, &clock, &mut profile)
    {
        profile.loss.push(left_out("walk", &why));
    }
    let collected = recording.finish()?;
    if matches!(session.target, SchedTarget::Running { .. }) {
        // It goes on, and is recorded until the last hook is out.
        profile.meta.wall_ns = wall_ns.max(collected.session.end_ns);
    }
    let timeline = collected.merge_into(&mut profile);
    attached_flows::join_lifetimes(&mut profile);
    add(found, &mut profile);
    Ok(SchedRecorded { profile, timeline, status, left_behind })
}

/// What other collectors have found, by their names.
type Found = Vec<(&'static str, Result<Profile, RecordError>)>;

/// The profile of calls, if there is one among them: the scheduler's rows are put into that, else into the `empty` one.
fn take_flows(found: &mut Found, empty: Profile) -> Profile {
    let Some(at) = found.iter().position(|one| one.0 == FLOW && one.1.is_ok()) else { return empty };
    let Ok(mut flows) = found.swap_remove(at).1 else { return empty };
    (flows.meta.command, flows.meta.wall_ns) = (empty.meta.command, empty.meta.wall_ns);
    flows.meta.exit_status = empty.meta.exit_status;
    flows
}

/// Adds what the others have found. What goes wrong with one takes nothing from the rest.
fn add(found: Found, profile: &mut Profile) {
    for (name, found) in found {
        match found {
            Ok(latencies) if name == LATENCY => latency::merge(profile, latencies),
            Ok(features) => attached::merge(profile, features),
            Err(why) => profile.loss.push(left_out(name, &why)),
        }
    }
}

/// Puts what was recorded up to now into `profile`.
fn scheduled_so_far(
    recording: &SchedRecording,
    walk: Option<&mut WalkAfterRecording>,
    options: &SchedOptions,
    clock: &Clock,
    profile: &mut Profile,
) -> Result<Timeline, RecordError> {
    if let Some(walk) = walk {
        walk.search(recording, options, clock, profile, false)?;
    }
    let collected = recording.so_far()?.tables()?;
    // Threads have run on since the time was taken.
    profile.meta.wall_ns = profile.meta.wall_ns.max(collected.session.end_ns);
    Ok(collected.merge_into(profile))
}

/// A profile without rows.
pub(crate) fn empty(clock: &Clock, command: Vec<String>, wall_ns: i64, exit_status: Option<i32>) -> Profile {
    Profile::new(Meta {
        command,
        wall_ns,
        started_unix_ns: clock.started_unix_ns,
        exit_status,
        ..Meta::new(
            machine::here(),
            ClockFacts {
                source: "tsc".to_owned(),
                ticks_per_ns: clock.rate(),
                timed_call_ns: 0.0,
                counted_call_ns: 0.0,
            },
        )
    })
}

/// Records calls between components and scheduler events in one run, with one clock. `recording` was started with
/// [`SchedOptions::with_flows`], and, for a walk, with [`WalkAfterRecording::options`].
///
/// # Errors
/// As for [`crate::record`] and [`record`]. The program is not started then.
pub fn record_with_flows(
    flows: &crate::Options,
    recording: SchedRecording,
    walk: Option<(WalkAfterRecording, &SchedOptions)>,
    beside: crate::OtherCollectors<'_>,
    writes: &[PathBuf],
    snapshot: Snapshot<'_>,
) -> Result<crate::Recorded, RecordError> {
    // Between a wait and its caller stand the agent's frames.
    if let Ok(agent) = launch::find_agent(flows.agent.as_deref()) {
        recording.prepare(agent.as_os_str())?;
    }
    if let Some(program) = flows.command.first() {
        recording.prepare(program)?;
    }
    let published = recording.published().try_clone().map_err(RecordError::system("share the collector's map"))?;
    let clock = Clock::start();
    recording.begin(clock.started_monotonic_ns())?;
    let crate::OtherCollectors { features, mut ended, .. } = beside;
    let beside = crate::OtherCollectors {
        features,
        published: Some(Arc::new(published)),
        before_exec: Some(&mut |pid| {
            recording.follow(Followed::Launched(pid))?;
            recording.drop_privileges(writes.to_vec())
        }),
        ended: Some(&mut || {
            if let Some(tell) = &mut ended {
                tell();
            }
        }),
        user_samples: None,
    };
    let (mut walk, options) = walk.unzip();
    let defaults = SchedOptions::default();
    let options = options.unwrap_or(&defaults);
    let mut with_scheduler = |flows: &Profile| {
        let mut profile = flows.clone();
        let timeline = scheduled_so_far(&recording, walk.as_mut(), options, &clock, &mut profile);
        snapshot(&profile, timeline.ok().as_mut());
    };
    let mut recorded = crate::session::run(flows, beside, clock, &mut with_scheduler)?;
    if let Some(walk) = walk {
        // What goes wrong with one collector takes nothing from the others.
        if let Err(why) = walk.finish(&recording, options, &clock, &mut recorded.profile) {
            recorded.profile.loss.push(left_out("walk", &why));
        }
    }
    match recording.finish() {
        Ok(collected) => {
            recorded.timeline = Some(collected.merge_into(&mut recorded.profile));
            thread_names::join(&mut recorded.profile);
        }
        Err(why) => recorded.profile.loss.push(left_out("sched", &why)),
    }
    Ok(recorded)
}
