//! Flags of `transect run` that a preset does not have: the message says what they are for, and the command that has both.

use clap::{CommandFactory, Parser};

use crate::arguments::{Cli, Collector, Command, Recording};
use crate::flag_effect;

/// Why a preset, which takes one collector with the flags for it, does not know an option; `None` if `run` does not, either.
pub fn explain(command: &Command, option: &str) -> Option<String> {
    let (command, own) = match command {
        Command::Latency(_) => ("latency", Collector::Latency),
        Command::Criticality(_) => ("criticality", Collector::Sched),
        Command::Walk(_) => ("walk", Collector::Walk),
        _ => return None,
    };
    let flag = option.split_once('=').map_or(option, |(flag, _)| flag);
    let long = flag.strip_prefix("--")?;
    let whole = Cli::command();
    let known = whole.find_subcommand("run")?.get_arguments().any(|argument| argument.get_long() == Some(long));
    known.then(|| reason(command, own, flag))
}

fn reason(command: &str, own: Collector, flag: &str) -> String {
    let name = own.as_str();
    if flag == "--collect" {
        return format!("transect {command} records {name} alone; with others: transect run --collect {name},…");
    }
    if let "--cgroup" | "--all" = flag {
        return format!(
            "transect {command} is of one process; of a cgroup or the whole machine: transect run --cgroup DIR, or --all"
        );
    }
    let recording = any_recording();
    match flag_effect::collectors_of(&recording, flag) {
        Some(of) if flag_effect::is_refused_beside(&recording, flag, own) => format!(
            "{flag} has no effect on {name}, which transect {command} records; the recording that has it: transect run \
             --collect {} {flag} …",
            of[0].as_str()
        ),
        Some(of) if !of.contains(&own) => format!(
            "{flag} is for {}, which transect {command} does not record; both: transect run --collect {},{name} {flag} …",
            flag_effect::names(of.iter()),
            of[0].as_str()
        ),
        _ => {
            format!("transect {command} has no {flag}; the recording that has: transect run --collect {name} {flag} …")
        }
    }
}

/// A recording without flags: which flags there are does not depend on what is given.
fn any_recording() -> Recording {
    match Cli::parse_from(["transect", "run", "--", "true"]).command {
        Command::Run(arguments) => arguments.recording,
        _ => unreachable!("the words name this command"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_run_in_front_of_the_program_is_explained() {
        let explained = |words: &[&str]| {
            let cli = Cli::parse_from(words);
            let option = cli.command.unknown_option().unwrap();
            explain(&cli.command, &option)
        };
        let said = explained(&["transect", "latency", "--timing=count", "--", "true"]).unwrap();
        assert!(said.contains("--timing is for flow"), "{said}");
        assert!(explained(&["transect", "walk", "--detailed-waits", "all", "--", "true"]).is_some());
        assert_eq!(explained(&["transect", "walk", "--no-such", "--", "true"]), None);
        assert_eq!(explained(&["transect", "record", "--view", "flows", "--", "true"]), None);
    }

    #[test]
    fn the_message_says_who_has_the_flag() {
        for (command, own, flag, words) in [
            ("latency", Collector::Latency, "--timing", "--collect flow,latency --timing"),
            ("walk", Collector::Walk, "--detailed-waits", "is for sched"),
            ("criticality", Collector::Sched, "--histogram", "transect criticality does not record"),
            ("latency", Collector::Latency, "--cgroup", "transect run --cgroup DIR"),
            ("walk", Collector::Walk, "--collect", "--collect walk,"),
            // Beside walk, run refuses these.
            ("walk", Collector::Walk, "--no-follow", "transect run --collect flow --no-follow"),
            ("walk", Collector::Walk, "--totals-only", "transect run --collect sched --totals-only"),
        ] {
            let said = reason(command, own, flag);
            assert!(said.contains(words), "{said}");
        }
    }

    /// A flag of `run` that a preset lacks has a reason: another collector's, or what the preset is of.
    #[test]
    fn presets_have_the_flags_of_run_or_a_reason() {
        let whole = Cli::command();
        let flags = |name: &str| -> Vec<String> {
            let longs = whole.find_subcommand(name).unwrap().get_arguments();
            longs
                .flat_map(|argument| argument.get_long_and_visible_aliases().unwrap_or_default())
                .map(|long| format!("--{long}"))
                .collect()
        };
        let recording = any_recording();
        let mut lacks = Vec::new();
        for (command, own) in
            [("latency", Collector::Latency), ("criticality", Collector::Sched), ("walk", Collector::Walk)]
        {
            let has = flags(command);
            for flag in flags("run").into_iter().filter(|flag| !has.contains(flag)) {
                let others = flag_effect::collectors_of(&recording, &flag).is_some_and(|of| !of.contains(&own));
                if !others && !["--collect", "--cgroup", "--all"].contains(&flag.as_str()) {
                    lacks.push(format!("{command} {flag}"));
                }
            }
        }
        // Its one table is of functions, which `--functions` chooses, and is not split.
        assert_eq!(lacks, ["latency --api", "latency --by"]);
    }
}
