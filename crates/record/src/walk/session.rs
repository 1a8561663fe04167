//! A walk from its beginning to its end: the program is launched or attached to, evidence grows in steps, and after each
//! of them the trees are searched and what is worth it is timed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use transect_attach::{AttachError, Target};
use transect_bpf_collect::SampledEvent;
use transect_call_walk::{Search, Settings, Unit};
use transect_profile_model::{Metric, Profile};

use super::loss;
use super::outcome::{self, Searched};
use super::settings::{WalkSettings, WalkSpace, WalkTarget};
use super::state::WalkState;
use super::steps::{Decided, WalkProgress};
use super::timers::Timers;
use super::wake_sleepers::wake_sleepers;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::sched::kernel_symbols::SymbolSource;
use crate::sched::{Followed, Keep, SchedOptions, SchedRecording, Timeline, Watched};
use crate::signals::Signals;
use crate::snapshots::{Snapshot, Snapshots};

/// What came of a walk.
#[derive(Debug)]
pub struct WalkOutcome {
    /// The profile, with the walk's tables.
    pub profile: Profile,
    /// Exit status of the launched program as a shell reports it.
    pub status: Option<i32>,
    /// Waits and slices, if criticality was recorded beside.
    pub timeline: Option<Timeline>,
    /// The thread groups that there were, if the one asked for was not among them.
    pub other_groups: Option<Vec<String>>,
}

/// Without `--duration` a walk through a running process ends then.
const DEFAULT_DURATION: Duration = Duration::from_secs(3);
/// So often it is looked whether threads have woken that could not be stopped.
const LOOK: Duration = Duration::from_millis(25);
/// Steps that are kept.
const MAX_STEPS: usize = 100_000;

/// Walks until the program has ended, the time is over, nothing is left to find, or a signal says so (a launched program
/// gets it first). `progress` is called for each decision of the search, `snapshot` at intervals and on SIGUSR2.
///
/// # Errors
/// If privileges or the kernel's help are missing, or there is nothing to walk through. The program is not started then.
pub fn walk(
    settings: &WalkSettings,
    progress: &mut dyn FnMut(&WalkProgress),
    snapshot: Snapshot<'_>,
) -> Result<WalkOutcome, RecordError> {
    let signals = match settings.target {
        WalkTarget::Launch(_) => Signals::watch()?,
        WalkTarget::Running(_) => Signals::watch_running()?,
    };
    if let WalkTarget::Running(pid) = settings.target {
        check(pid, settings)?;
    }
    let unit = if settings.critical { Unit::Weight } else { Unit::from(settings.metric) };
    let alone = SchedOptions { min_parallelism: Some(0), tables: false, ..SchedOptions::default() };
    let options = SchedOptions {
        sample_hz: settings.first_hz(),
        evidence: true,
        launched_only: matches!(settings.target, WalkTarget::Launch(_)),
        programs: match &settings.target {
            WalkTarget::Launch(command) => command.first().map(PathBuf::from).into_iter().collect(),
            WalkTarget::Running(_) => Vec::new(),
        },
        event: match settings.metric {
            Metric::Wall | Metric::Cpu => SampledEvent::CpuClock,
            Metric::PageFaults => SampledEvent::PageFaults,
            Metric::Cycles => SampledEvent::Cycles,
            Metric::CacheMisses => SampledEvent::CacheMisses,
        },
        system_calls: !settings.critical && settings.space != WalkSpace::User,
        // Exact totals of system calls are divided by waits: each is wanted.
        wait_budget: 0,
        ..settings.beside.clone().unwrap_or(alone)
    };
    let kernel = SymbolSource::open();
    let recording = SchedRecording::start(&options)?;
    let kernel_timer = Timers::kernel_timer(settings, &recording)?;
    let clock = Clock::start();
    if let WalkTarget::Launch(command) = &settings.target
        && let Some(program) = command.first()
    {
        recording.prepare(program)?;
    }
    recording.begin(clock.started_monotonic_ns())?;
    let keep = Keep { writes: &settings.writes, probes: kernel_timer.is_some() };
    let mut watched = match &settings.target {
        WalkTarget::Launch(command) => Watched::launch(command, &recording, keep)?,
        WalkTarget::Running(pid) => Watched::attach(&[Followed::Process(*pid)], &recording, keep)?,
    };
    let begun_ns = clock.elapsed_ns();
    let wanted = settings.thread_group.clone();
    let mut state = WalkState::new(kernel, settings.space != WalkSpace::User, unit, wanted);
    state.faults = settings.metric == Metric::PageFaults;
    let mut timers = Timers::new(settings, kernel_timer);
    let mut walking =
        Walking { settings, recording: &recording, watched: &mut watched, signals: &signals, clock: &clock, begun_ns };
    let searched = walking.search(&mut state, &mut timers, progress, snapshot)?;
    let wall_ns = clock.elapsed_ns();
    let command = watched.command().to_vec();
    let heard = timers.finish();
    let status = watched.status(&heard)?;
    let mut profile = outcome::profile(settings, &clock, wall_ns, status, command, &mut state, &searched);
    let collected = recording.finish()?;
    let timeline = settings.beside.is_some().then(|| {
        loss::leave_scheduler_out(&mut profile.loss);
        collected.merge_into(&mut profile)
    });
    let missing = settings.thread_group.is_some() && state.trees.is_empty();
    let other_groups = missing.then(|| state.threads.groups().into_keys().map(|key| key.name).collect());
    Ok(WalkOutcome { profile, status, timeline, other_groups })
}

/// Refuses what can't be walked through, before anything is begun: a thread, and a process that another one traces if
/// functions are to be timed. What else is against timing is told in the end.
fn check(pid: i32, settings: &WalkSettings) -> Result<(), RecordError> {
    match Target::open(pid) {
        Err(error @ AttachError::IsThread { .. }) => Err(error.into()),
        Err(error @ AttachError::Traced { .. }) if Timers::wants_user(settings) => Err(error.into()),
        _ => Ok(()),
    }
}

/// What is walked through, and by what.
struct Walking<'a> {
    settings: &'a WalkSettings,
    recording: &'a SchedRecording,
    watched: &'a mut Watched,
    signals: &'a Signals,
    clock: &'a Clock,
    /// When the program began, or was attached to, ns since the recording's start.
    begun_ns: i64,
}

impl Walking<'_> {
    fn search(
        &mut self,
        state: &mut WalkState,
        timers: &mut Timers,
        progress: &mut dyn FnMut(&WalkProgress),
        snapshot: Snapshot<'_>,
    ) -> Result<Searched, RecordError> {
        let settings = self.settings;
        let mut snapshots = Snapshots::new(settings.interval);
        let limit = match (&settings.target, settings.duration) {
            (WalkTarget::Running(_), None) => Some(DEFAULT_DURATION),
            (_, duration) => duration,
        };
        // Who names no end wants to know no more than is to be found.
        let ends_when_found = matches!(settings.target, WalkTarget::Running(_)) && settings.duration.is_none();
        let limit = limit.map(|duration| Instant::now() + duration);
        let mut searched = Searched::new(Search::new(Settings {
            threshold: settings.threshold,
            window: settings.window,
            max_probes: settings.max_probes as usize,
            time_user: timers.times_user(),
            time_kernel: timers.times_kernel(),
        }));
        // Samples have at least as much time as timing.
        let mut sampled = settings.window;
        let mut held = None;
        let mut rate = settings.sample_rate.rate(&settings.target, settings.counts_samples());
        loop {
            let goes_on = self.wait(sampled, limit, timers);
            let over = !goes_on || limit.is_some_and(|limit| Instant::now() >= limit);
            self.evaluate(over, state, timers, &mut searched, progress)?;
            if over {
                break;
            }
            if snapshots.is_due(self.signals) {
                self.so_far(state, &searched, snapshot);
            }
            if let Some(times) = rate.change(state.samples) {
                self.recording.sample_less(times)?;
            }
            if let WalkTarget::Running(pid) = settings.target
                && held.is_none()
                && state.sleepers
            {
                // Where it is refused, they stay unknown.
                held = Some(wake_sleepers(pid).unwrap_or_default());
                continue;
            }
            let mut over = false;
            let timing = Instant::now();
            // Samples don't count meanwhile: they have their turn in between.
            while timing.elapsed() < settings.window
                && let Some(request) = searched.search.next_request(&state.call_trees())
            {
                // The timers of the program stand on its stacks meanwhile.
                self.recording.sampling(false)?;
                let begun = timers.begin(&request, state);
                let goes_on = begun.is_err() || self.wait(request.window, limit, timers);
                searched.search.timed(&request, begun.and_then(|()| timers.end()));
                self.recording.sampling(true)?;
                over = !goes_on || limit.is_some_and(|limit| Instant::now() >= limit);
                if over {
                    break;
                }
                self.evaluate(false, state, timers, &mut searched, progress)?;
            }
            sampled = settings.window.max(timing.elapsed());
            if over || ends_when_found && searched.search.is_complete() {
                self.evaluate(true, state, timers, &mut searched, progress)?;
                break;
            }
        }
        searched.begun_ns = self.begun_ns;
        searched.timing = timers.facts();
        let held_ns = held.map_or(0, |held| held.as_nanos() as u64);
        searched.timing.longest_stop_ns = searched.timing.longest_stop_ns.max(held_ns);
        searched.not_searched.untimed = timers.refused();
        searched.not_searched.postponed = timers.postponed();
        searched.not_searched.returns = timers.missed();
        Ok(searched)
    }

    /// Hands out what was found up to now.
    fn so_far(&self, state: &mut WalkState, searched: &Searched, snapshot: Snapshot<'_>) {
        let (command, wall_ns) = (self.watched.command().to_vec(), self.clock.elapsed_ns());
        let mut profile = outcome::profile(self.settings, self.clock, wall_ns, None, command, state, searched);
        let beside = self.settings.beside.as_ref().map(|_| self.recording.so_far()?.tables());
        // What can't be had is not in it.
        let mut timeline = beside.and_then(Result::ok).map(|collected| collected.merge_into(&mut profile));
        snapshot(&profile, timeline.as_mut());
    }

    fn wait(&mut self, window: Duration, limit: Option<Instant>, timers: &Timers) -> bool {
        let until = Instant::now() + window;
        let until = limit.map_or(until, |limit| limit.min(until));
        loop {
            timers.finish_unfinished();
            let next = until.min(Instant::now() + LOOK);
            if !self.watched.wait_until(Some(next), self.signals) {
                return false;
            }
            if next == until {
                return true;
            }
        }
    }

    /// Takes in what was seen, and decides again.
    fn evaluate(
        &self,
        last: bool,
        state: &mut WalkState,
        timers: &mut Timers,
        searched: &mut Searched,
        progress: &mut dyn FnMut(&WalkProgress),
    ) -> Result<(), RecordError> {
        state.learn(self.recording.evidence(last)?, last);
        for (tgid, groups) in state.take_replaced() {
            timers.replaced(tgid);
            groups.into_iter().for_each(|group| searched.search.replaced(group));
        }
        let time_ns = self.clock.elapsed_ns();
        for step in searched.search.evaluate(&state.call_trees()) {
            let decided = Decided { time_ns, step };
            progress(&decided.progress(state));
            if searched.steps.len() < MAX_STEPS {
                searched.steps.push(decided);
            } else {
                searched.not_searched.steps += 1;
            }
        }
        if searched.found_after_ns.is_none() && searched.has_chain(state) {
            searched.found_after_ns = Some(time_ns - self.begun_ns);
        }
        Ok(())
    }
}
