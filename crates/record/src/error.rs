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
    /// There is no place for the recording's temporary files.
    #[error("cannot make a folder for the recording: {0}; set TMPDIR to a folder that can be written")]
    TemporaryFolder(io::Error),
    /// The process can't be attached to or followed.
    #[error(transparent)]
    Attach(#[from] transect_attach::AttachError),
    /// Calls of a running process can't be counted.
    #[error("calls of process {pid} can't be counted: {why}")]
    Uncountable {
        /// The process.
        pid: i32,
        /// Why, and what to do.
        why: String,
    },
    /// Nothing could take the timers' jumps out of the program if this process were killed.
    #[error("nothing could put the program back if this command were killed: {0}")]
    Unguarded(String),
    /// The timers would break the program.
    #[error(transparent)]
    Untimable(#[from] crate::walk::user_timing::SkipReason),
    /// The collector in the kernel can't be loaded: something is missing.
    #[error(transparent)]
    Privilege(#[from] transect_bpf_collect::privilege::PrivilegeError),
    /// The collector in the kernel can't be loaded or read.
    #[error(transparent)]
    Collect(#[from] transect_bpf_collect::CollectError),
    /// Calls can't be measured in this.
    #[error(
        "calls can't be measured in {metric}: they are measured in wall, cpu or page-faults; `transect walk --metric \
         {metric}` samples where a counter of the hardware allows it"
    )]
    LatencyMetric {
        /// The metric's name.
        metric: &'static str,
    },
    /// The kernel does not time its functions in the way that was asked for.
    #[error(
        "functions of the kernel can't be timed by {timing} here: {why}; leave --kernel-timing out to use what there is \
         (`transect doctor` tells)"
    )]
    KernelTiming {
        /// The way.
        timing: &'static str,
        /// The reason.
        why: String,
    },
    /// A collector's thread is gone.
    #[error("a part of the recording has ended unexpectedly; please report this")]
    Ended,
    /// The program was over too soon for a collector.
    #[error("the program ended before {what}")]
    EndedBefore {
        /// What had not come about.
        what: &'static str,
    },
    /// The functions asked for are unknown or ambiguous.
    #[error(transparent)]
    Select(#[from] transect_probe_plan::SelectError),
    /// No probe can be at an address asked for.
    #[error(transparent)]
    Point(#[from] transect_probe_plan::PointError),
    /// The static components that were asked for can't be made.
    #[error(transparent)]
    Static(#[from] crate::static_components::StaticError),
    /// The kernel does not let us sample where a process spends its CPU time.
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
    /// Regions of an object can't be read.
    #[error(transparent)]
    Region(#[from] transect_feature_region::RegionError),
    /// The program that is launched has no regions; it may start one that has.
    #[error(
        "{0}; a command that starts such a program (env, timeout, a test) is recorded with \
         --feature-program FILE, or --feature-method probe or sample"
    )]
    UnmarkedCommand(transect_feature_region::RegionError),
    /// No object of the program has feature regions.
    #[error(
        "no object that {program} has loaded has feature regions; build it with transect-cc and a feature model \
         (see `transect feature --help`)"
    )]
    NoRegions {
        /// The program.
        program: String,
    },
    /// Objects have regions, but the method does not see their sites.
    #[error(
        "{object} was built with TRANSECT_SITES={sites}, which --feature-method {method} does not see; {instead}, or build \
         it with TRANSECT_SITES=probe or trace"
    )]
    OtherSites {
        /// The object.
        object: PathBuf,
        /// How its sites were built.
        sites: &'static str,
        /// The method.
        method: &'static str,
        /// What sees them.
        instead: &'static str,
    },
    /// The file that says which regions are on can't be used.
    #[error("the selection {path} can't be read: {reason}; it has a line `feature NAME` or `region N` for each")]
    Selection {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Only probes can be switched all the time.
    #[error("--selection takes --feature-method probe: only probes can be switched on and off during a recording")]
    SelectionByProbes,
    /// This user may not sample.
    #[error(
        "stacks can't be sampled: {why}; without that the kernel must let users sample or stop their own processes, which it \
         does not ({source}; kernel.perf_event_paranoid is {paranoid}): `sudo sysctl kernel.perf_event_paranoid=2` allows it"
    )]
    NoSamples {
        /// Why the scheduler can't be followed.
        why: String,
        /// The setting.
        paranoid: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Regions can't be watched from the kernel.
    #[error(
        "--feature-method usdt watches regions from the kernel: {0}; --feature-method probe switches the same sites on in the \
         program, without privileges"
    )]
    UsdtPrivilege(#[source] transect_bpf_collect::privilege::PrivilegeError),
    /// Regions are not sampled beside calls between components.
    #[error(
        "beside calls between components regions are observed by compiled-in events or by probes: use --feature-method \
         auto, trace or probe, or leave the other collectors out of --collect"
    )]
    FeaturesBesideFlows,
    /// A process has one tracer.
    #[error(
        "latencies and regions that are switched on by probes each need to be the program's tracer, of which there is one: build \
         it with TRANSECT_SITES=trace, or leave one of the two out of --collect"
    )]
    ProbesBesideLatency,
    /// A collector is at work in the program, or has ended early.
    #[error("it had nothing to tell at that moment")]
    Busy,
    /// The program knows no such feature.
    #[error("{program} has no feature '{feature}'; it has: {features}")]
    NoFeature {
        /// The program.
        program: PathBuf,
        /// The name asked for.
        feature: String,
        /// The names that there are.
        features: String,
    },
    /// The program has no such region.
    #[error(
        "{program} has {count} regions, numbered from 0; there is no region {region} (see `transect feature regions`)"
    )]
    NoRegion {
        /// The program.
        program: PathBuf,
        /// The number asked for.
        region: u32,
        /// How many there are.
        count: usize,
    },
    /// The handlers could not tell threads apart.
    #[error(
        "it is not known where the libc of process {pid} keeps its threads' numbers; use --feature-method usdt or sample, or \
         build the program with TRANSECT_SITES=trace"
    )]
    UnknownThreadNumbers {
        /// The process.
        pid: i32,
    },
    /// The program was built with another feature model.
    #[error(
        "{program} was built with another feature model ({found:016x}) than {model} ({wanted:016x}); build it again with \
         TRANSECT_FEATURE_MODEL={model}, or leave --model out"
    )]
    OtherModel {
        /// File of the model asked for.
        model: String,
        /// Its hash.
        wanted: u64,
        /// The program.
        program: PathBuf,
        /// Hash of the model in the program.
        found: u64,
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
    /// Whether the limit of open files is too low for the recording.
    pub fn lacks_descriptors(&self) -> bool {
        match self {
            Self::Collect(error) => error.lacks_descriptors(),
            Self::System { source, .. } | Self::Spawn { source, .. } => {
                source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
            }
            _ => false,
        }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RecordError {
        move |source| RecordError::System { what, source }
    }
}
