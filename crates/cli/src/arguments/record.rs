//! How calls are recorded: `transect record` and `transect run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use transect_profile_model::Timing;

use super::{FeatureArguments, RunningArguments, SchedArguments, SnapshotArguments, ViewArguments, parse_share};

/// How to record.
#[derive(Debug, Args)]
pub struct Recording {
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Which calls are timed: adaptive (one in k, adjusted to --overhead), full, count (none) or
    /// every=N [default: adaptive]
    #[arg(long, value_name = "MODE", value_parser = parse_timing)]
    pub timing: Option<TimingMode>,
    /// Share of run time that adaptive timing may take [default: 3%; with sched, as by default, 1.5%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub overhead: Option<f64>,
    /// Collectors, comma-separated, instead of the default: flow (calls between components), sched (stack samples, waits
    /// and criticality; see transect criticality), walk (the function that finally holds the time; see transect walk),
    /// latency (durations of functions; see transect latency), feature (time per feature of a program built with
    /// transect-cc). -NAME removes one from the default [default: flow, sched and walk, and feature where the program has region sites, as far as this machine permits; of running programs
    /// sched and walk (flow, counted, if named here)]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_choice)]
    pub collect: Vec<Choice>,
    /// Record median, 99th percentile and maximum of each flow
    #[arg(long)]
    pub histogram: bool,
    /// Record each call whose API matches the pattern, with their integer arguments (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub trace: Vec<String>,
    /// Do not record child processes
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "all"])]
    pub no_follow: bool,
    /// Record until the last descendant has ended
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "all"])]
    pub wait_all: bool,
    /// Snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotArguments,
    /// File that adds to the table of blocking APIs (repeatable)
    #[arg(long, value_name = "FILE")]
    pub wait_apis: Vec<PathBuf>,
    /// File that names parts of the program (static libraries, namespaces, sources) to profile as components
    #[arg(long, value_name = "FILE")]
    pub static_components: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// What is recorded instead of a command.
    #[command(flatten)]
    pub running: RunningArguments,
    /// How scheduler events are recorded.
    #[command(flatten)]
    pub sched: SchedArguments,
    /// How feature regions are recorded.
    #[command(flatten)]
    pub feature: FeatureArguments,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present_any = ["pid", "cgroup", "all"],
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// A word of `--collect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This collector takes part.
    With(Collector),
    /// The default without this one.
    Without(Collector),
}

fn parse_choice(word: &str) -> Result<Choice, String> {
    let (name, choice): (_, fn(Collector) -> Choice) = match word.strip_prefix('-') {
        Some(name) => (name, Choice::Without),
        None => (word, Choice::With),
    };
    let known = || Collector::value_variants().iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
    Collector::from_str(name, false)
        .map(choice)
        .map_err(|_| format!("use {}, or -NAME to leave one out of the default", known()))
}

/// A collector of `transect record` and `transect run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Collector {
    /// Calls between components.
    Flow,
    /// Durations of functions.
    Latency,
    /// Scheduler events: which threads are active, and what the others wait for.
    Sched,
    /// The way from main to the function that finally holds the time; alone or with sched.
    Walk,
    /// Time per feature.
    Feature,
}

impl Collector {
    /// The word of `--collect`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Latency => "latency",
            Self::Sched => "sched",
            Self::Walk => "walk",
            Self::Feature => "feature",
        }
    }
}

/// `transect record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect record -- ./server --port 8080
  transect record -o p.transect --timing full --histogram -- ./app
  transect record --trace 'pthread_*' --trace read -- ./app
  transect record -o p.transect -- ./server & transect top p.transect

Defaults for flags may stand in $XDG_CONFIG_HOME/transect/config.toml:
  [record]
  timing = \"adaptive\"        # also: overhead, histogram, follow, interval, trace, wait-apis
  overhead = \"5%\"
  [report]
  color = \"always\"           # also: format, top, min-percent, sort

TRANSECT_AGENT names the agent to load, if not the one installed with this command.")]
pub struct RecordArguments {
    /// How to record.
    #[command(flatten)]
    pub recording: Recording,
}

/// `transect run`.
#[derive(Debug, Args)]
#[command(after_help = "\
The report goes to stderr, so that the program's own output is not changed; with --output it goes to a file.

Examples:
  transect run -- python3 script.py
  transect run --view threads -- ./app
  transect run -p 4711 --duration 10s                 a running program: all but calls between components
  transect run --cgroup /sys/fs/cgroup/system.slice/postgresql.service --duration 10s
  transect run --all --duration 10s                   all programs of the machine, as root
  transect run --html app.html -- ./app
  transect run --format json --output app.json -- ./app > app.out")]
pub struct RunArguments {
    /// How to record.
    #[command(flatten)]
    pub recording: Recording,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
}

/// `--timing`, before the budget of `--overhead` is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingMode {
    /// One in k, steered.
    Adaptive,
    /// All.
    Full,
    /// None.
    Count,
    /// One in N.
    Every(u32),
}

impl TimingMode {
    /// The timing mode of a recording whose adaptive budget is `budget`.
    pub fn with_budget(self, budget: f64) -> Timing {
        match self {
            Self::Adaptive => Timing::Adaptive { budget },
            Self::Full => Timing::Full,
            Self::Count => Timing::Count,
            Self::Every(period) => Timing::Every { period },
        }
    }
}

/// Parses `adaptive`, `full`, `count` or `every=N`.
pub fn parse_timing(word: &str) -> Result<TimingMode, String> {
    match word {
        "adaptive" => Ok(TimingMode::Adaptive),
        "full" => Ok(TimingMode::Full),
        "count" => Ok(TimingMode::Count),
        _ => word
            .strip_prefix("every=")
            .and_then(|n| n.parse().ok())
            .filter(|&n| n > 0)
            .map(TimingMode::Every)
            .ok_or_else(|| "use adaptive, full, count or every=N (N at least 1)".to_owned()),
    }
}
