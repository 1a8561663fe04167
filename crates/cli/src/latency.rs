//! `transect latency`: how long functions take, sampled at a bounded cost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use transect_analyze::Selection;
use transect_binary_info::Object;
use transect_probe_plan::{FunctionTable, near_names};
use transect_profile_model::{LatencySampling, LossKind, Metric, Profile};
use transect_record::latency::{
    DEFAULT_BUDGET, DEFAULT_EPOCH, LatencyOutcome, LatencySettings, LatencyTarget, Unmatched, record,
};
use transect_record::machine_time::MachineTime;
use transect_record::{RecordError, Recorded, Snapshot, executed_names};
use transect_report::html;
use transect_report::html::PageReport;

use crate::arguments::{Collector, LatencyArguments, LatencyFormat, Recording, ViewArguments};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::place::Place;
use crate::progress::Progress;
use crate::{flag_effect, record as recording, report};

/// Exit status if no function is what was asked for, as for a running process.
const NOTHING_MATCHED: u8 = 1;

/// Measures, keeps the profile and shows the functions.
pub fn latency(arguments: &LatencyArguments, config: &Config) -> Result<u8, Failure> {
    let settings = settings(arguments);
    let (stream, program) = match &settings.target {
        LatencyTarget::Launch { command, .. } => (Stream::Stderr, PathBuf::from(&command[0])),
        LatencyTarget::Attach { pids, .. } => (Stream::Stdout, program_of(pids.first().copied().unwrap_or_default())),
    };
    let format = arguments.format.unwrap_or_else(|| LatencyFormat::from(config.report.format));
    if format != LatencyFormat::Text && arguments.output.is_none() && stream == Stream::Stderr {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json, csv or html".to_owned(),
        ));
    }
    let shown = arguments.shown(format);
    let selection = report::selection(&shown, config)?;
    flag_effect::check_view(selection.view, &[Collector::Latency])?;
    refuse_empty_patterns(arguments)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| recording::default_folder(&program));
    let place = Place::prepare(folder, arguments.quiet)?;
    let folder = place.folder().to_owned();
    let machine = MachineTime::watch();
    let mut snapshot = |profile: &Profile| drop(transect_profile_store::write(&folder, profile));
    let mut outcome = measure(&settings, &mut snapshot)?;
    let status = outcome.status.map_or(0, |status| u8::try_from(status & 0xff).unwrap_or(u8::MAX));
    let failed = Failure::after_run(status);
    if outcome.ended_before {
        return Err(failed(RecordError::EndedBefore { what: "its functions had probes" }.into()));
    }
    executed_names::apply(&mut outcome.profile);
    machine.note(&mut outcome.profile);
    let unmatched = outcome.profile.meta.latency.as_ref().is_none_or(|session| session.probes_installed == 0);
    let asked = Asked { functions: &arguments.functions, components: &arguments.component, hot: arguments.hot };
    if unmatched && stream == Stream::Stdout {
        return Err(Failure::NoFunction(asked.no_function(arguments, &program)));
    }
    keep(&outcome, &folder).map_err(&failed)?;
    machine.written(&mut outcome.profile.meta);
    // A program that has ended well does not make a mistake in the patterns a success.
    let status = if unmatched && is_chosen(arguments) { status.max(NOTHING_MATCHED) } else { status };
    if !arguments.quiet || shown.output.is_some() || shown.html.is_some() || stream == Stream::Stdout {
        match show(&outcome, &shown, format, &selection, config, stream) {
            // Nobody reads the stream any more; the program's status still counts.
            Err(failure) if failure.is_closed_pipe() => return Ok(status),
            Err(failure) => return Err(failed(Failure::Unreported { folder, failure: Box::new(failure) })),
            Ok(()) => {}
        }
    }
    outcome.left_behind.iter().for_each(|left| output::say(left));
    let is_told = |what| matches!(what, LossKind::ReplacedPrograms | LossKind::UnprivilegedPrograms);
    let told = outcome.profile.loss.iter().filter(|loss| is_told(loss.what));
    told.for_each(|loss| output::say(&format!("{}: {}", loss.place, loss.reason)));
    if unmatched {
        output::say(&asked.no_function(arguments, &program));
    } else {
        asked_in_vain(&outcome.unmatched).for_each(|asked| output::say(&asked.no_function(arguments, &program)));
    }
    if !arguments.quiet {
        output::say(&format!("the profile is {}", folder.display()));
    }
    Ok(status)
}

fn settings(arguments: &LatencyArguments) -> LatencySettings {
    let target = if arguments.pid.is_empty() {
        LatencyTarget::Launch { command: arguments.command.clone(), follow: !arguments.no_follow }
    } else {
        LatencyTarget::Attach { pids: arguments.pid.clone(), duration: arguments.duration }
    };
    let sampling = match arguments.sample_size {
        Some(sample_size) => LatencySampling::Fixed { sample_size },
        None => LatencySampling::Budget { share: arguments.overhead.unwrap_or(DEFAULT_BUDGET) },
    };
    LatencySettings {
        target,
        functions: arguments.functions.clone(),
        components: arguments.component.clone(),
        hot: arguments.hot,
        sampling,
        metric: arguments.metric.map(Metric::from).unwrap_or_default(),
        epoch: arguments.epoch.unwrap_or(DEFAULT_EPOCH),
        interval: arguments.snapshots.interval,
    }
}

/// Records latencies of all functions alone, as `--collect latency` asks for.
pub fn recorded(
    recording: &Recording,
    config: &Config,
    interval: Option<Duration>,
    snapshot: Snapshot<'_>,
) -> Result<Recorded, Failure> {
    let follow = recording::follows(recording, config);
    let settings = LatencySettings { interval, ..settings_beside(recording, follow) };
    let outcome = record(&settings, &mut |profile| snapshot(profile, None))?;
    outcome.left_behind.iter().for_each(|left| output::say(left));
    Ok(Recorded { profile: outcome.profile, exit_status: outcome.status.unwrap_or(0), timeline: None })
}

/// Settings of a recording in which latency is one collector.
pub fn settings_beside(recording: &Recording, follow: bool) -> LatencySettings {
    let running = &recording.running;
    let target = if running.is_given() {
        LatencyTarget::Attach { pids: running.processes(), duration: running.duration }
    } else {
        LatencyTarget::Launch { command: recording.command.clone(), follow }
    };
    LatencySettings {
        target,
        functions: Vec::new(),
        components: Vec::new(),
        hot: false,
        sampling: LatencySampling::Budget { share: DEFAULT_BUDGET },
        metric: Metric::Wall,
        epoch: DEFAULT_EPOCH,
        interval: None,
    }
}

/// Executable of a process, for the profile's name; its pid if that can't be read.
pub fn program_of(pid: i32) -> PathBuf {
    let link = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    PathBuf::from(name.map_or_else(|| pid.to_string(), |name| name.replace(" (deleted)", "")))
}

fn measure(settings: &LatencySettings, snapshot: &mut dyn FnMut(&Profile)) -> Result<LatencyOutcome, Failure> {
    let _progress = match &settings.target {
        LatencyTarget::Attach { pids, duration } => {
            let processes = pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let what = format!("measuring process{} {processes}", if pids.len() == 1 { "" } else { "es" });
            Some(Progress::start(match duration {
                None => format!("{what}; Ctrl-C ends it"),
                Some(time) => format!("{what} for {}", humantime::format_duration(*time)),
            }))
        }
        LatencyTarget::Launch { .. } => None,
    };
    Ok(record(settings, snapshot)?)
}

fn keep(outcome: &LatencyOutcome, folder: &Path) -> Result<(), Failure> {
    let _progress = Progress::start(format!("writing {}", folder.display()));
    transect_profile_store::write(folder, &outcome.profile).map_err(Failure::Keep)
}

/// A pattern without a letter matches nothing, and is a variable of a script that was not set.
fn refuse_empty_patterns(arguments: &LatencyArguments) -> Result<(), Failure> {
    for (flag, patterns) in [("--functions", &arguments.functions), ("--component", &arguments.component)] {
        if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(Failure::Usage(format!("{flag} is empty: give a name or a pattern, or leave it out for all")));
        }
    }
    Ok(())
}

fn is_chosen(arguments: &LatencyArguments) -> bool {
    !arguments.functions.is_empty() || !arguments.component.is_empty()
}

/// What was asked for.
#[derive(Debug, Clone, Copy, Default)]
struct Asked<'a> {
    functions: &'a [String],
    components: &'a [String],
    hot: bool,
}

/// Of several patterns, each that matched nothing.
fn asked_in_vain(unmatched: &Unmatched) -> impl Iterator<Item = Asked<'_>> {
    let one = std::slice::from_ref;
    let functions = unmatched.functions.iter().map(move |glob| Asked { functions: one(glob), ..Asked::default() });
    let components = unmatched.components.iter().map(move |glob| Asked { components: one(glob), ..Asked::default() });
    functions.chain(components)
}

impl Asked<'_> {
    /// Why nothing was measured, with names that are written much like what was asked for.
    fn no_function(&self, arguments: &LatencyArguments, program: &Path) -> String {
        let mut chosen: Vec<String> = self.functions.iter().map(|glob| format!("--functions '{glob}'")).collect();
        chosen.extend(self.components.iter().map(|glob| format!("--component '{glob}'")));
        chosen.extend(self.hot.then(|| "--hot".to_owned()));
        if chosen.is_empty() {
            return "no function of the program could get a probe".to_owned();
        }
        let object = arguments.pid.first().map_or_else(
            || transect_binary_info::inspect_launch(program).map(|target| target.object).ok(),
            |pid| Some(PathBuf::from(format!("/proc/{pid}/exe"))),
        );
        let object = object.and_then(|path| Object::open(path).ok());
        let near = object.map(|object| self.near(&object, program)).unwrap_or_default();
        format!("no function that a probe can stand at matches {}{near}; see `transect probe list`", chosen.join(" "))
    }

    fn near(&self, object: &Object, program: &Path) -> String {
        let mut said = String::new();
        let table = FunctionTable::of(object);
        let names: Vec<String> =
            self.functions.iter().flat_map(|wanted| near_names(wanted, table.functions())).collect();
        if !names.is_empty() {
            said.push_str(&format!("; the program has {}", names.join(", ")));
        }
        if !self.components.is_empty() {
            let own = program.file_name().map(|name| name.to_string_lossy().into_owned());
            let all: Vec<String> = own.into_iter().chain(object.needed().iter().cloned()).collect();
            said.push_str(&format!("; its components are {} and what these need", all.join(", ")));
        }
        said
    }
}

fn show(
    outcome: &LatencyOutcome,
    shown: &ViewArguments,
    format: LatencyFormat,
    selection: &Selection,
    config: &Config,
    stream: Stream,
) -> Result<(), Failure> {
    if format != LatencyFormat::Html {
        return report::show(&outcome.profile, shown, selection, config, stream, report::Extent::All);
    }
    let page = PageReport::new(&outcome.profile);
    match &shown.output {
        Some(path) => output::write_file(path, |out| html::render(&page, out)),
        None => stream.write(|out| html::render(&page, out)),
    }
}
