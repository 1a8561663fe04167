//! Every subcommand and flag. Help, man pages and completions are made from these declarations alone.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use transect_analyze::{Dimensions, SortKey, View};
use transect_profile_export::Format;
use transect_profile_model::Timing;

mod sched;

pub use sched::{CriticalityArguments, Processes, SchedArguments};

/// Share of run time that adaptive timing may take unless told otherwise.
pub const DEFAULT_BUDGET: f64 = 0.03;

/// Shows which component of a program pays for which API of which other component.
#[derive(Debug, Parser)]
#[command(
    name = "transect",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  transect run -- xz -9k file              profile a command, then print what stands out
  transect record -o p.transect -- ./app   only record
  transect report p.transect               print it again, or:
  transect report p.transect --html p.html one page for the browser
  transect criticality -- ./server         which code runs while other threads wait
  transect latency -p 4711 --for 10s       how long functions of a running process take
  transect doctor                          what works on this machine

Exit status: of the profiled program (128 + N if signal N killed it); 125 if recording failed, 126 if the command
cannot be executed, 127 if it was not found, 2 for wrong usage, 1 for other errors."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Profile a command and report on it.
    Run(RunArguments),
    /// Profile a command.
    Record(RecordArguments),
    /// Measure how long functions take, of a command or a running process.
    Latency(LatencyArguments),
    /// Show which code runs while other threads wait: on a command, running processes or a cgroup.
    Criticality(CriticalityArguments),
    /// Print the views of a profile, or write them as one HTML page.
    Report(ReportArguments),
    /// Switch probes of a running or launched program, and count or time calls with them.
    Probe(ProbeArguments),
    /// Convert a profile for other tools.
    Export(ExportArguments),
    /// Watch a recording while it runs.
    Top(TopArguments),
    /// Say what works on this machine, and what mends the rest.
    Doctor(DoctorArguments),
    /// Measure what clock, probes and their switching cost here, and how often waiting fails.
    Calibrate(CalibrateArguments),
    /// Print a completion script for a shell.
    Completions(CompletionsArguments),
    /// Write the man pages into a folder.
    Man(ManArguments),
}

/// How to record.
#[derive(Debug, Args)]
pub struct Recording {
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Which calls are timed: adaptive (one in k, steered by --overhead), full, count (none) or
    /// every=N [default: adaptive]
    #[arg(long, value_name = "MODE", value_parser = parse_timing)]
    pub timing: Option<TimingMode>,
    /// Share of run time that adaptive timing may take [default: 3%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub overhead: Option<f64>,
    /// What to collect: flow (calls between components), latency beside it (durations of all functions of the launched
    /// process, by probes that sample; see transect latency), sched alone or beside it (which code runs while other
    /// threads wait; see transect criticality)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "flow")]
    pub collect: Vec<Collector>,
    /// Keep median, 99th percentile and maximum of each flow
    #[arg(long)]
    pub histogram: bool,
    /// Keep the sequence of the calls whose API matches the pattern, with their integer arguments (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub trace: Vec<String>,
    /// Leave child processes alone
    #[arg(long)]
    pub no_follow: bool,
    /// Record until the last descendant has ended
    #[arg(long)]
    pub wait_all: bool,
    /// Write the profile so far this often (also on SIGUSR2)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub interval: Option<Duration>,
    /// File that adds to the table of blocking APIs (repeatable)
    #[arg(long, value_name = "FILE")]
    pub wait_apis: Vec<PathBuf>,
    /// File that names parts of the program (static libraries, namespaces, sources) to profile as components
    #[arg(long, value_name = "FILE")]
    pub static_components: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// How scheduler events are recorded.
    #[command(flatten)]
    pub sched: SchedArguments,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
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
The report goes to stderr, so that the program's own output stays as it is; with --output it goes to a file.

Examples:
  transect run -- python3 script.py
  transect run --view threads -- ./app
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

/// `transect report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect report p.transect
  transect report p.transect --view components
  transect report p.transect --component libz.so.1          APIs of a component
  transect report p.transect --api 'mem*' --sort calls      callers of an API
  transect report p.transect --view flows --by thread --format csv
  transect report p.transect --format json | jq '.components'
  transect report p.transect --html p.html")]
pub struct ReportArguments {
    /// Profile folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
}

/// Which rows to show, and how.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "View")]
pub struct ViewArguments {
    /// View [default: all of them, in short]
    #[arg(long, value_name = "VIEW", value_parser = parse_view())]
    pub view: Option<String>,
    /// Only flows, waits and locks of this component: a name or glob
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,
    /// Only this API: a name or glob
    #[arg(long, value_name = "NAME")]
    pub api: Option<String>,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", value_parser = SortKey::ALL.map(SortKey::as_str))]
    pub sort: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave out rows below this share of the time
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_percent: Option<f64>,
    /// Split flows by thread, process, feature (comma-separated)
    #[arg(long, value_name = "DIMENSIONS")]
    pub by: Option<Dimensions>,
    /// Format [default: text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the view to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write all views to one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// `transect latency`.
#[derive(Debug, Args)]
#[command(after_help = "\
A probe at a function's entry times so many calls, then switches itself off until the next epoch,
so that the cost is bounded however often a function is called. Text goes to stderr for a command,
whose own output stays as it is, and to stdout for a process.

Examples:
  transect latency -- ./server --port 8080
  transect latency --functions 'parse_*' --functions 'Codec::*' -- ./app
  transect latency -p 4711 --for 10s --component libssl.so.3
  transect latency -p 4711 --hot --overhead 1%
  transect latency --sample-size 10 --epoch 10ms --format json --output app.json -- ./app
  transect latency --format html --output app.html -- ./app     a picture of latency over time")]
pub struct LatencyArguments {
    /// Measure this running process instead of a command, and leave it as it was
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "command")]
    pub pid: Option<i32>,
    /// End after this time [default: when the process ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_positive_duration, conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Only functions whose name matches: demangled, raw, or without parameters (repeatable) [default: all]
    #[arg(long, value_name = "GLOB")]
    pub functions: Vec<String>,
    /// Only functions of this component: path, file name, or file name up to .so (repeatable) [default: all]
    #[arg(long, value_name = "GLOB")]
    pub component: Vec<String>,
    /// Only functions that are hot in a sample of the first second
    #[arg(long)]
    pub hot: bool,
    /// Calls to time per function and epoch, instead of as many as --overhead allows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "overhead")]
    pub sample_size: Option<u32>,
    /// Time between two switchings on [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub epoch: Option<Duration>,
    /// Share of run time that measuring may take [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub overhead: Option<f64>,
    /// Leave child processes of the command alone
    #[arg(long, conflicts_with = "pid")]
    pub no_follow: bool,
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Format [default: text]
    #[arg(long, value_enum)]
    pub format: Option<LatencyFormat>,
    /// Write the functions to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", value_parser = ["total", "calls", "mean", "p99", "max", "name"])]
    pub sort: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "pid",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// `transect probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Patterns are [COMPONENT:]FUNCTION[@SOURCE]; each part is a name, a glob or a /regular expression/.
A plain name must be that of one function; [COMPONENT:]0xADDRESS is a single instruction.

Examples:
  transect probe list -p 4711 'libssl*:SSL_*'
  transect probe count -p 4711 --for 1s 'malloc' 'free'
  transect probe time -p 4711 '*@parser.c'                 until Ctrl-C
  transect probe count 'parse_*' -- ./app input            from start to end
  transect probe enable -p 4711 handle_request             stays on; read it later with: count
  transect probe detach -p 4711                            the code is as in the files again

Exit status: of the launched program; 2 if no such function exists or its name is ambiguous, 125 if the
process can't be attached to.")]
pub struct ProbeArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: ProbeCommand,
}

/// Subcommands of `transect probe`.
#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Show where probes can be, which are there, and which functions can't have one and why
    List(ProbeSelection),
    /// Put probes on functions and switch them on: their calls are counted until `disable` or `detach`
    Enable(ProbeSelection),
    /// Switch probes off (all, if no pattern is given)
    Disable(ProbeSelection),
    /// Count calls per second
    Count(ProbeSelection),
    /// Time calls: mean, median, 99th percentile, maximum
    Time(ProbeSelection),
    /// Take all probes out: every byte of code is as in the files again
    Detach(ProbeSelection),
}

/// Which probes of which program, and how to show them.
#[derive(Debug, Args)]
pub struct ProbeSelection {
    /// The running process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "command", required_unless_present = "command")]
    pub pid: Option<i32>,
    /// Functions, by pattern.
    #[arg(help = "Functions: [COMPONENT:]FUNCTION[@SOURCE]", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Count or time for so long [default: until the process ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_positive_duration, conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Redraw this often on a terminal
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "1s")]
    pub delay: Duration,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave programs that the command starts alone
    #[arg(long, conflicts_with = "pid")]
    pub no_follow: bool,
    /// Format
    #[arg(long, value_enum, default_value = "text")]
    pub format: DoctorFormat,
    /// Write to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The program to start and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `transect export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect export p.transect --format pprof --output p.pb.gz && go tool pprof -http=: p.pb.gz
  transect export p.transect --format collapsed | inferno-flamegraph > p.svg
  transect export p.transect --format firefox --output p.json        open at profiler.firefox.com
  transect export p.transect --format speedscope --output p.speedscope.json
  transect export p.transect --format chrome --output p.trace.json   open at ui.perfetto.dev
  transect export p.transect --format csv > flows.csv
  transect export p.transect --view criticality --format collapsed | inferno-flamegraph > critical.svg")]
pub struct ExportArguments {
    /// Profile folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Format
    #[arg(long, value_name = "FORMAT", value_parser = export_formats())]
    pub format: String,
    /// What stacks and their weights are: flows by self time, or call paths by criticality. Without it, what the
    /// profile holds; flows if it holds both
    #[arg(long, value_name = "VIEW", value_parser = ["flows", "criticality"])]
    pub view: Option<String>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `transect top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect top p.transect           while transect record -o p.transect -- ./server runs
  transect top 4711                 by the pid of the recorder or of the recorded program
  transect top --delta --delay 1s p.transect
  transect top -n 1 p.transect      once, without clearing the screen")]
pub struct TopArguments {
    /// Profile folder of the running recording, or pid of the recorder or of its program
    #[arg(value_name = "DIR|PID")]
    pub recording: PathBuf,
    /// Redraw this often
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2s")]
    pub delay: Duration,
    /// Redraw so many times, then end
    #[arg(short = 'n', value_name = "N")]
    pub iterations: Option<u64>,
    /// View
    #[arg(long, value_name = "VIEW", value_parser = parse_view(), default_value = "flows")]
    pub view: String,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", value_parser = SortKey::ALL.map(SortKey::as_str))]
    pub sort: Option<String>,
    /// Show what happened since the last redraw instead of since the start
    #[arg(long)]
    pub delta: bool,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// `transect doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect doctor
  transect doctor --format json | jq '.doctor[] | select(.status != \"ok\")'

Exit status: 0 if programs can be profiled here, 1 if not.")]
pub struct DoctorArguments {
    /// Format
    #[arg(long, value_enum, default_value = "text")]
    pub format: DoctorFormat,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// `transect calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect calibrate
  transect calibrate --output curve.svg
  transect calibrate --quick --format json | jq .toggle

All figures are in ticks of the time-stamp counter, without the clock's own cost. Other work on the machine makes
them larger. The waiting protocol is tried in a process of its own; Transect itself never relies on waiting.")]
pub struct CalibrateArguments {
    /// Format
    #[arg(long, value_enum, default_value = "text")]
    pub format: CalibrateFormat,
    /// File to write instead of standard output; NAME.svg gets the picture, beside the tables on standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a picture of the waiting protocol's failures
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure for about a second instead of several
    #[arg(long)]
    pub quick: bool,
    /// Be the process that tries the waiting protocol, from this trial on
    #[arg(long, value_name = "TRIAL", hide = true)]
    pub trials_from: Option<usize>,
}

/// Formats of `transect calibrate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalibrateFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// The picture alone.
    Svg,
}

/// `transect completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect completions bash > ~/.local/share/bash-completion/completions/transect
  transect completions zsh > ~/.zfunc/_transect
  transect completions fish > ~/.config/fish/completions/transect.fish")]
pub struct CompletionsArguments {
    /// Shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `transect man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect man ~/.local/share/man/man1 && man transect-run")]
pub struct ManArguments {
    /// Folder for the pages (made if missing)
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Format of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// One table of comma-separated values.
    Csv,
}

/// Format of `latency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LatencyFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// One table of comma-separated values.
    Csv,
    /// One page for the browser.
    Html,
}

impl From<Option<ReportFormat>> for LatencyFormat {
    /// What the configuration asks for.
    fn from(format: Option<ReportFormat>) -> Self {
        match format {
            None | Some(ReportFormat::Text) => Self::Text,
            Some(ReportFormat::Json) => Self::Json,
            Some(ReportFormat::Csv) => Self::Csv,
        }
    }
}

/// Format of `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    /// If the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
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

/// Parses a share of run time, `3%` or `0.03`.
pub fn parse_share(word: &str) -> Result<f64, String> {
    let share = match word.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
        None => word.parse(),
    };
    share
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| "use a share above 0 and up to 100%, such as 3% or 0.03".to_owned())
}

/// Parses a duration above zero, `10ms` or `1m 30s`.
fn parse_positive_duration(word: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(word).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("use a time above 0, such as 10ms or 5s".to_owned()) } else { Ok(duration) }
}

fn parse_percent(word: &str) -> Result<f64, String> {
    let percent = word.strip_suffix('%').unwrap_or(word).trim().parse::<f64>();
    percent.ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| "use a number from 0 to 100".to_owned())
}

fn parse_view() -> clap::builder::PossibleValuesParser {
    View::ALL.map(View::as_str).into()
}

fn export_formats() -> clap::builder::PossibleValuesParser {
    Format::ALL.map(Format::as_str).into()
}
