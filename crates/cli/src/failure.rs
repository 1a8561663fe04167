//! What can go wrong in a subcommand, and the exit status that says so.

use std::io;
use std::path::PathBuf;

use transect_attach::AttachError;
use transect_calibrate::CalibrateError;
use transect_feature_compiler::CompilerError;
use transect_feature_confirm::ConfirmError;
use transect_feature_model::ModelError;
use transect_influence::InfluenceError;
use transect_profile_export::ExportError;
use transect_profile_store::StoreError;
use transect_record::RecordError;
use transect_report::ReportError;
use transect_symbolize::SymbolizeError;

use crate::disassembly::DisassemblyError;

/// Exit status if recording failed, as env(1) and timeout(1) use it.
pub const RECORDING_FAILED: u8 = 125;

/// Why a subcommand failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The configuration file has a mistake.
    #[error("{path}: {problem}; mend the file or remove it", path = .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The program could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The recorded profile could not be kept.
    #[error(transparent)]
    Keep(StoreError),
    /// A profile could not be read.
    #[error(transparent)]
    Read(StoreError),
    /// The recorder of a profile was killed before it could write it.
    #[error(
        "{path}: no profile here: its recorder, process {recorder}, was killed or has crashed before it had written it (the \
         program that it recorded goes on without it). With --interval 10s a recording keeps every 10 s what it knows by then",
        path = .path.display()
    )]
    Killed {
        /// The folder asked for.
        path: PathBuf,
        /// The recorder.
        recorder: i32,
    },
    /// A profile that is being recorded, and is not written before the end.
    #[error(
        "{path}: no profile here yet: process {recorder} records it; kill -USR2 {recorder} has it write what it knows by now, \
         and with --interval 10s it does so every 10 s",
        path = .path.display()
    )]
    Unwritten {
        /// The folder asked for.
        path: PathBuf,
        /// The recorder.
        recorder: i32,
    },
    /// Where symbols were to be looked for is not of the profile, or can't be read.
    #[error(transparent)]
    Symbolize(#[from] SymbolizeError),
    /// A view could not be rendered.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The instructions of a function could not be shown.
    #[error(transparent)]
    Disassembly(#[from] DisassemblyError),
    /// A profile could not be converted.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The screens of `transect view` could not be shown.
    #[error(transparent)]
    View(#[from] transect_tui::TuiError),
    /// Pages could not be served.
    #[error(
        "cannot serve on port {port} of 127.0.0.1: {reason}; choose another one with --port, or write the page: transect report DIR --html FILE"
    )]
    Serve {
        /// The port; 0 if the system was to choose.
        port: u16,
        /// The system's reason.
        reason: String,
    },
    /// This machine's costs could not be measured.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// There is no compiler that marks feature regions.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// Runs have confirmed nothing.
    #[error(transparent)]
    Confirm(#[from] ConfirmError),
    /// A feature model has a mistake.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The influence of features could not be found.
    #[error(transparent)]
    Influence(#[from] InfluenceError),
    /// A file with the results of `transect influence` is none.
    #[error("{path} has no results of transect influence: {problem}; write them with --format json --output FILE", path = .path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An output file or stream could not be written.
    #[error("cannot write {place}: {source}")]
    Write {
        /// The file, or `standard output`.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program ran and its profile is kept, but the report on it failed.
    #[error("{failure}; the profile is kept, see it with: transect report {folder}", folder = crate::output::shell_path(.folder))]
    Unreported {
        /// Where the profile is.
        folder: PathBuf,
        /// What went wrong.
        failure: Box<Failure>,
    },
    /// The program ended with a status of its own, and afterwards its recording failed.
    #[error("{failure}; the command itself ended with status {status}")]
    AfterRun {
        /// The command's status, as a shell gives it.
        status: u8,
        /// What went wrong.
        failure: Box<Failure>,
    },
    /// The program ran, and nothing of it was recorded.
    #[error(
        "the command ended with status {status}, and the recording saw none of its processes, so there is no profile; \
         `transect doctor` tells what works here, and --collect takes another collector"
    )]
    NothingSeen {
        /// The command's status, as a shell gives it.
        status: i32,
    },
    /// `/proc` is of other processes than those that this one sees.
    #[error(
        "/proc is of another PID namespace, so a recording would look at other processes than were asked for; mount one of this \
         namespace: unshare --pid --fork --mount-proc transect …, or mount -t proc proc /proc"
    )]
    OtherProc,
    /// `/proc` is not mounted.
    #[error(
        "/proc is not mounted, and nothing is known about processes without it; mount it: mount -t proc proc /proc"
    )]
    NoProc,
    /// Nothing ran in a cgroup.
    #[error("no process of the cgroup {} ran while it was recorded, so there is no profile", .0.display())]
    EmptyGroup(PathBuf),
    /// A limit of memory that the user has set leaves no room for a recording.
    #[error(
        "the limit of {what}, {} MiB (ulimit {flag}), is too low for a recording, which takes {} MiB; set it for the program \
         alone: transect {} -- sh -c 'ulimit {flag} {}; exec \"$@\"' sh PROGRAM",
        limit >> 20, least >> 20, given_command(), limit >> 10
    )]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The shell's flag for it.
        flag: &'static str,
        /// The limit, bytes.
        limit: u64,
        /// What is needed, bytes.
        least: u64,
    },
    /// A recording's threads can't be started.
    #[error(
        "a recording takes {least} threads, and so many can't be started here: too few processes and threads are allowed, or \
         too little memory; raise the limit of the user (ulimit -u, -v) or of the cgroup (pids.max)"
    )]
    FewThreads {
        /// How many are needed.
        least: usize,
    },
    /// Too few descriptors for a recording.
    #[error(
        "at most {limit} open files (ulimit -n) are too few for a recording, which takes {least}; raise it here, and limit the \
         program alone: transect {} -- sh -c 'ulimit -n {limit}; exec \"$@\"' sh PROGRAM",
        given_command()
    )]
    FewDescriptors {
        /// The limit.
        limit: u64,
        /// How many are needed.
        least: u64,
    },
    /// No function was found to measure.
    #[error("{0}")]
    NoFunction(String),
    /// A view was asked for names that the profile does not have.
    #[error("no {what} of the profile matches '{pattern}'; near: {near}")]
    NoMatch {
        /// `component` or `api`.
        what: &'static str,
        /// What was asked for.
        pattern: String,
        /// Names that are there.
        near: String,
    },
    /// `top` found no recording.
    #[error("{0}")]
    NoRecording(String),
}

/// A profile in which no process is tells nothing, and looks as if all were well.
pub fn seen(profile: &transect_profile_model::Profile, status: Option<i32>) -> Result<(), Failure> {
    match (profile.processes.is_empty(), status) {
        (true, Some(status)) => Err(Failure::NothingSeen { status }),
        _ => Ok(()),
    }
}

impl Failure {
    /// Of what fails once a program has run: its status still counts, unless that says that all is well.
    pub fn after_run(status: u8) -> impl Fn(Self) -> Self {
        move |failure| match status {
            0 => failure,
            status => Self::AfterRun { status, failure: Box::new(failure) },
        }
    }

    /// 125, 126, 127 for a recording that did not come about, 2 for usage, else 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config { .. } | Self::Model(_) => 2,
            Self::Influence(InfluenceError::NoPlace | InfluenceError::NoCommand) => 2,
            Self::Record(RecordError::Launch(error)) => error.exit_status(),
            Self::Record(RecordError::Select(_) | RecordError::Point(_)) => 2,
            Self::Record(RecordError::Attach(AttachError::Start { source, .. })) => match source.kind() {
                io::ErrorKind::NotFound => 127,
                _ if is_want(source) => RECORDING_FAILED,
                _ => 126,
            },
            Self::Record(RecordError::Spawn { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => 127,
                _ if is_want(source) => RECORDING_FAILED,
                _ => 126,
            },
            Self::Record(_) | Self::Keep(_) | Self::Unreported { .. } => RECORDING_FAILED,
            Self::AfterRun { status, .. } => *status,
            Self::NothingSeen { status } if *status != 0 => u8::try_from(status & 0xff).unwrap_or(u8::MAX),
            Self::NothingSeen { .. }
            | Self::EmptyGroup(_)
            | Self::Limit { .. }
            | Self::OtherProc
            | Self::NoProc
            | Self::FewDescriptors { .. }
            | Self::FewThreads { .. } => RECORDING_FAILED,
            _ if self.is_closed_pipe() => 0,
            _ => 1,
        }
    }

    /// True if what was to be shown could not be written.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Report(ReportError::Write(_)))
    }

    /// True if the reader of the output has gone (`transect report … | head`): not worth a message.
    pub fn is_closed_pipe(&self) -> bool {
        let (Self::Write { source, .. }
        | Self::Report(ReportError::Write(source))
        | Self::Export(ExportError::Write(source))) = self
        else {
            return false;
        };
        source.kind() == io::ErrorKind::BrokenPipe
    }
}

/// What the recorder lacked to start a program: descriptors, processes, memory (EMFILE, ENFILE, EAGAIN, ENOMEM).
fn is_want(source: &io::Error) -> bool {
    matches!(source.raw_os_error(), Some(24 | 23 | 11 | 12))
}

/// The recording command that was given, to be said in a message; `run` if it was another one.
fn given_command() -> String {
    const RECORDING: [&str; 5] = ["run", "record", "latency", "criticality", "walk"];
    let given = std::env::args_os().skip(1).find_map(|word| RECORDING.into_iter().find(|&command| word == command));
    given.unwrap_or(RECORDING[0]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_has_run_keeps_its_status_if_its_profile_is_lost() {
        let full = || Failure::Keep(StoreError::NotFound { path: "p".into() });
        let after = |status| Failure::after_run(status)(full());
        assert_eq!([after(7), after(139)].map(|failure| failure.exit_status()), [7, 139]);
        assert!(after(7).to_string().ends_with("; the command itself ended with status 7"), "{}", after(7));
        assert_eq!(after(0).exit_status(), RECORDING_FAILED, "there is no profile, which somebody may count on");
        let nothing = |status| Failure::NothingSeen { status }.exit_status();
        assert_eq!([nothing(0), nothing(139)], [RECORDING_FAILED, 139]);
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_cannot_run() {
        for (kind, status) in [(io::ErrorKind::NotFound, 127), (io::ErrorKind::PermissionDenied, 126)] {
            let spawn = RecordError::Spawn { program: "p".into(), source: kind.into() };
            assert_eq!(Failure::Record(spawn).exit_status(), status);
        }
        let source = io::Error::from_raw_os_error(24);
        let spawn = RecordError::Spawn { program: "p".into(), source };
        assert_eq!(Failure::Record(spawn).exit_status(), RECORDING_FAILED, "it is us who had no descriptors");
    }
}
