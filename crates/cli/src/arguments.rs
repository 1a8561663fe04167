//! Every subcommand and flag. Help, man pages and completions are made from these declarations alone.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

mod export;
mod feature;
mod feature_command;
mod influence;
mod latency;
mod machine;
mod metric;
mod probe;
mod record;
mod report;
mod running;
mod sched;
mod symbolize;
mod view;
mod walk;

pub use export::{ExportArguments, TopArguments};
pub use feature::{FeatureArguments, FeatureMethod, RegionOverflow};
pub use feature_command::{
    CompilerArguments, ConfirmArguments, FeatureAction, FeatureCommandArguments, RegionsArguments,
};
pub use influence::{InfluenceArguments, InfluenceFormat, MethodChoice, SamplingChoice};
pub use latency::{LatencyArguments, LatencyFormat};
pub use machine::{
    CalibrateArguments, CalibrateFormat, CompletionsArguments, DoctorArguments, DoctorFormat, ManArguments,
};
pub use metric::MetricWord;
pub use probe::{ProbeArguments, ProbeCommand, ProbeSelection};
pub use record::{Choice, Collector, RecordArguments, Recording, RunArguments, TimingMode, parse_timing};
use report::parse_own_view;
pub use report::{
    AssemblySyntax, Color, CutArguments, DependenceArguments, ReportArguments, ReportFormat, ViewArguments,
};
use running::parse_one_process;
pub use running::{RunningArguments, SnapshotArguments};
pub use sched::{CriticalityArguments, Processes, SchedArguments, WaitBudget};
pub use symbolize::SymbolizeArguments;
pub use view::ShowArguments;
pub use walk::{WalkArguments, WalkSearchArguments};

/// Share of run time that adaptive timing may take by default.
pub const DEFAULT_BUDGET: f64 = 0.03;

/// Profiles native Linux programs: calls between components, waits, kernel time and features.
#[derive(Debug, Parser)]
#[command(
    name = "transect",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  transect run -- xz -9k file              profile a command, then print the findings
  transect record -o p.transect -- ./app   only record
  transect report p.transect               print it again, or:
  transect report p.transect --html p.html one page for the browser
  transect view --tui p.transect           findings, cuts, calls and lines in the terminal
  transect criticality -- ./server         which code runs while other threads wait
  transect walk -- ./server                which function, down into the kernel, finally holds the time
  transect latency -p 4711 --for 10s       how long functions of a running process take
  transect doctor                          what works on this machine

Exit status: of the profiled program (128 + N if signal N killed it); 125 if recording failed and the program did
not, 126 if the command cannot be executed, 127 if it was not found, 2 for wrong usage, 1 for other errors."
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
    Run(Box<RunArguments>),
    /// Profile a command.
    Record(RecordArguments),
    /// Measure how long functions take, of a command or a running process.
    Latency(LatencyArguments),
    /// Show which code runs while other threads wait: on a command, running processes, a cgroup or the machine.
    Criticality(CriticalityArguments),
    /// Search the function that finally holds the time, from main down into the kernel.
    Walk(WalkArguments),
    /// Build programs whose time per feature can be recorded.
    Feature(FeatureCommandArguments),
    /// Find what each option of a program costs, alone and together with others, by running configurations of it.
    Influence(Box<InfluenceArguments>),
    /// Print the views of a profile, or write them as one HTML page.
    Report(ReportArguments),
    /// Show profiles in the browser, or in the terminal.
    View(ShowArguments),
    /// Switch probes of a running or launched program, and count or time calls with them.
    Probe(ProbeArguments),
    /// Complete the names of a profile that was recorded without symbols or debug information.
    Symbolize(SymbolizeArguments),
    /// Convert a profile for other tools.
    Export(ExportArguments),
    /// Watch a recording while it runs.
    Top(TopArguments),
    /// Check what works on this machine, and show the commands that enable the rest.
    Doctor(DoctorArguments),
    /// Measure the cost of the clock, of probes and of switching them, and how often the waiting protocol fails.
    Calibrate(CalibrateArguments),
    /// Print a completion script for a shell.
    Completions(CompletionsArguments),
    /// Write the man pages into a folder.
    Man(ManArguments),
}

impl Command {
    /// The program to run and its arguments; empty if the command takes none.
    fn program(&self) -> &[OsString] {
        match self {
            Self::Run(arguments) => &arguments.recording.command,
            Self::Record(arguments) => &arguments.recording.command,
            Self::Latency(arguments) => &arguments.command,
            Self::Criticality(arguments) => &arguments.command,
            Self::Walk(arguments) => &arguments.command,
            Self::Influence(arguments) => &arguments.command,
            _ => &[],
        }
    }

    /// What stands for a program but is an option that the command does not know: everything from the program on is the
    /// program's, so a slip in front of it would be run.
    pub fn unknown_option(&self) -> Option<String> {
        let first = self.program().first()?.to_string_lossy();
        (first.len() > 1 && first.starts_with('-')).then(|| first.into_owned())
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

/// Parses a duration: `10ms`, `1m 30s`; a number without a unit is of seconds, as for sleep(1).
pub fn parse_duration(word: &str) -> Result<Duration, String> {
    let seconds = word.strip_suffix('s').unwrap_or(word).trim();
    if seconds.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && let Ok(number) = seconds.parse::<f64>()
    {
        return Duration::try_from_secs_f64(number).map_err(|error| error.to_string());
    }
    humantime::parse_duration(word).map_err(|error| error.to_string())
}

/// Parses a duration above zero.
fn parse_positive_duration(word: &str) -> Result<Duration, String> {
    let duration = parse_duration(word)?;
    if duration.is_zero() { Err("use a time above 0, such as 10ms or 5s".to_owned()) } else { Ok(duration) }
}

fn parse_percent(word: &str) -> Result<f64, String> {
    let percent = word.strip_suffix('%').unwrap_or(word).trim().parse::<f64>();
    percent.ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| "use a number from 0 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_seconds_without_a_unit() {
        let read = |word| parse_duration(word).ok().map(|time| time.as_millis());
        assert_eq!([read("2"), read("0.5"), read("1.5s"), read(".25")].map(Option::unwrap), [2000, 500, 1500, 250]);
        assert_eq!([read("10ms"), read("1m 30s"), read("2min")].map(Option::unwrap), [10, 90_000, 120_000]);
        assert_eq!([read("-1"), read("soon"), read("inf"), read("nan"), read(""), read("1e30")], [None; 6]);
        assert!(parse_positive_duration("0").is_err());
    }
}
