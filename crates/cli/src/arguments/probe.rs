//! Arguments of `transect probe`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{DoctorFormat, parse_positive_duration};

/// `transect probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Patterns are [COMPONENT:]FUNCTION[@SOURCE]; each part is a name, a glob or a /regular expression/.
A plain name must be that of one function; [COMPONENT:]0xADDRESS is a single instruction;
[COMPONENT:]PROVIDER:POINT is a USDT point (a function of that name in a component of that name goes before).

Examples:
  transect probe list -p 4711 'libssl*:SSL_*'
  transect probe count -p 4711 --for 1s 'malloc' 'free'
  transect probe time -p 4711 '*@parser.c'                 until Ctrl-C
  transect probe count 'parse_*' -- ./app input            from start to end
  transect probe count -p 4711 'postgresql:query__*'       USDT points: passes are counted
  transect probe enable -p 4711 handle_request             remains on; read it later with: count
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
    /// Show possible and installed probes, and for other functions why they can't have one
    List(ProbeSelection),
    /// Install probes at functions and switch them on: their calls are counted until `disable` or `detach`
    Enable(ProbeSelection),
    /// Switch probes off (all, if no pattern is given)
    Disable(ProbeSelection),
    /// Count calls per second
    Count(ProbeSelection),
    /// Time calls: mean, median, 99th percentile, maximum
    Time(ProbeSelection),
    /// Remove all probes: every byte of code is as in the files again
    Detach(ProbeSelection),
}

/// Which probes of which program, and how to show them.
#[derive(Debug, Args)]
pub struct ProbeSelection {
    /// The running process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "command", required_unless_present = "command")]
    pub pid: Option<i32>,
    /// Functions, by pattern.
    #[arg(
        help = "Functions: [COMPONENT:]FUNCTION[@SOURCE], or USDT points: [COMPONENT:]PROVIDER:POINT",
        value_name = "PATTERN"
    )]
    pub patterns: Vec<String>,
    /// Count or time for this long [default: until the process ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_positive_duration, conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Redraw this often on a terminal
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "1s")]
    pub delay: Duration,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Do not follow child processes of the command
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
