//! `transect walk`: the way from main to the function that finally holds the time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use transect_analyze::View;
use transect_profile_model::{Metric, Profile};
use transect_record::machine_time::MachineTime;
use transect_record::sched::Timeline;
use transect_record::walk::{
    DEFAULT_THRESHOLD, SampleRate, WalkProgress, WalkSettings, WalkSpace, WalkTarget, walk as search,
};
use transect_record::{Recorded, Snapshot, executed_names};
use transect_report::terminal::walk_progress;

use crate::arguments::{Collector, Recording, ReportFormat, WalkArguments, WalkSearchArguments};
use crate::collection::Collection;
use crate::config::Config;
use crate::failure::{self, Failure};
use crate::output::{self, Stream};
use crate::place::Place;
use crate::{criticality, flag_effect, record as recording, report, timeline};

/// Length of a step.
const DEFAULT_WINDOW: Duration = Duration::from_millis(200);
const DEFAULT_PROBES: u32 = 4;

/// Walks, keeps the profile and shows the chains.
pub fn walk(arguments: &WalkArguments, config: &Config) -> Result<u8, Failure> {
    let mut selection = report::selection(&arguments.view, config)?;
    selection.view = selection.view.or(Some(View::Walk));
    flag_effect::check_view(selection.view, &[Collector::Walk])?;
    let format = report::format(&arguments.view, config);
    let (stream, program) = match arguments.pid {
        Some(pid) => (Stream::Stdout, crate::latency::program_of(pid)),
        None => (Stream::Stderr, PathBuf::from(arguments.command.first().cloned().unwrap_or_default())),
    };
    let launches = arguments.pid.is_none();
    if launches && format != ReportFormat::Text && arguments.view.output.is_none() {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json, csv or markdown"
                .to_owned(),
        ));
    }
    let folder = arguments.folder.clone().unwrap_or_else(|| recording::default_folder(&program));
    let place = Place::prepare(folder, arguments.quiet)?;
    let folder = place.folder().to_owned();
    let machine = MachineTime::watch();
    let style = stream.style(arguments.view.color.or(config.report.color));
    // Lines that a program could read belong to the view alone.
    let talks = !arguments.quiet && (format == ReportFormat::Text || arguments.view.output.is_some());
    let mut progress = |progress: &WalkProgress| {
        if talks {
            let line = walk_progress(&progress.step, &progress.tables, style);
            // Nobody may be reading, which is no reason to end.
            let _ = stream.write(|out| writeln!(out, "{line}").map_err(transect_report::ReportError::from));
        }
    };
    let mut snapshot =
        |profile: &Profile, timeline: Option<&mut Timeline>| drop(timeline::keep(&folder, profile, timeline));
    let mut outcome = search(&settings(arguments, &folder), &mut progress, &mut snapshot)?;
    failure::seen(&outcome.profile, outcome.status)?;
    machine.note(&mut outcome.profile);
    executed_names::apply(&mut outcome.profile);
    let mut status = outcome.status.map_or(0, |status| u8::try_from(status & 0xff).unwrap_or(u8::MAX));
    let failed = Failure::after_run(status);
    if let (Some(groups), Some(wanted)) = (&outcome.other_groups, &arguments.search.thread_group) {
        let mut groups = groups.clone();
        groups.sort();
        groups.dedup();
        output::say(&format!("there was no thread group '{wanted}'; there were: {}", groups.join(", ")));
        // A program that has ended well does not make a mistake a success.
        status = status.max(NOTHING_MATCHED);
    }
    timeline::write(&folder, &outcome.profile, None).map_err(&failed)?;
    machine.written(&mut outcome.profile.meta);
    if !arguments.quiet || arguments.view.output.is_some() || arguments.view.html.is_some() || !launches {
        match report::show(&outcome.profile, &arguments.view, &selection, config, stream, report::Extent::All) {
            // Nobody reads the stream any more; the program's status still counts.
            Err(failure) if failure.is_closed_pipe() => return Ok(status),
            Err(failure) => return Err(failed(Failure::Unreported { folder, failure: Box::new(failure) })),
            Ok(()) => {}
        }
    }
    if !arguments.quiet {
        output::say(&format!("the profile is {}", folder.display()));
    }
    Ok(status)
}

/// Exit status if no thread group is what was asked for.
const NOTHING_MATCHED: u8 = 1;

/// What the flags ask for.
fn settings(arguments: &WalkArguments, folder: &Path) -> WalkSettings {
    let WalkSearchArguments { threshold, window, thread_group, max_probes, metric, kernel_timing, .. } =
        &arguments.search;
    let writes = [Some(folder), arguments.view.output.as_deref(), arguments.view.html.as_deref()];
    WalkSettings {
        target: match arguments.pid {
            Some(pid) => WalkTarget::Running(pid),
            None => WalkTarget::Launch(arguments.command.clone()),
        },
        duration: arguments.duration,
        metric: metric.map_or(Metric::Wall, Metric::from),
        threshold: threshold.unwrap_or(DEFAULT_THRESHOLD),
        window: window.unwrap_or(DEFAULT_WINDOW),
        thread_group: thread_group.clone(),
        max_probes: max_probes.unwrap_or(DEFAULT_PROBES),
        space: arguments.search.space.into(),
        probes: !arguments.search.no_probes,
        critical: arguments.search.critical,
        beside: None,
        sample_rate: arguments.sample_hz.map_or(SampleRate::Adaptive, SampleRate::Fixed),
        kernel_timing: kernel_timing.wanted(),
        interval: arguments.snapshots.interval,
        writes: writes.into_iter().flatten().map(Path::to_owned).collect(),
    }
}

/// `--collect walk`: a walk with the defaults. `--collect walk,sched`: threads count by their criticality, of which the same
/// recording tells all else.
pub fn recorded(
    recording: &Recording,
    collection: &Collection,
    interval: Option<Duration>,
    folder: &Path,
    snapshot: Snapshot<'_>,
) -> Result<Recorded, Failure> {
    let sched = collection.wants(Collector::Sched);
    let settings = WalkSettings {
        target: match recording.running.pid.first() {
            Some(&pid) => WalkTarget::Running(pid),
            None => WalkTarget::Launch(recording.command.clone()),
        },
        duration: recording.running.duration,
        metric: Metric::Wall,
        threshold: DEFAULT_THRESHOLD,
        window: DEFAULT_WINDOW,
        thread_group: None,
        max_probes: DEFAULT_PROBES,
        space: WalkSpace::Both,
        probes: true,
        critical: sched,
        beside: sched.then(|| criticality::options(&recording.sched, folder, false)),
        sample_rate: recording.sched.sample_hz.map_or(SampleRate::Adaptive, SampleRate::Fixed),
        kernel_timing: None,
        interval,
        writes: vec![folder.to_owned()],
    };
    let outcome = search(&settings, &mut |_| {}, snapshot)?;
    Ok(Recorded { profile: outcome.profile, exit_status: outcome.status.unwrap_or(0), timeline: outcome.timeline })
}
