use std::io;
use std::path::PathBuf;

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The command is empty.
    #[error("no command given; write it after `--`: transect run -- COMMAND")]
    NoCommand,
    /// The program can't be profiled.
    #[error(transparent)]
    Binary(#[from] transect_binary_info::BinaryError),
    /// The program is of a kind that has no calls between components to intercept.
    #[error(transparent)]
    Launch(#[from] transect_binary_info::LaunchError),
    /// The program can't be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The agent is not where it should be.
    #[error(
        "a file of Transect's own is missing; looked for {looked}; reinstall Transect or run `make build` in its \
         source tree"
    )]
    AgentMissing {
        /// Places looked at.
        looked: String,
    },
    /// The process can't be attached to or followed.
    #[error(transparent)]
    Attach(#[from] transect_attach::AttachError),
    /// The collector in the kernel can't be loaded: something is missing.
    #[error(transparent)]
    Privilege(#[from] transect_bpf_collect::privilege::PrivilegeError),
    /// The collector in the kernel can't be loaded or read.
    #[error(transparent)]
    Collect(#[from] transect_bpf_collect::CollectError),
    /// The collector's thread is gone.
    #[error("the recording of scheduler events has ended unexpectedly; please report this")]
    Ended,
    /// The functions asked for are unknown or ambiguous.
    #[error(transparent)]
    Select(#[from] transect_probe_plan::SelectError),
    /// No probe can be at an address asked for.
    #[error(transparent)]
    Point(#[from] transect_probe_plan::PointError),
    /// A component asked for is not there.
    #[error("no component of process {pid} matches '{pattern}'; it has {components}")]
    NoComponent {
        /// The process.
        pid: i32,
        /// The pattern.
        pattern: String,
        /// Names of its components.
        components: String,
    },
    /// The static components that were asked for can't be made.
    #[error(transparent)]
    Static(#[from] crate::static_components::StaticError),
    /// The kernel does not let us sample where a process spends its processor time.
    #[error(
        "cannot sample process {pid}: {source} (kernel.perf_event_paranoid is {paranoid}); allow it with `sudo sysctl \
         kernel.perf_event_paranoid=2`, or choose functions with --functions instead of --hot"
    )]
    SamplingDenied {
        /// The process.
        pid: i32,
        /// The setting's value.
        paranoid: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A data file has a mistake.
    #[error("{path}:{line}: {problem}")]
    ApiData {
        /// The file.
        path: PathBuf,
        /// Line number.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Memory or files of the recorder's own.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl RecordError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RecordError {
        move |source| RecordError::System { what, source }
    }
}
