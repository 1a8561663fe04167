//! `transect criticality`: which code runs while the others wait.

use std::path::{Path, PathBuf};

use transect_bpf_collect::privilege;
use transect_profile_model::{Profile, Timing};
use transect_record::sched::{self, Followed, SchedOptions, SchedSession, SchedTarget, Timeline};
use transect_record::stolen_time::StolenTime;
use transect_record::{Options, RecordError};

use crate::arguments::{CriticalityArguments, DEFAULT_BUDGET, Processes, ReportFormat, SchedArguments, WaitBudget};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::{record as recording, report, timeline};

/// Records, keeps the profile and shows the view.
pub fn criticality(arguments: &CriticalityArguments, config: &Config) -> Result<u8, Failure> {
    let mut selection = report::selection(&arguments.view, config)?;
    selection.view = selection.view.or(Some(transect_analyze::View::Criticality));
    let format = report::format(&arguments.view, config);
    let launches = !arguments.command.is_empty();
    let stream = if launches { Stream::Stderr } else { Stream::Stdout };
    if launches && format != ReportFormat::Text && arguments.view.output.is_none() {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json or csv".to_owned(),
        ));
    }
    let folder = arguments.folder.clone().unwrap_or_else(|| recording::default_folder(&subject(arguments)));
    transect_profile_store::check_writable(&folder).map_err(Failure::Keep)?;
    let stolen = StolenTime::watch();
    let (mut profile, mut kept, status) = match obstacle(arguments) {
        None => observed(arguments, &folder)?,
        Some(why) if launches && !arguments.no_estimate => {
            if !arguments.quiet {
                output::say(&why);
            }
            estimated(arguments)?
        }
        Some(why) => return Err(Failure::Usage(why)),
    };
    profile.loss.extend(stolen.loss());
    timeline::write(&folder, &profile, kept.as_mut())?;
    if !arguments.quiet || arguments.view.output.is_some() || arguments.view.html.is_some() || !launches {
        timeline::load(&mut profile, kept.as_mut(), arguments.view.html.is_some())?;
        match report::show(&profile, &arguments.view, &selection, config, stream) {
            // Nobody reads the stream any more; the program's status still counts.
            Err(failure) if failure.is_closed_pipe() => return Ok(status),
            Err(failure) => return Err(Failure::Unreported { folder, failure: Box::new(failure) }),
            Ok(()) => {}
        }
    }
    if !arguments.quiet {
        output::say(&format!("the profile is {}", folder.display()));
    }
    Ok(status)
}

/// Why the scheduler's events can't be recorded, in words that say what to do; `None` if they can.
fn obstacle(arguments: &CriticalityArguments) -> Option<String> {
    if arguments.estimate {
        return Some("an estimate from the waiting that the agent sees, as asked for".to_owned());
    }
    let error = privilege::prepare_to_load().err()?;
    let instead = if arguments.command.is_empty() {
        "; an estimate without them is possible for a command that Transect launches: transect criticality -- COMMAND"
    } else if arguments.no_estimate {
        ""
    } else {
        "; what follows is an estimate from the waiting that the agent sees (--no-estimate to fail instead)"
    };
    Some(format!("{error}{instead}"))
}

/// What the collector is told by the flags; it puts long tables aside beside `folder`.
pub fn options(arguments: &SchedArguments, folder: &Path, with_flows: bool) -> SchedOptions {
    let defaults = SchedOptions::default();
    SchedOptions {
        sample_hz: arguments.sample_hz.unwrap_or(defaults.sample_hz),
        min_parallelism: arguments.min_parallelism,
        wait_budget: arguments.detailed_waits.map_or(defaults.wait_budget, |WaitBudget(ns)| ns),
        totals_only: arguments.totals_only,
        stack_depth: arguments.stack_depth.unwrap_or(defaults.stack_depth),
        per_process: arguments.processes == Processes::Apart,
        with_flows,
        spill: beside(folder).unwrap_or(defaults.spill.clone()),
        ..defaults
    }
}

fn observed(arguments: &CriticalityArguments, folder: &Path) -> Result<(Profile, Option<Timeline>, u8), Failure> {
    let target = if arguments.command.is_empty() {
        let processes = arguments.pid.iter().map(|pid| Followed::Process(*pid));
        SchedTarget::Running { followed: processes.chain(arguments.cgroup.clone().map(Followed::Cgroup)).collect() }
    } else {
        SchedTarget::Launch { command: arguments.command.clone(), wait_all: arguments.wait_all }
    };
    let writes = [Some(folder), arguments.view.output.as_deref(), arguments.view.html.as_deref()];
    let recorded = sched::record(&SchedSession {
        target,
        duration: arguments.duration,
        options: options(&arguments.sched, folder, false),
        writes: writes.into_iter().flatten().map(Path::to_owned).collect(),
    })?;
    let status = recorded.status.map_or(0, |status| u8::try_from(status & 0xff).unwrap_or(u8::MAX));
    Ok((recorded.profile, Some(recorded.timeline), status))
}

/// Runs the command under the flow agent and estimates from its waiting.
fn estimated(arguments: &CriticalityArguments) -> Result<(Profile, Option<Timeline>, u8), Failure> {
    let program = arguments.command.first().ok_or(Failure::Record(RecordError::NoCommand))?;
    transect_binary_info::inspect_launch(Path::new(program)).map_err(RecordError::from)?;
    let options = Options {
        command: arguments.command.clone(),
        timing: Timing::Adaptive { budget: DEFAULT_BUDGET },
        histogram: false,
        trace: Vec::new(),
        follow: true,
        wait_all: arguments.wait_all,
        interval: None,
        wait_apis: Vec::new(),
        static_components: None,
        latency: None,
        agent: std::env::var_os("TRANSECT_AGENT").map(PathBuf::from),
        plan_cache: None,
    };
    let recorded = transect_record::record(&options, &mut |_| {})?;
    let mut profile = recorded.profile;
    transect_record::sched_estimate::estimate(&mut profile);
    Ok((profile, None, u8::try_from(recorded.exit_status & 0xff).unwrap_or(u8::MAX)))
}

/// What the profile is named after.
fn subject(arguments: &CriticalityArguments) -> PathBuf {
    if let Some(program) = arguments.command.first() {
        return PathBuf::from(program);
    }
    match (arguments.pid.first(), &arguments.cgroup) {
        (Some(pid), _) => crate::latency::program_of(*pid),
        (None, Some(folder)) => PathBuf::from(folder.file_name().unwrap_or(folder.as_os_str())),
        (None, None) => PathBuf::from("program"),
    }
}

/// The folder in which `folder` is or will be, if it is there.
fn beside(folder: &Path) -> Option<PathBuf> {
    let parent = folder.parent()?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    parent.is_dir().then(|| parent.to_owned())
}
