//! `transect record` and `transect run`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use transect_profile_model::{LatencySampling, Metric, Profile};
use transect_record::latency::{self, LatencySettings, LatencyTarget};
use transect_record::sched::{self, SchedSession, SchedTarget};
use transect_record::stolen_time::StolenTime;
use transect_record::{Beside, Options, Recorded};

use crate::arguments::{
    Collector, DEFAULT_BUDGET, RecordArguments, Recording, ReportFormat, RunArguments, TimingMode, parse_share,
    parse_timing,
};
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::{criticality, feature, report, running, timeline, walk};

/// Records, and says where the profile is.
pub fn record(arguments: &RecordArguments, config: &Config) -> Result<u8, Failure> {
    let (folder, recorded) = keep(&arguments.recording, config)?;
    if !arguments.recording.quiet {
        let what = amount(&recorded.profile);
        output::say(&format!("{what} recorded; see: transect report {}", folder.display()));
    }
    Ok(status(&recorded))
}

/// How much was recorded, in words.
fn amount(profile: &Profile) -> String {
    let meta = &profile.meta;
    if meta.feature.is_some() && !meta.collectors.iter().any(|collector| collector == "flow") {
        let entries: i64 = profile.feature.nodes.iter().filter_map(|node| node.entries).sum();
        let samples: i64 = profile.feature.nodes.iter().map(|node| node.samples).sum();
        return match (entries, samples) {
            (entries, 0) => format!("{entries} entries into feature regions"),
            (0, samples) => format!("{samples} samples of feature regions"),
            _ => format!("{entries} entries into feature regions and {samples} samples"),
        };
    }
    let calls: i64 = profile.flows.iter().map(|flow| flow.calls).sum();
    format!("{calls} calls between components")
}

/// Records, then reports on standard error or into files.
pub fn run(arguments: &RunArguments, config: &Config) -> Result<u8, Failure> {
    let view = &arguments.view;
    let selection = report::selection(view, config)?;
    let format = report::format(view, config);
    if format != ReportFormat::Text && view.output.is_none() {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json or csv".to_owned(),
        ));
    }
    let (folder, mut recorded) = keep(&arguments.recording, config)?;
    let stream = Stream::Stderr;
    if arguments.recording.quiet && view.output.is_none() && view.html.is_none() {
        return Ok(status(&recorded));
    }
    timeline::load(&mut recorded.profile, recorded.timeline.as_mut(), view.html.is_some())?;
    match report::show(&recorded.profile, view, &selection, config, stream) {
        // Nobody reads standard error any more; the program's status still counts.
        Err(failure) if failure.is_closed_pipe() => return Ok(status(&recorded)),
        Err(failure) => return Err(Failure::Unreported { folder, failure: Box::new(failure) }),
        Ok(()) => {}
    }
    if !arguments.recording.quiet {
        output::say(&format!("the profile is {}", folder.display()));
    }
    Ok(status(&recorded))
}

/// Records and writes the profile; gives its folder.
fn keep(recording: &Recording, config: &Config) -> Result<(PathBuf, Recorded), Failure> {
    let options = options(recording, config)?;
    let features = recording.collect.contains(&Collector::Feature);
    let flows = recording.collect.contains(&Collector::Flow);
    let beside = |one: &Collector| match one {
        Collector::Feature | Collector::Flow => true,
        Collector::Sched => flows,
        Collector::Latency | Collector::Walk => false,
    };
    if features && !recording.collect.iter().all(beside) {
        return Err(Failure::Usage(
            "features are recorded alone, with flow, or with flow and sched: leave the other collectors out of --collect"
                .to_owned(),
        ));
    }
    if recording.feature.pid.is_some() && !features {
        return Err(Failure::Usage("a running process can be recorded with --collect feature only".to_owned()));
    }
    let program = match recording.feature.pid {
        Some(pid) => crate::latency::program_of(pid),
        None => recording.command.first().map(PathBuf::from).unwrap_or_default(),
    };
    let program = program.as_path();
    // A command that can't be profiled is reported before anything is said about folders.
    let walks = recording.collect.contains(&Collector::Walk);
    if walks && recording.collect.iter().any(|one| !matches!(one, Collector::Walk | Collector::Sched)) {
        return Err(Failure::Usage(
            "a walk is recorded alone or with sched: leave the other collectors out of --collect".to_owned(),
        ));
    }
    if features && flows && recording.feature.pid.is_some() {
        return Err(Failure::Usage(
            "calls between components are counted from a program's start: leave flow out of --collect, or --pid"
                .to_owned(),
        ));
    }
    if recording.collect != [Collector::Sched] && !walks && (!features || flows) {
        transect_binary_info::inspect_launch(program).map_err(transect_record::RecordError::from)?;
    }
    let folder = recording.folder.clone().unwrap_or_else(|| default_folder(program));
    transect_profile_store::check_writable(&folder).map_err(Failure::Keep)?;
    let stolen = StolenTime::watch();
    let _running = running::announce(&folder);
    // A snapshot that can't be kept costs its readers an update; whether the profile can be kept shows at the end.
    let mut snapshot = |profile: &Profile| drop(transect_profile_store::write(&folder, profile));
    let wants = |collector| recording.collect.contains(&collector);
    let mut recorded = match (wants(Collector::Sched), wants(Collector::Flow)) {
        _ if walks => walk::recorded(recording, &folder)?,
        (_, false) if features => feature::recorded(recording, config)?,
        (false, _) => {
            let features = feature::settings_beside(recording, config)?;
            let beside = Beside { features: features.as_ref(), ..Beside::default() };
            transect_record::record_beside(&options, beside, &mut snapshot)?
        }
        (true, true) => {
            let sched = criticality::options(&recording.sched, &folder, true);
            let features = feature::settings_beside(recording, config)?;
            let writes = std::slice::from_ref(&folder);
            sched::record_with_flows(&options, &sched, features.as_ref(), writes, &mut snapshot)?
        }
        (true, false) => alone(recording, &folder)?,
    };
    recorded.profile.loss.extend(stolen.loss());
    timeline::write(&folder, &recorded.profile, recorded.timeline.as_mut())?;
    Ok((folder, recorded))
}

/// Scheduler events without the agent.
fn alone(recording: &Recording, folder: &Path) -> Result<Recorded, Failure> {
    let recorded = sched::record(&SchedSession {
        target: SchedTarget::Launch { command: recording.command.clone(), wait_all: recording.wait_all },
        duration: None,
        options: criticality::options(&recording.sched, folder, false),
        writes: vec![folder.to_owned()],
    })?;
    let exit_status = recorded.status.unwrap_or(0);
    Ok(Recorded { profile: recorded.profile, exit_status, timeline: Some(recorded.timeline) })
}

/// The program's exit status; recorders give it as a shell would, so it fits.
fn status(recorded: &Recorded) -> u8 {
    u8::try_from(recorded.exit_status & 0xff).unwrap_or(u8::MAX)
}

/// Share of the program's time that recording may cost: the flag over the configuration over the default.
pub fn budget(recording: &Recording, config: &Config) -> Result<f64, Failure> {
    match (recording.overhead, &config.record.overhead) {
        (Some(share), _) => Ok(share),
        (None, Some(word)) => parse_share(word).map_err(|problem| wrong("overhead", problem)),
        (None, None) => Ok(DEFAULT_BUDGET),
    }
}

/// Whether child processes are recorded.
pub fn follows(recording: &Recording, config: &Config) -> bool {
    !recording.no_follow && config.record.follow.unwrap_or(true)
}

/// A default of the configuration that can't be understood.
fn wrong(key: &str, problem: String) -> Failure {
    Failure::Config { path: config::path().unwrap_or_default(), problem: format!("record.{key}: {problem}") }
}

/// Flags over configuration over built-in defaults.
fn options(recording: &Recording, config: &Config) -> Result<Options, Failure> {
    let defaults = &config.record;
    let budget = budget(recording, config)?;
    let mode = match (recording.timing, &defaults.timing) {
        (Some(mode), _) => mode,
        (None, Some(word)) => parse_timing(word).map_err(|problem| wrong("timing", problem))?,
        (None, None) => TimingMode::Adaptive,
    };
    if recording.overhead.is_some() && mode != TimingMode::Adaptive {
        return Err(Failure::Usage(
            "--overhead steers adaptive timing; leave one of --overhead and --timing out".into(),
        ));
    }
    let interval = match (recording.interval, &defaults.interval) {
        (Some(interval), _) => Some(interval),
        (None, Some(word)) => {
            Some(humantime::parse_duration(word).map_err(|error| wrong("interval", error.to_string()))?)
        }
        (None, None) => None,
    };
    Ok(Options {
        command: recording.command.clone(),
        timing: mode.with_budget(budget),
        histogram: recording.histogram || defaults.histogram,
        trace: recording.trace.iter().chain(&defaults.trace).cloned().collect(),
        follow: follows(recording, config),
        wait_all: recording.wait_all,
        interval,
        wait_apis: defaults.wait_apis.iter().chain(&recording.wait_apis).cloned().collect(),
        static_components: recording.static_components.clone(),
        latency: latency(recording)?,
        agent: std::env::var_os("TRANSECT_AGENT").map(PathBuf::from),
        plan_cache: None,
    })
}

/// Settings of the latency collector, if it is wanted beside the flows.
fn latency(recording: &Recording) -> Result<Option<LatencySettings>, Failure> {
    if recording.collect.contains(&Collector::Latency) && !recording.collect.contains(&Collector::Flow) {
        return Err(Failure::Usage("for latencies alone, use: transect latency -- COMMAND".into()));
    }
    Ok(recording.collect.contains(&Collector::Latency).then(|| LatencySettings {
        target: LatencyTarget::Launch { command: recording.command.clone(), follow: false },
        functions: Vec::new(),
        components: Vec::new(),
        hot: false,
        sampling: LatencySampling::Budget { share: latency::DEFAULT_BUDGET },
        metric: Metric::Wall,
        epoch: latency::DEFAULT_EPOCH,
    }))
}

/// `transect-PROGRAM-TIME.transect` in the current folder, numbered if several begin in one second.
pub fn default_folder(program: &Path) -> PathBuf {
    let program = program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy();
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let named = |suffix: &str| PathBuf::from(format!("transect-{program}-{time}{suffix}.transect"));
    let mut folder = named("");
    for number in 2..1000 {
        if !folder.exists() {
            break;
        }
        folder = named(&format!("-{number}"));
    }
    folder
}
