//! `transect criticality`: which code runs while the others wait.

use std::path::{Path, PathBuf};

use transect_bpf_collect::privilege;
use transect_profile_model::{Profile, Timing};
use transect_record::machine_time::MachineTime;
use transect_record::sched::{self, SchedOptions, SchedSession, SchedTarget, Timeline};
use transect_record::{Options, OtherCollectors, RecordError, executed_names};

use crate::arguments::{
    Collector, CriticalityArguments, DEFAULT_BUDGET, Processes, ReportFormat, SchedArguments, WaitBudget,
};
use crate::config::Config;
use crate::failure::{self, Failure};
use crate::output::{self, Stream};
use crate::place::Place;
use crate::{flag_effect, record as recording, report, timeline};

/// Records, keeps the profile and shows the view.
pub fn criticality(arguments: &CriticalityArguments, config: &Config) -> Result<u8, Failure> {
    let mut selection = report::selection(&arguments.view, config)?;
    selection.view = selection.view.or(Some(transect_analyze::View::Criticality));
    let format = report::format(&arguments.view, config);
    let launches = !arguments.command.is_empty();
    let stream = if launches { Stream::Stderr } else { Stream::Stdout };
    if launches && format != ReportFormat::Text && arguments.view.output.is_none() {
        return Err(Failure::Usage(
            "the standard streams belong to the program: give --output FILE with --format json, csv or markdown"
                .to_owned(),
        ));
    }
    if let Some(why) = arguments.running.obstacle() {
        return Err(Failure::Usage(why));
    }
    let folder = arguments.folder.clone().unwrap_or_else(|| recording::default_folder(&subject(arguments)));
    let obstacle = obstacle(arguments);
    flag_effect::check_view(
        selection.view,
        if obstacle.is_some() { &[Collector::Sched, Collector::Flow] } else { &[Collector::Sched] },
    )?;
    let place = Place::prepare(folder, arguments.quiet)?;
    let folder = place.folder().to_owned();
    let machine = MachineTime::watch();
    let (mut profile, mut kept, status) = match obstacle {
        None => observed(arguments, &folder)?,
        Some(why) if launches && !arguments.no_estimate => {
            if let Some(flag) = without_effect(arguments) {
                return Err(Failure::Usage(format!(
                    "{flag} has no effect on an estimate without scheduler events ({why})"
                )));
            }
            if !arguments.quiet {
                output::say(&why);
            }
            estimated(arguments, &folder)?
        }
        Some(why) => return Err(Failure::Usage(why)),
    };
    failure::seen(&profile, launches.then_some(i32::from(status)))?;
    if let (true, Some(group)) = (profile.processes.is_empty(), &arguments.running.cgroup) {
        return Err(Failure::EmptyGroup(group.clone()));
    }
    executed_names::apply(&mut profile);
    machine.note(&mut profile);
    let failed = Failure::after_run(status);
    timeline::write(&folder, &profile, kept.as_mut()).map_err(&failed)?;
    machine.written(&mut profile.meta);
    if !arguments.quiet || arguments.view.output.is_some() || arguments.view.html.is_some() || !launches {
        timeline::load(&mut profile, kept.as_mut(), arguments.view.html.is_some()).map_err(&failed)?;
        match report::show(&profile, &arguments.view, &selection, config, stream, report::Extent::All) {
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

/// The first flag that an estimate knows nothing of.
fn without_effect(arguments: &CriticalityArguments) -> Option<&'static str> {
    let sched = &arguments.sched;
    let given = [
        ("--sample-hz", sched.sample_hz.is_some()),
        ("--min-parallelism", sched.min_parallelism.is_some()),
        ("--stack-depth", sched.stack_depth.is_some()),
        ("--detailed-waits", sched.detailed_waits.is_some()),
        ("--totals-only", sched.totals_only),
        ("--processes", sched.processes == Processes::Apart),
        ("--duration", arguments.running.duration.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// The collector's options, from the flags; long tables are put aside next to `folder`.
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
        spill: spill(folder),
        ..defaults
    }
}

fn observed(arguments: &CriticalityArguments, folder: &Path) -> Result<(Profile, Option<Timeline>, u8), Failure> {
    let target = if arguments.command.is_empty() {
        SchedTarget::Running { followed: arguments.running.followed() }
    } else {
        SchedTarget::Launch { command: arguments.command.clone(), wait_all: arguments.wait_all }
    };
    let writes = [Some(folder), arguments.view.output.as_deref(), arguments.view.html.as_deref()];
    let settings = SchedSession {
        target,
        duration: arguments.running.duration,
        options: options(&arguments.sched, folder, false),
        walk: false,
        latency: None,
        flows: None,
        features: None,
        interval: arguments.snapshots.interval,
        writes: writes.into_iter().flatten().map(Path::to_owned).collect(),
    };
    let recorded = sched::record(&settings, &mut |profile, so_far| drop(timeline::keep(folder, profile, so_far)))?;
    let status = recorded.status.map_or(0, status_of);
    Ok((recorded.profile, Some(recorded.timeline), status))
}

/// Runs the command under the flow agent, with samples that need no privileges.
fn estimated(arguments: &CriticalityArguments, folder: &Path) -> Result<(Profile, Option<Timeline>, u8), Failure> {
    let program = arguments.command.first().ok_or(Failure::Record(RecordError::NoCommand))?;
    match transect_binary_info::inspect_launch(Path::new(program)) {
        // The agent can't enter it: samples by themselves.
        Err(why) if why.can_run() => {
            let recorded = transect_record::user_samples::record(&arguments.command, &spill(folder))?;
            return Ok((recorded.profile, recorded.timeline, status_of(recorded.exit_status)));
        }
        inspected => drop(inspected.map_err(RecordError::from)?),
    }
    let options = Options {
        command: arguments.command.clone(),
        timing: Timing::Adaptive { budget: DEFAULT_BUDGET },
        histogram: false,
        trace: Vec::new(),
        follow: true,
        wait_all: arguments.wait_all,
        interval: arguments.snapshots.interval,
        wait_apis: Vec::new(),
        static_components: None,
        latency: None,
        agent: std::env::var_os("TRANSECT_AGENT").map(PathBuf::from),
        plan_cache: None,
    };
    let beside = OtherCollectors { user_samples: Some(spill(folder)), ..OtherCollectors::default() };
    let mut snapshot = |profile: &Profile| drop(timeline::keep(folder, profile, None));
    let recorded = transect_record::record_with(&options, beside, &mut snapshot)?;
    Ok((recorded.profile, recorded.timeline, status_of(recorded.exit_status)))
}

fn status_of(exit_status: i32) -> u8 {
    u8::try_from(exit_status & 0xff).unwrap_or(u8::MAX)
}

/// What the profile is named after.
fn subject(arguments: &CriticalityArguments) -> PathBuf {
    arguments.command.first().map_or_else(|| arguments.running.subject(), PathBuf::from)
}

/// Where long tables are put aside: in the folder in which `folder` is or will be, if that is there.
pub fn spill(folder: &Path) -> PathBuf {
    let mut above =
        folder.ancestors().skip(1).map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    // The folder's own parent may not be there yet.
    above.find(|path| path.is_dir()).map_or_else(std::env::temp_dir, Path::to_owned)
}
