//! A recording of scheduler events alone: of a launched program, or of what runs already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use transect_profile_model::{Clock as ClockFacts, Meta, Profile, SCHEMA_VERSION, Timing};

use super::collected::Timeline;
use super::recording::{Followed, SchedOptions, SchedRecording};
use crate::clock::Clock;
use crate::error::RecordError;
use crate::signals::Signals;
use crate::{launch, machine};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedSession {
    /// What of.
    pub target: SchedTarget,
    /// End after this time at the latest.
    pub duration: Option<Duration>,
    /// How.
    pub options: SchedOptions,
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
}

/// Records until the program has ended, the time is over, or a signal says so (the program gets it first).
///
/// # Errors
/// If privileges or the kernel's help are missing, or there is nothing to record. The program is not started then.
pub fn record(session: &SchedSession) -> Result<SchedRecorded, RecordError> {
    let signals = Signals::watch()?;
    let recording = SchedRecording::start(&session.options)?;
    if let SchedTarget::Launch { command, .. } = &session.target
        && let Some(program) = command.first()
    {
        recording.prepare(program)?;
    }
    let clock = Clock::start();
    recording.begin(clock.started_monotonic_ns)?;
    let (status, command) = match &session.target {
        SchedTarget::Launch { command, wait_all } => {
            let status = launched(session, command, *wait_all, &recording, &signals)?;
            (Some(status), command.iter().map(|word| word.to_string_lossy().into_owned()).collect())
        }
        SchedTarget::Running { followed } => {
            for one in followed {
                recording.follow(one.clone())?;
            }
            recording.drop_privileges(session.writes.clone())?;
            watch(session, followed, &signals)?;
            (None, followed.iter().map(describe).collect())
        }
    };
    let wall_ns = clock.elapsed_ns();
    let mut profile = empty(&clock, command, wall_ns, status);
    let timeline = recording.finish()?.merge_into(&mut profile);
    Ok(SchedRecorded { profile, timeline, status })
}

fn launched(
    session: &SchedSession,
    command: &[OsString],
    wait_all: bool,
    recording: &SchedRecording,
    signals: &Signals,
) -> Result<i32, RecordError> {
    let child = launch::spawn_plain(command, &mut |pid| {
        recording.follow(Followed::Launched(pid))?;
        recording.drop_privileges(session.writes.clone())
    })?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(RecordError::Ended)?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        ended.store(true, Ordering::Release);
        status
    });
    let limit = session.duration.map(|duration| Instant::now() + duration);
    while !over.load(Ordering::Acquire) && limit.is_none_or(|limit| Instant::now() < limit) {
        std::thread::park_timeout(Duration::from_millis(5));
        for signal in signals.to_forward() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
    if !over.load(Ordering::Acquire) {
        // The time is over: the program goes on without us.
        return Ok(0);
    }
    if wait_all {
        while recording.live_threads()? > 0 && !signals.ends() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let status = waiter.join().map_err(|_| RecordError::Ended)?;
    Ok(launch::shell_status(status.map_err(RecordError::system("wait for the program"))?))
}

/// Until the processes have ended, the time is over, or a signal came.
fn watch(session: &SchedSession, followed: &[Followed], signals: &Signals) -> Result<(), RecordError> {
    let limit = session.duration.map(|duration| Instant::now() + duration);
    let mut processes = Vec::new();
    for one in followed {
        if let Followed::Process(pid) = one {
            let number = Pid::from_raw(*pid).ok_or(RecordError::Ended)?;
            processes.push(
                pidfd_open(number, PidfdFlags::empty())
                    .map_err(|e| RecordError::system("watch the process")(e.into()))?,
            );
        }
    }
    let only_processes = processes.len() == followed.len();
    while !signals.ends() && limit.is_none_or(|limit| Instant::now() < limit) {
        // A descriptor of a process becomes readable when it ends, whether anybody has waited for it or not.
        processes
            .retain(|process| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())) == Ok(0));
        if only_processes && processes.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn describe(followed: &Followed) -> String {
    match followed {
        Followed::Process(pid) | Followed::Launched(pid) => std::fs::read(format!("/proc/{pid}/cmdline"))
            .ok()
            .map(|line| String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " "))
            .filter(|line| !line.is_empty())
            .unwrap_or_else(|| format!("process {pid}")),
        Followed::Cgroup(folder) => folder.display().to_string(),
    }
}

/// A profile without rows.
fn empty(clock: &Clock, command: Vec<String>, wall_ns: i64, exit_status: Option<i32>) -> Profile {
    Profile {
        meta: Meta {
            schema: SCHEMA_VERSION,
            command,
            machine: machine::here(),
            clock: ClockFacts {
                source: "tsc".to_owned(),
                ticks_per_ns: clock.rate(),
                timed_call_ns: 0.0,
                counted_call_ns: 0.0,
            },
            collectors: Vec::new(),
            timing: Timing::Count,
            overhead_estimate: 0.0,
            wall_ns,
            started_unix_ns: clock.started_unix_ns,
            exit_status,
            latency: None,
            criticality: None,
        },
        components: Vec::new(),
        processes: Vec::new(),
        threads: Vec::new(),
        flows: Vec::new(),
        waits: Vec::new(),
        locks: Vec::new(),
        trace: Vec::new(),
        latency: Vec::new(),
        latency_slices: Vec::new(),
        sched: Default::default(),
        loss: Vec::new(),
    }
}

/// Records calls between components and scheduler events in one run, with one clock.
///
/// # Errors
/// As for [`crate::record`] and [`record`]. The program is not started then.
pub fn record_with_flows(
    flows: &crate::Options,
    options: &SchedOptions,
    writes: &[PathBuf],
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<crate::Recorded, RecordError> {
    let recording = SchedRecording::start(&SchedOptions { with_flows: true, ..options.clone() })?;
    if let Some(program) = flows.command.first() {
        recording.prepare(program)?;
    }
    let published = recording.published().try_clone().map_err(RecordError::system("share the collector's map"))?;
    let clock = Clock::start();
    recording.begin(clock.started_monotonic_ns)?;
    let beside = crate::Beside {
        published: Some(Arc::new(published)),
        before_exec: Some(&mut |pid| {
            recording.follow(Followed::Launched(pid))?;
            recording.drop_privileges(writes.to_vec())
        }),
    };
    let mut recorded = crate::session::run(flows, beside, clock, snapshot)?;
    recorded.timeline = Some(recording.finish()?.merge_into(&mut recorded.profile));
    Ok(recorded)
}
