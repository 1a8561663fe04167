//! The `transect` command: parses its arguments, calls the crates that do the work, and is the only place that prints
//! errors and decides exit statuses.

mod arguments;
mod calibrate;
mod collection;
mod completions;
mod config;
mod criticality;
mod cut;
mod dependence;
mod disassembly;
mod doctor;
mod export;
mod failure;
mod feature;
mod feature_command;
mod feature_confirm;
mod feature_regions;
mod flag_effect;
mod help;
mod influence;
mod latency;
mod limits;
mod manual;
mod newest;
mod output;
mod place;
mod probe;
mod probe_table;
mod progress;
mod record;
mod region_verdicts;
mod report;
mod running;
mod serve;
mod symbolize;
mod timeline;
mod top;
mod unknown_flag;
mod view;
mod walk;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    transect_record::survive_limits();
    // One that is meant for a recorder may come before it has read its arguments.
    transect_record::take_snapshot_requests();
    limits::with_stack(run)
}

/// Parses the arguments and does what they say.
fn run() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => dispatch(cli).map_err(limits::named).map_err(running::named),
        Err(said) => help::show(&said),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            if !failure.is_closed_pipe() {
                let message = failure.to_string();
                output::say(&format!("{message}{}", limits::advice(&message)));
            }
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Runs the subcommand and gives the exit status: the profiled program's own for `run`, `record`, `latency`,
/// `criticality` and `walk`, else 0.
fn dispatch(cli: Cli) -> Result<u8, Failure> {
    if let Some(option) = cli.command.unknown_option() {
        let unknown = || format!("unknown option '{option}'; a program whose name begins so is run as ./{option}");
        return Err(Failure::Usage(unknown_flag::explain(&cli.command, &option).unwrap_or_else(unknown)));
    }
    let config = config::load()?;
    if matches!(cli.command, Command::Probe(_) | Command::Top(_)) {
        limits::check_proc()?;
    }
    if matches!(
        cli.command,
        Command::Run(_) | Command::Record(_) | Command::Latency(_) | Command::Criticality(_) | Command::Walk(_)
    ) {
        limits::check_proc()?;
        limits::check_memory()?;
        limits::check_numbers(matches!(cli.command, Command::Criticality(_) | Command::Walk(_)))?;
    }
    match cli.command {
        Command::Run(arguments) => record::run(&arguments, &config),
        Command::Record(arguments) => record::record(&arguments, &config),
        Command::Latency(arguments) => latency::latency(&arguments, &config),
        Command::Criticality(arguments) => criticality::criticality(&arguments, &config),
        Command::Walk(arguments) => walk::walk(&arguments, &config),
        Command::Feature(arguments) => feature_command::feature(&arguments.action),
        Command::Influence(arguments) => influence::influence(&arguments),
        Command::Report(arguments) => report::report(&arguments, &config),
        Command::View(arguments) => view::view(&arguments, &config),
        Command::Probe(arguments) => probe::probe(&arguments.action),
        Command::Symbolize(arguments) => symbolize::symbolize(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Top(arguments) => top::top(&arguments, &config),
        Command::Doctor(arguments) => doctor::doctor(&arguments, &config),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => manual::manual(&arguments),
    }
}
