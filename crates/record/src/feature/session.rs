//! One recording from start or attach to profile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use transect_binary_info::Object;
use transect_bpf_collect::privilege;
use transect_event_abi::region_arena::REGION_FILE_VARIABLE;
use transect_feature_region::{RegionError, RegionTable, SiteMode};
use transect_profile_model::{Profile, RegionMethod};

use super::assemble::{Facts, assemble};
use super::choice::Choice;
use super::event_cost::event_ticks;
use super::pid_namespace_map::own_number;
use super::probe_recording;
use super::reader::{Collected, Reader, Update};
use super::region_file::RegionFile;
use super::running::RunningProcesses;
use super::sampling::{self, SupplementarySamples};
use super::selection::Selection;
use super::settings::{FeatureOutcome, FeatureSettings, FeatureTarget};
use super::usdt;
use crate::RecordError;
use crate::clock::{Clock, ticks};
use crate::launch::shell_status;
use crate::lead::Lead;
use crate::process_start::Launched;
use crate::signals::Signals;

/// Records a program, or running processes, until they end. `snapshot` takes the profile so far: see
/// [`FeatureSettings::interval`], and when SIGUSR2 asks for it.
///
/// # Errors
/// If the program can't be launched or attached to, or has no regions. A program that is not launched has not run.
pub fn record(settings: &FeatureSettings, snapshot: &mut dyn FnMut(&Profile)) -> Result<FeatureOutcome, RecordError> {
    check_selection(settings)?;
    match &settings.target {
        FeatureTarget::Launch { command, follow } => {
            let program = command.first().ok_or(RecordError::NoCommand)?;
            let method = suitable(settings.program.clone().or_else(|| find_program(program)), settings, true)?;
            let mut lead = Lead::alone(Signals::watch()?, None, settings.interval, snapshot);
            match method {
                RegionMethod::Usdt => usdt::launch(settings, command, *follow, &lead),
                RegionMethod::Sample => sampling::record(settings, &[], &lead),
                RegionMethod::Trace => traced(settings, command, *follow, &mut lead),
                RegionMethod::Probe => probe_recording::launch(settings, command, *follow, &lead),
            }
        }
        FeatureTarget::Attach { duration, .. } => {
            let running = RunningProcesses::of(settings)?;
            let lead = Lead::alone(Signals::watch_running()?, *duration, settings.interval, snapshot);
            running.attach(settings, &lead)
        }
    }
}

/// Only probes are switched all the time.
///
/// # Errors
/// If another method was asked for.
pub(super) fn check_selection(settings: &FeatureSettings) -> Result<(), RecordError> {
    match settings.method {
        None | Some(RegionMethod::Probe) => Ok(()),
        Some(_) if settings.selection.is_none() => Ok(()),
        Some(_) => Err(RecordError::SelectionByProbes),
    }
}

/// Whether the program is to write events itself; else its sites are switched on.
///
/// # Errors
/// If it has no regions, or not those that are wanted.
pub(super) fn written_by_program(settings: &FeatureSettings, command: &[OsString]) -> Result<bool, RecordError> {
    let program = command.first().ok_or(RecordError::NoCommand)?;
    let path = settings.program.clone().or_else(|| find_program(program));
    let mode = site_mode(path.clone(), settings)?;
    let method = match settings.method {
        Some(method) => method,
        None if mode == Some(SiteMode::Trace) => RegionMethod::Trace,
        None => RegionMethod::Probe,
    };
    check_sites(path, mode, method)?;
    Ok(method == RegionMethod::Trace)
}

/// The method asked for, or else one that sees the program's sites.
///
/// # Errors
/// If it doesn't see them.
pub(super) fn suitable(
    program: Option<PathBuf>,
    settings: &FeatureSettings,
    launched: bool,
) -> Result<RegionMethod, RecordError> {
    let mode = site_mode(program.clone(), settings)?;
    // Only probes are switched all the time.
    let any = settings.selection.is_none();
    let method = match (settings.method, mode) {
        (Some(method), _) => method,
        (None, Some(SiteMode::Trace)) if launched && any => RegionMethod::Trace,
        (None, Some(SiteMode::Trace | SiteMode::Shared)) if any && privilege::prepare_to_load().is_ok() => {
            RegionMethod::Usdt
        }
        (None, Some(SiteMode::Trace | SiteMode::Shared | SiteMode::Inlined)) if any => RegionMethod::Sample,
        (None, _) => RegionMethod::Probe,
    };
    check_sites(program, mode, method)?;
    Ok(method)
}

/// Looks whether a method sees the sites of a program, if that has any itself.
pub(super) fn check_sites(
    program: Option<PathBuf>,
    mode: Option<SiteMode>,
    method: RegionMethod,
) -> Result<(), RecordError> {
    let (name, seen): (_, &[SiteMode]) = match method {
        RegionMethod::Trace => ("trace", &[SiteMode::Trace]),
        RegionMethod::Probe => ("probe", &[SiteMode::Probe]),
        RegionMethod::Usdt => ("usdt", &[SiteMode::Probe, SiteMode::Trace, SiteMode::Shared]),
        RegionMethod::Sample => return Ok(()),
    };
    let Some(mode) = mode.filter(|mode| !seen.contains(mode)) else { return Ok(()) };
    Err(RecordError::OtherSites {
        object: program.unwrap_or_default(),
        sites: mode.as_str(),
        method: name,
        instead: match mode {
            SiteMode::Probe => "use --feature-method probe, usdt or sample",
            SiteMode::Trace => "use --feature-method trace, usdt or sample",
            SiteMode::Shared => "use --feature-method usdt or sample",
            SiteMode::Inlined => "use --feature-method sample",
            SiteMode::None | SiteMode::Confirm => "no method sees its regions",
        },
    })
}

/// How the sites of a program were built; `None` if it has none itself, but objects that it loads may.
fn site_mode(program: Option<PathBuf>, settings: &FeatureSettings) -> Result<Option<SiteMode>, RecordError> {
    let Some(path) = program else { return Ok(None) };
    let Ok(object) = Object::open(&path) else { return Ok(None) };
    match RegionTable::of(&object) {
        Ok(table) => {
            check_model(&path, &table, settings)?;
            wanted(settings)?.check(&path, &table)?;
            Ok(Some(table.site_mode()))
        }
        // Who names a method knows that a library has them.
        Err(RegionError::NotMarked { .. }) if settings.method.is_some() => Ok(None),
        Err(error @ RegionError::NotMarked { .. }) if matches!(settings.target, FeatureTarget::Launch { .. }) => {
            Err(RecordError::UnmarkedCommand(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// Which regions are wanted at the beginning.
pub(super) fn wanted(settings: &FeatureSettings) -> Result<Choice, RecordError> {
    match &settings.selection {
        None => Ok(Choice::of(settings)),
        Some(path) => Selection::new(path.clone(), settings.dependence).first(),
    }
}

/// As `execvp` finds it.
fn find_program(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

fn check_model(path: &Path, table: &RegionTable, settings: &FeatureSettings) -> Result<(), RecordError> {
    let Some((wanted, model)) = &settings.model else { return Ok(()) };
    match table.units.iter().find(|unit| unit.model != *wanted) {
        None => Ok(()),
        Some(unit) => Err(RecordError::OtherModel {
            model: model.clone(),
            wanted: *wanted,
            program: path.to_owned(),
            found: unit.model,
        }),
    }
}

/// A program with compiled-in events.
fn traced(
    settings: &FeatureSettings,
    command: &[OsString],
    follow: bool,
    lead: &mut Lead<'_>,
) -> Result<FeatureOutcome, RecordError> {
    let event_ticks = event_ticks();
    lead.clock = Clock::start();
    let file = Arc::new(RegionFile::create(settings.overflow)?);
    let mut variables = transect_bpf_collect::privilege::withheld_environment();
    variables.push((REGION_FILE_VARIABLE.into(), file.path().into()));
    let choice = Choice::of(settings);
    let mut reader = Reader::start(None, choice.clone())?;
    reader.tell(Update::File(file));
    let (mut pid, mut beside) = (0, None);
    let program = Launched::start(command, &variables, &mut |started| {
        pid = started;
        reader.hear_threads(pid);
        // Who names the method wants events.
        if settings.method.is_none() {
            beside = SupplementarySamples::start(&[pid], settings.sample_hz);
        }
        Ok(())
    })?;
    reader.tell(Update::Process { pid, own: own_number(pid), start: ticks(), midway: false, like: None });
    let facts = |mut collected: Collected, beside, status| {
        if !follow {
            collected.keep_only(pid);
        }
        Facts {
            command: words(command),
            clock: &lead.clock,
            collected,
            method: RegionMethod::Trace,
            choices: vec![choice.clone()],
            event_ticks,
            sites: None,
            stopped: Duration::ZERO,
            beside,
            status,
            loss: Vec::new(),
        }
    };
    let status = wait(&program, lead, || Ok(assemble(facts(reader.so_far()?, None, None))))?;
    reader.tell(Update::Ended { pid, end: ticks() });
    let beside = beside.and_then(SupplementarySamples::finish);
    let facts = facts(reader.finish()?, beside, Some(status));
    if facts.collected.catalog.objects.is_empty() && facts.collected.catalog.unreadable.is_empty() {
        return Err(RecordError::NoRegions { program: command[0].to_string_lossy().into_owned() });
    }
    Ok(FeatureOutcome { profile: assemble(facts), status: Some(status) })
}

/// A command for the profile.
pub(super) fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Waits for the end of the program, to which signals are passed on; gives the profile so far to who wants it.
fn wait(
    program: &Launched,
    lead: &Lead<'_>,
    so_far: impl Fn() -> Result<Profile, RecordError>,
) -> Result<i32, RecordError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = Pid::from_raw(program.id().cast_signed()) else { return Err(RecordError::Ended) };
    let process =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| RecordError::system("watch the process")(error.into()))?;
    let nap = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !matches!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&nap)), Ok(1)) {
        lead.signals().forward(program.id().cast_signed());
        lead.so_far(&so_far)?;
    }
    program.wait().map(shell_status).map_err(RecordError::system("wait for the program"))
}
