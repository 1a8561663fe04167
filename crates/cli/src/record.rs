//! `transect record` and `transect run`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transect_analyze::{Selection, Unmatched, View, is_hazard, unmatched};
use transect_profile_model::{LossKind, Profile};
use transect_record::attached_flows::{self, AttachedFlowSettings};
use transect_record::feature::FeatureSettings;
use transect_record::machine_time::MachineTime;
use transect_record::sched::{
    self, LoadingRecording, SchedOptions, SchedRecording, SchedSession, SchedTarget, Timeline,
};
use transect_record::walk::WalkAfterRecording;
use transect_record::{Options, OtherCollectors, RecordError, Recorded, Snapshot, executed_names};
use transect_report::terminal::parts::without;

use crate::arguments::{
    Collector, DEFAULT_BUDGET, RecordArguments, Recording, ReportFormat, RunArguments, TimingMode, parse_duration,
    parse_share, parse_timing,
};
use crate::collection::Collection;
use crate::config::{self, Config};
use crate::failure::{self, Failure};
use crate::output::{self, Stream};
use crate::place::Place;
use crate::progress::Progress;
use crate::report::Extent;
use crate::{
    criticality, cut, dependence, feature, flag_effect, latency, limits, region_verdicts, report, running, timeline,
    walk,
};

/// Records, and says where the profile is.
pub fn record(arguments: &RecordArguments, config: &Config) -> Result<u8, Failure> {
    let (folder, recorded) = keep(&arguments.recording, None, config)?;
    if !arguments.recording.quiet {
        let what = amount(&recorded.profile);
        for loss in recorded.profile.loss.iter().filter(|loss| loss.what == LossKind::CollectorsLeftOut) {
            output::say(&without(&loss.place, &loss.reason));
        }
        output::say(&format!("{what} recorded; see: transect report {}", output::shell_path(&folder)));
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
    let counts_calls = meta.collectors.iter().any(|collector| collector == "flow");
    if calls == 0 && (!profile.sched.samples.is_empty() || !counts_calls && meta.criticality.is_some()) {
        let samples: i64 = profile.sched.samples.iter().map(|sample| sample.samples).sum();
        return format!("{samples} samples of call stacks");
    }
    if meta.collectors == ["walk"] {
        return format!("{} functions of {} call graphs", profile.walk.nodes.len(), profile.walk.groups.len());
    }
    format!("{calls} calls between components")
}

/// Records, then reports on standard error or into files.
pub fn run(arguments: &RunArguments, config: &Config) -> Result<u8, Failure> {
    let view = &arguments.view;
    let selection = report::selection(view, config)?;
    let format = report::format(view, config);
    let of_cut = cut::kind(view).map(cut::of_run).transpose()?;
    let launches = !arguments.recording.running.is_given();
    if launches && format != ReportFormat::Text && view.output.is_none() {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json, csv or markdown"
                .to_owned(),
        ));
    }
    let (folder, mut recorded) = keep(&arguments.recording, selection.view, config)?;
    let stream = if launches { Stream::Stderr } else { Stream::Stdout };
    if launches && arguments.recording.quiet && view.output.is_none() && view.html.is_none() {
        return Ok(status(&recorded));
    }
    let (status, failed) = (status(&recorded), Failure::after_run(status(&recorded)));
    let over_time = view.html.is_some() || of_cut.is_some_and(|asked| asked.needs_whole());
    timeline::load(&mut recorded.profile, recorded.timeline.as_mut(), over_time).map_err(&failed)?;
    dependence::apply(&mut recorded.profile, None).map_err(&failed)?;
    let to_stream = view.output.is_none() && view.html.is_none();
    match report::show(&recorded.profile, view, &selection, config, stream, Extent::FirstScreen) {
        // Nobody reads standard error, or it is full: nothing can be said there, and the program's status still counts.
        Err(failure) if failure.is_closed_pipe() || launches && to_stream && failure.is_write() => {
            return Ok(status);
        }
        Err(failure) => return Err(failed(Failure::Unreported { folder, failure: Box::new(failure) })),
        Ok(()) => {}
    }
    if !arguments.recording.quiet {
        output::say(&format!("all of it: transect report {} [--view VIEW] [--html FILE]", output::shell_path(&folder)));
    }
    Ok(status)
}

/// Records and writes the profile; gives its folder.
fn keep(recording: &Recording, view: Option<View>, config: &Config) -> Result<(PathBuf, Recorded), Failure> {
    let program = recording.command.first().map_or_else(|| recording.running.subject(), PathBuf::from);
    let program = program.as_path();
    let mut collection = Collection::of(recording, program, follows(recording, config))?;
    if recording.running.duration.is_some() && !recording.running.is_given() {
        return Err(Failure::Usage(
            "--duration ends the recording of what runs already: name that by --pid, --cgroup or --all; a command ends by \
             itself, or by timeout(1)"
                .to_owned(),
        ));
    }
    flag_effect::check(recording, &collection)?;
    check_calls(&collection, recording)?;
    flag_effect::check_view(view, collection.collectors())?;
    let options = options(recording, &collection, config)?;
    // A command that can't be profiled is reported before anything is said about folders.
    let launches = !recording.running.is_given();
    if launches && (collection.wants(Collector::Flow) || collection.wants(Collector::Latency)) {
        transect_binary_info::inspect_launch(program).map_err(transect_record::RecordError::from)?;
    }
    let folder = recording.folder.clone().unwrap_or_else(|| default_folder(program));
    let machine = MachineTime::watch();
    // It takes longest. Its threads take no signals: what is held back here must not come there.
    let loading = transect_record::hold_back(|| load_beside_flows(&mut collection, recording, &folder));
    let place = Place::prepare(folder, recording.quiet)?;
    let folder = place.folder().to_owned();
    let _running = running::announce(&folder);
    // A snapshot that can't be kept costs its readers an update; whether the profile can be kept shows at the end.
    let mut snapshot =
        |profile: &Profile, timeline: Option<&mut Timeline>| drop(timeline::keep(&folder, profile, timeline));
    let features = feature::settings(recording, &collection, config, options.interval)?;
    let scheduler = beside_flows(&mut collection, loading)?;
    let wants = |collector| collection.wants(collector);
    let mut finishing = None;
    let mut ended = || finishing = Some(Progress::start("finishing the profile"));
    let user_samples = collection.samples().then(|| criticality::spill(&folder));
    let beside = OtherCollectors {
        features: features.as_ref(),
        ended: Some(&mut ended),
        user_samples,
        ..OtherCollectors::default()
    };
    let mut recorded = match (wants(Collector::Sched), wants(Collector::Flow)) {
        (false, true) if recording.running.is_given() => {
            calls_of_running(recording, config, options.interval, &mut snapshot)?
        }
        (true, flow)
            if recording.running.is_given() || !flow && (collection.walks_by_samples() || !wants(Collector::Walk)) =>
        {
            scheduled(recording, &collection, config, features.clone(), options.interval, &folder, &mut snapshot)?
        }
        (_, false) if wants(Collector::Walk) => {
            walk::recorded(recording, &collection, options.interval, &folder, &mut snapshot)?
        }
        (_, false) if wants(Collector::Latency) => {
            latency::recorded(recording, config, options.interval, &mut snapshot)?
        }
        (_, false) if wants(Collector::Feature) => {
            feature::recorded(recording, config, options.interval, &mut snapshot)?
        }
        (false, false) if collection.samples() => {
            transect_record::user_samples::record(&recording.command, &criticality::spill(&folder))?
        }
        _ => match scheduler {
            Some((scheduler, settings)) => {
                let writes = std::slice::from_ref(&folder);
                let walk = wants(Collector::Walk).then(|| (WalkAfterRecording::prepare(), &settings));
                sched::record_with_flows(&options, scheduler, walk, beside, writes, &mut snapshot)?
            }
            None => transect_record::record_with(&options, beside, &mut |profile| snapshot(profile, None))?,
        },
    };
    failure::seen(&recorded.profile, (!recording.running.is_given()).then_some(recorded.exit_status))?;
    if let (true, Some(group)) = (recorded.profile.processes.is_empty(), &recording.running.cgroup) {
        return Err(Failure::EmptyGroup(group.clone()));
    }
    transect_record::sampled_flows::correct(&mut recorded.profile, recorded.timeline.as_ref());
    drop(finishing);
    executed_names::apply(&mut recorded.profile);
    region_verdicts::note(&mut recorded.profile, recording.quiet);
    recorded.profile.loss.extend(collection.loss().iter().cloned());
    recorded.profile.loss.extend(collection.late_processes(recording));
    machine.note(&mut recorded.profile);
    let written = timeline::write(&folder, &recorded.profile, recorded.timeline.as_mut());
    written.map_err(Failure::after_run(status(&recorded)))?;
    machine.written(&mut recorded.profile.meta);
    for pattern in &recording.trace {
        let selection = Selection { api: Some(pattern.clone()), ..Selection::default() };
        if let Some(Unmatched { near, .. }) = unmatched(&recorded.profile, &selection) {
            output::say(&format!("no call matched --trace '{pattern}'; near: {}", near.join(", ")));
        }
    }
    Ok((folder, recorded))
}

/// Refuses what calls of a running process can't be recorded with.
fn check_calls(collection: &Collection, recording: &Recording) -> Result<(), Failure> {
    let wants = |collector| collection.wants(collector);
    let timed = recording.timing.is_some_and(|timing| timing != TimingMode::Count);
    let of_launches = recording.static_components.is_some() || recording.histogram || !recording.trace.is_empty();
    let wrong = if !recording.running.is_given() || !wants(Collector::Flow) {
        return Ok(());
    } else if timed || recording.overhead.is_some() || of_launches {
        "calls of a running process are counted, not timed: leave --timing (or give count), --overhead, --histogram, --trace \
         and --static-components out"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(wrong.to_owned()))
}

/// The scheduler's collector for a recording of calls begins to be loaded, if it takes part.
fn load_beside_flows(
    collection: &mut Collection,
    recording: &Recording,
    folder: &Path,
) -> Option<(Result<LoadingRecording, RecordError>, SchedOptions)> {
    let running = recording.running.is_given();
    if running || !(collection.wants(Collector::Sched) && collection.wants(Collector::Flow)) {
        return None;
    }
    // Later steps would fail that it could not be left out of any more.
    if let Some(few) = limits::few_for_scheduler().filter(|_| collection.spares(Collector::Sched)) {
        collection.leave_out(Collector::Sched, few.clone());
        collection.leave_out(Collector::Walk, few);
        return None;
    }
    let agent = transect_record::find_agent(agent().as_deref()).ok();
    let programs = agent.into_iter().chain(recording.command.first().map(PathBuf::from)).collect();
    let fewer_samples = recording.sched.sample_hz.is_none();
    let options = SchedOptions {
        programs,
        fewer_samples,
        beside_flows: true,
        ..criticality::options(&recording.sched, folder, true)
    };
    let options = if collection.wants(Collector::Walk) { WalkAfterRecording::options(options) } else { options };
    Some((SchedRecording::start_loading(&options), options))
}

/// It is loaded; left out of a default set that it can't be part of.
fn beside_flows(
    collection: &mut Collection,
    loading: Option<(Result<LoadingRecording, RecordError>, SchedOptions)>,
) -> Result<Option<(SchedRecording, SchedOptions)>, Failure> {
    let Some((loading, options)) = loading else { return Ok(None) };
    match loading.and_then(LoadingRecording::wait) {
        Ok(scheduler) => Ok(Some((scheduler, options))),
        Err(error) if collection.spares(Collector::Sched) => {
            collection.leave_out(Collector::Sched, error.to_string());
            collection.leave_out(Collector::Walk, error.to_string());
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Scheduler events without the agent, of a command or of what runs already, and what is recorded beside them.
fn scheduled(
    recording: &Recording,
    collection: &Collection,
    config: &Config,
    features: Option<FeatureSettings>,
    interval: Option<Duration>,
    folder: &Path,
    snapshot: Snapshot<'_>,
) -> Result<Recorded, Failure> {
    let running = &recording.running;
    let target = if running.is_given() {
        SchedTarget::Running { followed: running.followed() }
    } else {
        SchedTarget::Launch { command: recording.command.clone(), wait_all: recording.wait_all }
    };
    let (walk, latencies) = (collection.wants(Collector::Walk), collection.wants(Collector::Latency));
    let settings = SchedSession {
        target,
        duration: running.duration,
        options: SchedOptions {
            // As many as findings need: others wait for what runs already.
            fewer_samples: walk && recording.sched.sample_hz.is_none(),
            ..criticality::options(&recording.sched, folder, false)
        },
        walk,
        latency: latencies.then(|| latency::settings_beside(recording, false)),
        flows: collection.wants(Collector::Flow).then(|| flow_settings(recording, config, interval)),
        features,
        interval,
        writes: vec![folder.to_owned()],
    };
    let recorded = sched::record(&settings, snapshot)?;
    recorded.left_behind.iter().for_each(|left| output::say(left));
    let exit_status = recorded.status.unwrap_or(0);
    Ok(Recorded { profile: recorded.profile, exit_status, timeline: Some(recorded.timeline) })
}

/// Calls between components of running processes, without other collectors.
fn calls_of_running(
    recording: &Recording,
    config: &Config,
    interval: Option<Duration>,
    snapshot: Snapshot<'_>,
) -> Result<Recorded, Failure> {
    let settings = flow_settings(recording, config, interval);
    let recorded = attached_flows::record(&settings, &mut |profile| snapshot(profile, None))?;
    recorded.left_behind.iter().for_each(|left| output::say(left));
    Ok(Recorded { profile: recorded.profile, exit_status: 0, timeline: None })
}

fn flow_settings(recording: &Recording, config: &Config, interval: Option<Duration>) -> AttachedFlowSettings {
    AttachedFlowSettings {
        pids: recording.running.processes(),
        duration: recording.running.duration,
        interval,
        wait_apis: config.record.wait_apis.iter().chain(&recording.wait_apis).cloned().collect(),
    }
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
fn options(recording: &Recording, collection: &Collection, config: &Config) -> Result<Options, Failure> {
    let defaults = &config.record;
    let given = recording.overhead.is_some() || defaults.overhead.is_some();
    let budget = match budget(recording, config)? {
        // Samples and the scheduler's events cost time, too, and tell of times.
        budget if !given && collection.wants(Collector::Sched) => budget / 2.0,
        budget => budget,
    };
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
    let interval = match (recording.snapshots.interval, &defaults.interval) {
        (Some(interval), _) => Some(interval),
        (None, Some(word)) => Some(parse_duration(word).map_err(|problem| wrong("interval", problem))?),
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
        latency: collection.wants(Collector::Latency).then(|| latency::settings_beside(recording, false)),
        agent: agent(),
        plan_cache: None,
    })
}

/// The agent that is wanted instead of the one beside the command.
fn agent() -> Option<PathBuf> {
    std::env::var_os("TRANSECT_AGENT").map(PathBuf::from)
}

/// Letters of a program's name in that of its profile: a file's name has 255 bytes at most.
const LONGEST_NAME: usize = 50;

/// `transect-PROGRAM-TIME.transect` in the current folder, numbered if several begin in one second.
pub fn default_folder(program: &Path) -> PathBuf {
    let program = program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy();
    // Who lists folders is not to have his terminal controlled, and the name is to be typed.
    let letter = |c: char| if is_hazard(c) { '_' } else { c };
    let program: String = program.chars().take(LONGEST_NAME).map(letter).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_folder_has_no_letters_that_control_a_terminal() {
        let folder = |program: &str| default_folder(Path::new(program)).display().to_string();
        assert!(folder("/bin/ev\nil\u{1b}[31m\u{202e}").starts_with("transect-ev_il_[31m_-"));
        assert!(folder("/bin/caf\u{e9} au lait").starts_with("transect-caf\u{e9} au lait-"));
        assert!(folder("..").starts_with("transect-program-"));
    }
}
