//! Arguments of the scheduler collector, and of `transect criticality`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{RunningArguments, SnapshotArguments, ViewArguments, parse_share};

/// How scheduler events are recorded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduler")]
pub struct SchedArguments {
    /// Samples a second and CPU, weighted by criticality [default: 997; with flows 100 after 300 samples, 50 after 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub sample_hz: Option<u32>,
    /// Take a stack at each wait that leaves fewer active threads than this [default: number of CPUs]
    #[arg(long, value_name = "N")]
    pub min_parallelism: Option<u32>,
    /// Frames kept of a stack [default: 127]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=127))]
    pub stack_depth: Option<u32>,
    /// Share of a CPU that recording waits in detail may take, or all. Beyond it short waits are summed by thread, and
    /// their kinds come from a random sample; counts and times are exact [default: 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_wait_budget)]
    pub detailed_waits: Option<WaitBudget>,
    /// Record only criticality, running and waiting time of threads: no stacks, samples or kinds of waits
    #[arg(long, conflicts_with_all = ["sample_hz", "min_parallelism", "stack_depth", "detailed_waits"])]
    pub totals_only: bool,
    /// Whether the threads of all processes count as one application, or those of each process by themselves
    #[arg(long, value_enum, default_value = "together")]
    pub processes: Processes,
}

/// Time that describing waits may take, ns a second and CPU; 0 where all are described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitBudget(pub u32);

fn parse_wait_budget(word: &str) -> Result<WaitBudget, String> {
    match word {
        "all" => Ok(WaitBudget(0)),
        // At most 10^9, which fits; the least is not "all".
        _ => parse_share(word).map(|share| WaitBudget(((share * 1e9) as u32).max(1))),
    }
}

/// What counts as one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Processes {
    /// All processes: ranks of an MPI job, forked workers.
    Together,
    /// Each process.
    Apart,
}

/// `transect criticality`.
#[derive(Debug, Args)]
#[command(after_help = "\
Criticality is time divided by the number of active threads: what one thread does while all others
wait counts in full. The scheduler's events tell, exactly and without touching the program; that needs
cap_bpf and cap_perfmon (`transect doctor` prints the command that grants them). Without them a command
is run under the agent that intercepts library calls, and what it knows of waiting makes an estimate.

Examples:
  transect criticality -- ./server --threads 8
  transect criticality --html app.html -- make -j8
  transect criticality -p 4711 --duration 10s
  transect criticality --cgroup /sys/fs/cgroup/system.slice/postgresql.service --duration 10s
  transect criticality --processes apart -- mpirun -n 4 ./solver
  transect criticality --format json --output app.json -- ./app
  transect run --collect flow,sched -- ./app                    calls between libraries beside it")]
pub struct CriticalityArguments {
    /// What is recorded instead of a command.
    #[command(flatten)]
    pub running: RunningArguments,
    /// Record until the command's last descendant has ended
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "all"])]
    pub wait_all: bool,
    /// Snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotArguments,
    /// Estimate from the agent's waiting APIs, even if the scheduler's events could be recorded
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "all", "no_estimate"])]
    pub estimate: bool,
    /// Fail instead of estimating if the scheduler's events can't be recorded
    #[arg(long)]
    pub no_estimate: bool,
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// How to record.
    #[command(flatten)]
    pub sched: SchedArguments,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present_any = ["pid", "cgroup", "all"],
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}
