//! What is recorded while it runs: a launched program, or what was there before.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::recording::{Followed, SchedRecording};
use crate::command_line;
use crate::error::RecordError;
use crate::launch;
use crate::process_start::Launched;
use crate::signals::Signals;

/// What is kept of the privileges while something is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<'a> {
    /// Files and folders that will be written.
    pub writes: &'a [PathBuf],
    /// Probes of the kernel are attached later.
    pub probes: bool,
}

impl Keep<'_> {
    fn drop_the_rest(&self, recording: &SchedRecording) -> Result<(), RecordError> {
        let writes = self.writes.to_vec();
        if self.probes { recording.drop_privileges_but_probes(writes) } else { recording.drop_privileges(writes) }
    }
}

/// What is recorded, until it ends.
#[derive(Debug)]
pub(crate) enum Watched {
    /// A child of ours.
    Launched {
        /// Its process id.
        pid: Pid,
        /// It.
        child: Launched,
        /// Tells when it has ended. Nobody waits for it before that: whoever attaches to it gets its stops.
        process: OwnedFd,
        /// Its arguments.
        command: Vec<String>,
    },
    /// Others' processes.
    Running {
        /// Those that have not ended.
        processes: Vec<OwnedFd>,
        /// There is nothing else.
        only_processes: bool,
        /// What they are, in words.
        command: Vec<String>,
    },
}

impl Watched {
    /// Launches a program, follows it from its first instruction on and gives up the privileges that only loading needs.
    ///
    /// # Errors
    /// If it can't be started or followed.
    pub fn launch(command: &[OsString], recording: &SchedRecording, keep: Keep<'_>) -> Result<Self, RecordError> {
        let child = launch::spawn_plain(command, &mut |pid| {
            recording.follow(Followed::Launched(pid))?;
            keep.drop_the_rest(recording)
        })?;
        let pid = Pid::from_raw(child.id().cast_signed()).ok_or(RecordError::Ended)?;
        let process = open(pid)?;
        let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(Self::Launched { pid, child, process, command })
    }

    /// Follows what runs and gives up the privileges that only loading needs.
    ///
    /// # Errors
    /// If it is not there.
    pub fn attach(followed: &[Followed], recording: &SchedRecording, keep: Keep<'_>) -> Result<Self, RecordError> {
        let watched = Self::follow(followed, recording)?;
        keep.drop_the_rest(recording)?;
        Ok(watched)
    }

    /// Follows what runs; privileges are the caller's matter.
    ///
    /// # Errors
    /// If it is not there.
    pub fn follow(followed: &[Followed], recording: &SchedRecording) -> Result<Self, RecordError> {
        for one in followed {
            recording.follow(one.clone())?;
        }
        let mut processes = Vec::new();
        for one in followed {
            if let Followed::Process(pid) = one {
                let number = Pid::from_raw(*pid).ok_or(RecordError::Ended)?;
                processes.push(open(number)?);
            }
        }
        let only_processes = processes.len() == followed.len();
        Ok(Self::Running { processes, only_processes, command: followed.iter().map(describe).collect() })
    }

    /// What it is, in words.
    pub fn command(&self) -> &[String] {
        match self {
            Self::Launched { command, .. } | Self::Running { command, .. } => command,
        }
    }

    /// Waits until `until`, or for ever; passes signals on to a launched program. False if it has ended before, or a
    /// signal ends the recording of what runs anyway.
    pub fn wait_until(&mut self, until: Option<Instant>, signals: &Signals) -> bool {
        loop {
            match self {
                Self::Launched { pid, process, .. } => {
                    if !lives(process) {
                        return false;
                    }
                    for signal in signals.to_forward() {
                        let _ = rustix::process::kill_process(*pid, signal);
                    }
                }
                Self::Running { processes, only_processes, .. } => {
                    processes.retain(lives);
                    if signals.ends() || *only_processes && processes.is_empty() {
                        return false;
                    }
                }
            }
            // Ends of processes end it early; signals to pass on are looked at so often.
            let nap = Duration::from_millis(25);
            let left = until.map_or(nap, |until| until.saturating_duration_since(Instant::now()).min(nap));
            if left.is_zero() {
                return true;
            }
            let processes = match self {
                Self::Launched { process, .. } => std::slice::from_ref(process),
                Self::Running { processes, .. } => processes.as_slice(),
            };
            let mut ends: Vec<PollFd<'_>> = processes.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
            // Interrupted by a signal it has been long enough.
            let _ = poll(&mut ends, Some(&timeout));
        }
    }

    /// Exit status of a launched program as a shell reports it; 0 if it goes on without us. `heard`: how processes ended
    /// that were being held then, as wait(2) tells it, by process id.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn status(self, heard: &HashMap<i32, i32>) -> Result<Option<i32>, RecordError> {
        let Self::Launched { child, process, pid, .. } = self else { return Ok(None) };
        if lives(&process) {
            return Ok(Some(0));
        }
        if let Some(status) = heard.get(&pid.as_raw_nonzero().get()) {
            return Ok(Some(launch::shell_status(ExitStatus::from_raw(*status))));
        }
        let status = child.wait().map_err(RecordError::system("wait for the program"))?;
        Ok(Some(launch::shell_status(status)))
    }
}

fn open(pid: Pid) -> Result<OwnedFd, RecordError> {
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| RecordError::system("watch the process")(error.into()))
}

/// A descriptor of a process becomes readable when it ends, whether anybody has waited for it or not.
fn lives(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&Timespec::default())) == Ok(0)
}

fn describe(followed: &Followed) -> String {
    match followed {
        Followed::Process(pid) | Followed::Launched(pid) => command_line::words(*pid).join(" "),
        Followed::Cgroup(folder) => folder.display().to_string(),
        Followed::Machine => "all programs of the machine".to_owned(),
    }
}
