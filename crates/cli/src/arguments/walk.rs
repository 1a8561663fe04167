//! Arguments of `transect walk`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use transect_profile_model::KernelTiming;
use transect_record::walk::WalkSpace;

use super::{MetricWord, SnapshotArguments, ViewArguments, parse_one_process, parse_positive_duration};

/// How the search goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct WalkSearchArguments {
    /// Follow a function if at least this share of its thread group's time is in it [default: 25%]
    #[arg(long, value_name = "SHARE", value_parser = parse_threshold)]
    pub threshold: Option<f64>,
    /// Length of one step [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub window: Option<Duration>,
    /// Only threads of this group: main, or their name without trailing numbers
    #[arg(long, value_name = "NAME")]
    pub thread_group: Option<String>,
    /// Functions timed at once, of the program 5 and of the kernel 4 at most [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    pub max_probes: Option<u32>,
    /// Metric of the shares [default: wall]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub metric: Option<MetricWord>,
    /// How functions of the kernel are timed [default: auto]
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub kernel_timing: Timing,
    /// Which half to search: the program alone, up to where it enters the kernel; or both with only the kernel's
    /// functions timed
    #[arg(long, value_enum, value_name = "WHICH", default_value = "both")]
    pub space: Halves,
    /// Time no function: shares come from samples and from exact times of system calls
    #[arg(long)]
    pub no_probes: bool,
    /// Count threads by their criticality: follow what delays the whole program
    #[arg(long, conflicts_with = "metric")]
    pub critical: bool,
}

/// Halves of the call graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Halves {
    /// Program and kernel.
    Both,
    /// The program.
    User,
    /// Both, but only functions of the kernel are timed.
    Kernel,
}

impl From<Halves> for WalkSpace {
    fn from(halves: Halves) -> Self {
        match halves {
            Halves::Both => Self::Both,
            Halves::User => Self::User,
            Halves::Kernel => Self::Kernel,
        }
    }
}

/// A share with or without a percent sign: numbers above 1 are percents without it.
fn parse_threshold(word: &str) -> Result<f64, String> {
    let number = |word: &str| word.trim().parse::<f64>().ok();
    let share = match word.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(word).map(|value| if value > 1.0 { value / 100.0 } else { value }),
    };
    let share = share.filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "use a share above 0 and up to 100%, such as 25% or 0.25".to_owned())
}

/// How functions of the kernel are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Timing {
    /// The best that the kernel allows.
    Auto,
    /// One program at entry and return of many functions.
    KprobeSession,
    /// Trampolines at entry and exit.
    Fentry,
    /// Two programs at entries and returns of many functions.
    KprobeMulti,
    /// A kprobe and a kretprobe for each function.
    Kprobe,
    /// Not at all: samples, adjusted to exact times of system calls.
    Sampling,
}

impl Timing {
    /// What was asked for, if anything.
    pub fn wanted(self) -> Option<KernelTiming> {
        Some(match self {
            Self::Auto => return None,
            Self::KprobeSession => KernelTiming::KprobeSession,
            Self::Fentry => KernelTiming::Fentry,
            Self::KprobeMulti => KernelTiming::KprobeMulti,
            Self::Kprobe => KernelTiming::Kprobe,
            Self::Sampling => KernelTiming::Sampling,
        })
    }
}

/// `transect walk`.
#[derive(Debug, Args)]
#[command(after_help = "\
The walk goes down from main into each function that holds a large share of the time, across the
system call into the kernel, and prints the way: with each function's share, how it was measured, and
what is waited for. It needs cap_bpf and cap_perfmon (`transect doctor` prints the command that grants
them, and how functions of the kernel can be timed here).

Examples:
  transect walk -- ./server --port 8080
  transect walk -p 4711
  transect walk -p 4711 --thread-group worker --threshold 15%
  transect walk --metric page-faults -- ./app
  transect walk --format json --output walk.json -- ./app
  transect walk --html walk.html -- ./app")]
pub struct WalkArguments {
    /// Search in this running process instead of a command
    #[arg(short, long, value_name = "PID", value_parser = parse_one_process, conflicts_with = "command")]
    pub pid: Option<i32>,
    /// End after this time [default: when the command ends; of a process when nothing is left to find, after 3s at the
    /// latest]
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_positive_duration)]
    pub duration: Option<Duration>,
    /// Snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotArguments,
    /// Samples a second and CPU [default: 997 of a command at first, 249 of longer runs, fewer when enough
    /// is known]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub sample_hz: Option<u32>,
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// How to search.
    #[command(flatten)]
    pub search: WalkSearchArguments,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "pid",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}
