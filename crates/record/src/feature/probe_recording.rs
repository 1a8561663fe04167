//! Recording by probes: a program that is launched, or a process that runs.

use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use transect_attach::{Launch, LaunchEvent, Target};
use transect_profile_model::{Loss, LossKind, Profile, RegionMethod};

use super::assemble::{Facts, assemble};
use super::budget::Budget;
use super::choice::Choice;
use super::event_cost::event_ticks;
use super::launched::{has_regions, waker_of_launch};
use super::pid_namespace_map::own_number;
use super::probed::{ProbedProcess, SiteOptions};
use super::rate_limiter::Wake;
use super::reader::{Collected, Reader, Update};
use super::running::{commands, not_recorded};
use super::sampling::{SupplementarySamples, SupplementaryTimes};
use super::selection::Selection;
use super::session::words;
use super::settings::{FeatureOutcome, FeatureSettings};
use super::with_flows::FeatureRows;
use crate::RecordError;
use crate::attached_collector::Orders;
use crate::clock::{Clock, ticks};
use crate::launch::{BeforeExecAnywhere, find_beside, shell_status};
use crate::lead::Lead;
use crate::probe_session::{LaunchGuard, open_cleaned};

/// File name of the image that is loaded into the process.
const PROBE_AGENT_FILE: &str = "libtransect_probe_agent.so";
/// How often it is looked what there is to do.
const TICK: Duration = Duration::from_millis(10);
/// How often it is looked whether a process that we are not the parent of has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// So long after the last region was found too hot the jumps of all of them are taken out, in one stop.
const SETTLED: Duration = Duration::from_millis(15);

/// Everything that is under way.
struct Recording<'a> {
    settings: &'a FeatureSettings,
    choice: Choice,
    /// All that was wanted at any time.
    choices: Vec<Choice>,
    selection: Option<Selection>,
    agent: PathBuf,
    clock: &'a Clock,
    event_ticks: f64,
    reader: Reader,
    processes: Vec<ProbedProcess>,
    /// The one process that is recorded: forked children write events too, until they become another program.
    only: Option<i32>,
    /// Regions that were too hot: path of the object, number there.
    hot: Vec<(String, u32)>,
    /// Sees what they take from then on, and what has no sites.
    beside: Option<SupplementarySamples>,
    /// Their jumps are to be taken out then.
    settled: Option<Instant>,
    /// Regions of `hot` whose jumps are out.
    taken_out: usize,
    /// For so long the programs were stopped to write jumps or to take them out.
    stopped: Duration,
    command: Vec<String>,
    sites: u64,
    any_regions: bool,
    /// The agent that counts calls is in the programs, and is to hear of their sites.
    with_flows: bool,
    /// Why nothing of the launched program can be recorded, which runs on for others.
    failed: Option<RecordError>,
    loss: Vec<Loss>,
}

/// Launches a program and records it to its end.
pub fn launch(
    settings: &FeatureSettings,
    command: &[OsString],
    follow: bool,
    lead: &Lead<'_>,
) -> Result<FeatureOutcome, RecordError> {
    let mut recording = Recording::new(settings, &lead.clock, false, Box::new(waker_of_launch()))?;
    recording.command = words(command);
    let launch = Launch::start(command, follow)?;
    recording.only = (!follow).then_some(launch.pid());
    let status = Some(shell_status(recording.run(launch, lead)?));
    Ok(FeatureOutcome { profile: assemble(recording.conclude(status)?), status })
}

/// Launches a program for the recording of its flows, with the agent in it, and records its regions to its end. `before_exec`
/// and then `started` hear its number before it runs. `orders` are the caller's.
pub fn launch_beside_flows(
    settings: &FeatureSettings,
    (clock, orders): (&Clock, &Orders),
    command: &[OsString],
    environment: Vec<CString>,
    follow: bool,
    before_exec: BeforeExecAnywhere<'_>,
    started: impl FnOnce(i32),
) -> Result<(ExitStatus, u64, Result<FeatureRows, RecordError>), RecordError> {
    // Other threads of ours have it blocked: the launch waits for it here, and the program begins without that.
    let _ = nix::sys::signal::SigSet::from(nix::sys::signal::Signal::SIGCHLD).thread_unblock();
    let mut recording = Recording::new(settings, clock, true, Box::new(waker_of_launch()))?;
    recording.command = words(command);
    let launch = Launch::start_in(command, Some(environment), follow, before_exec)?;
    started(launch.pid());
    recording.only = (!follow).then_some(launch.pid());
    let status = recording.run(launch, &Lead::beside(orders, *clock))?;
    let end = ticks();
    let features = match recording.failed.take() {
        Some(error) => Err(error),
        None => recording.conclude(Some(shell_status(status))).map(FeatureRows::of),
    };
    Ok((status, end, features))
}

/// Records running processes until the time is up, they have ended, or a signal says that it is enough. Those of several that
/// can't be recorded are noted.
pub fn attach(settings: &FeatureSettings, pids: &[i32], lead: &Lead<'_>) -> Result<FeatureOutcome, RecordError> {
    let controller = std::thread::current();
    let wake = move || controller.unpark();
    let mut recording = Recording::new(settings, &lead.clock, false, Box::new(wake.clone()))?;
    recording.sample(pids);
    let mut first_error = None;
    for &pid in pids {
        let begun = open_cleaned(pid).map_err(RecordError::from);
        if let Err(error) = begun.and_then(|target| recording.begin(target, true, wake.clone())) {
            recording.loss.push(not_recorded(pid, &error));
            first_error.get_or_insert(error);
        }
        // Those that have their probes already may load something meanwhile.
        recording.tick();
    }
    if let (true, Some(error)) = (recording.processes.is_empty(), first_error) {
        return Err(error);
    }
    let end = lead.begin();
    recording.command = commands(pids);
    let mut looked = Instant::now();
    while !lead.ends() {
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            if !recording.processes.iter().any(ProbedProcess::is_alive) {
                break;
            }
        }
        recording.tick();
        lead.so_far(|| recording.so_far())?;
        let next = Instant::now() + TICK;
        std::thread::park_timeout(end.map_or(next, |end| end.min(next)).saturating_duration_since(Instant::now()));
    }
    recording.restore();
    Ok(FeatureOutcome { profile: assemble(recording.conclude(None)?), status: None })
}

impl<'a> Recording<'a> {
    /// `wake` ends the wait between two ticks.
    fn new(settings: &'a FeatureSettings, clock: &'a Clock, with_flows: bool, wake: Wake) -> Result<Self, RecordError> {
        let agent = find_beside(PROBE_AGENT_FILE)?;
        let event_ticks = event_ticks();
        // Who names the method wants all there is.
        let rate = clock.rate();
        let budget = Budget { share: settings.budget, event_ns: event_ticks / rate, ticks_per_ns: rate };
        let budget = settings.method.is_none().then_some((budget, wake));
        let mut selection = settings.selection.clone().map(|path| Selection::new(path, settings.dependence));
        let choice = selection.as_mut().map_or_else(|| Ok(Choice::of(settings)), Selection::first)?;
        Ok(Self {
            settings,
            choices: vec![choice.clone()],
            choice,
            selection,
            agent,
            clock,
            event_ticks,
            reader: Reader::start(budget, Choice::default())?,
            processes: Vec::new(),
            only: None,
            hot: Vec::new(),
            beside: None,
            settled: None,
            taken_out: 0,
            stopped: Duration::ZERO,
            command: Vec::new(),
            sites: 0,
            any_regions: false,
            with_flows,
            failed: None,
            loss: Vec::new(),
        })
    }

    /// Follows a launched program to its end. Descendants that outlive it go on without us.
    fn run(&mut self, mut launch: Launch, lead: &Lead<'_>) -> Result<ExitStatus, RecordError> {
        let mut guard = LaunchGuard::start(&self.agent);
        let status = loop {
            let event = launch.next(Some(TICK))?;
            guard.follow(&event);
            match event {
                LaunchEvent::Nothing | LaunchEvent::Ending { .. } => {}
                LaunchEvent::Image(target) => self.image(&mut launch, target)?,
                LaunchEvent::Forked { parent, thread, child, at } => self.forked((parent, thread), child, at),
                LaunchEvent::Ended { pid, status } => {
                    self.ended(pid);
                    if pid == launch.pid() {
                        break status;
                    }
                }
            }
            lead.signals().forward(launch.pid());
            self.tick();
            lead.so_far(|| self.so_far())?;
        };
        self.restore();
        guard.dismiss();
        Ok(status)
    }

    /// Switches the sites of a process on.
    fn begin(&mut self, target: Target, midway: bool, wake: impl Fn() + Send + 'static) -> Result<(), RecordError> {
        let pid = target.pid();
        self.sample(&[pid]);
        let wishes = SiteOptions {
            overflow: self.settings.overflow,
            choice: &self.choice,
            with_flows: self.with_flows,
            changes: self.selection.is_some(),
        };
        let process = ProbedProcess::begin(target, &self.agent, wishes, midway, wake)?;
        // Those of children are heard with their parent's.
        if self.processes.is_empty() || midway {
            self.reader.hear_threads(pid);
        }
        self.reader.tell(Update::Process { pid, own: own_number(pid), start: ticks(), midway, like: None });
        if midway {
            self.reader.look(pid);
        } else {
            self.reader.look_before_it_runs(pid);
        }
        self.reader.tell(Update::File(process.file.clone()));
        if !self.hot.is_empty() {
            self.hot.iter().for_each(|(path, region)| process.switch(path, *region, false));
            self.taken_out = 0;
            self.settled = Some(Instant::now() + SETTLED);
        }
        self.processes.push(process);
        Ok(())
    }

    /// Begins to sample what tells nothing by events; who names the method wants events.
    fn sample(&mut self, pids: &[i32]) {
        if self.settings.method.is_none() && self.beside.is_none() && self.processes.is_empty() {
            self.beside = SupplementarySamples::start(pids, self.settings.sample_hz);
        }
    }

    /// A new program stands at its entry point.
    fn image(&mut self, launch: &mut Launch, target: Target) -> Result<(), RecordError> {
        let pid = target.pid();
        let keeper = target.share()?;
        let replaced = self.processes.iter().any(|process| process.pids.contains(&pid));
        self.leave(pid);
        if replaced {
            self.reader.tell(Update::Replaced { pid });
        }
        let first = pid == launch.pid();
        if first || has_regions(&target) {
            match self.begin(target, false, waker_of_launch()) {
                Ok(()) => {}
                Err(RecordError::Attach(error)) if error.is_gone() => {}
                // The launched program itself must be recordable; of its children those count that are. Beside flows it
                // runs on for these.
                Err(error) if first && !self.any_regions && self.with_flows => self.failed = Some(error),
                Err(error) if first && !self.any_regions => {
                    launch.abandon();
                    return Err(error);
                }
                Err(error) => self.loss.push(Loss {
                    what: LossKind::UnprofiledChildren,
                    place: format!("process {pid}"),
                    count: 1,
                    reason: error.to_string(),
                }),
            }
        }
        launch.go_on(&keeper)?;
        Ok(())
    }

    fn forked(&mut self, by: (i32, i32), child: i32, at: Instant) {
        if let Some(process) = self.processes.iter_mut().find(|process| process.pids.contains(&by.0)) {
            process.pids.insert(child);
            self.reader.tell(Update::Process {
                pid: child,
                own: own_number(child),
                start: ticks().saturating_sub((at.elapsed().as_nanos() as f64 * self.clock.rate()) as u64),
                midway: true,
                like: Some(by),
            });
        }
    }

    fn ended(&mut self, pid: i32) {
        self.reader.tell(Update::Ended { pid, end: ticks() });
        self.leave(pid);
    }

    /// A process has ended or has become another program.
    fn leave(&mut self, pid: i32) {
        for process in &mut self.processes {
            process.pids.remove(&pid);
        }
        while let Some(index) = self.processes.iter().position(|process| process.pids.is_empty()) {
            let process = self.processes.swap_remove(index);
            self.note(&process);
            self.reader.tell(Update::Over(process.file.clone()));
            process.over();
        }
    }

    /// Switches regions off that are too hot, takes out their jumps, and deals with what loaders have loaded.
    fn tick(&mut self) {
        self.choose();
        for hot in self.reader.take_hot() {
            self.processes.iter().for_each(|process| process.switch(&hot.path, hot.number, false));
            self.reader.tell(Update::Off(hot.region));
            self.beside.iter().for_each(SupplementarySamples::note_unprobed);
            self.hot.push((hot.path, hot.number));
            // Others that follow soon are taken out with them.
            self.settled.get_or_insert_with(|| Instant::now() + SETTLED);
        }
        // What is chosen from a file may be switched on again.
        if self.selection.is_none() && self.settled.take_if(|settled| Instant::now() >= *settled).is_some() {
            self.take_out();
        }
        for process in &mut self.processes {
            let since = Instant::now();
            let followed = process.follow_loader(&self.choice, &self.reader);
            self.stopped += since.elapsed();
            if let Err(error) = followed {
                note_trouble(&mut self.loss, "regions that were loaded later", &error);
            }
        }
    }

    /// Takes out the jumps of regions that are too hot. All at once: one that finds its site off costs hot code far more than the
    /// stop, up to as much again as the code itself.
    fn take_out(&mut self) {
        let since = Instant::now();
        let some = &self.hot[self.taken_out..];
        // Where threads can't be stopped the jumps remain, and find their sites off.
        self.processes.iter_mut().for_each(|process| drop(process.take_out(some)));
        (self.taken_out, self.stopped) = (self.hot.len(), self.stopped + since.elapsed());
    }

    /// Switches regions as the file of the selection says, if it says something new.
    fn choose(&mut self) {
        let Some(changed) = self.selection.as_mut().and_then(Selection::changed) else { return };
        match changed {
            Ok(choice) => {
                self.choices.push(choice.clone());
                let before = std::mem::replace(&mut self.choice, choice);
                for process in &self.processes {
                    // What was too hot remains off.
                    let is_hot = |path: &str, number: u32| self.hot.iter().any(|hot| hot.0 == path && hot.1 == number);
                    process.choose(&before, &self.choice, is_hot, |path, number, on| {
                        self.reader.tell(Update::Chosen { path: path.to_owned(), number, on });
                    });
                }
            }
            // What was chosen before remains.
            Err(reason) => self.loss.push(Loss {
                what: LossKind::SkippedFunctions,
                place: self.selection.as_ref().map(Selection::name).unwrap_or_default(),
                count: 1,
                reason,
            }),
        }
    }

    /// Keeps what the profile wants to know of a process.
    fn note(&mut self, process: &ProbedProcess) {
        self.any_regions |= process.has_regions();
        self.sites += process.site_count();
        for ((path, reason), count) in &process.refused {
            self.loss.push(Loss {
                what: LossKind::SkippedFunctions,
                place: path.clone(),
                count: *count as i64,
                reason: reason.clone(),
            });
        }
    }

    fn restore(&mut self) {
        for mut process in std::mem::take(&mut self.processes) {
            self.note(&process);
            if let Err(error) = process.restore() {
                note_trouble(&mut self.loss, "sites that could not be taken out", &error);
            }
        }
    }

    fn conclude(mut self, status: Option<i32>) -> Result<Facts<'a>, RecordError> {
        let beside = self.beside.take().and_then(SupplementarySamples::finish);
        let collected = self.reader.finish()?;
        if self.choices.len() > 1 {
            self.loss.push(Loss {
                what: LossKind::UntimedCalls,
                place: "regions that were switched on or off during the recording".to_owned(),
                count: self.choices.len() as i64 - 1,
                reason: "the selection has changed so often: counts and times are those while they were on".to_owned(),
            });
        }
        if !self.any_regions && collected.catalog.objects.is_empty() {
            let program = self.command.first().cloned().unwrap_or_default();
            return Err(RecordError::NoRegions { program });
        }
        Ok(self.facts(collected, beside, self.sites, status))
    }

    /// The profile so far. What samples tell of regions without sites comes in the end.
    fn so_far(&self) -> Result<Profile, RecordError> {
        let sites = self.sites + self.processes.iter().map(ProbedProcess::site_count).sum::<u64>();
        Ok(assemble(self.facts(self.reader.so_far()?, None, sites, None)))
    }

    fn facts(
        &self,
        mut collected: Collected,
        beside: Option<SupplementaryTimes>,
        sites: u64,
        status: Option<i32>,
    ) -> Facts<'a> {
        if let Some(pid) = self.only {
            collected.keep_only(pid);
        }
        Facts {
            command: self.command.clone(),
            clock: self.clock,
            collected,
            method: RegionMethod::Probe,
            choices: self.choices.clone(),
            event_ticks: self.event_ticks,
            sites: Some(sites),
            stopped: self.stopped,
            beside,
            status,
            loss: self.loss.clone(),
        }
    }
}

/// Notes what could not be done; of who has ended, or runs another program, nothing more is wanted.
fn note_trouble(loss: &mut Vec<Loss>, place: &str, error: &RecordError) {
    if matches!(error, RecordError::Attach(error) if error.is_gone()) {
        return;
    }
    loss.push(Loss { what: LossKind::SkippedFunctions, place: place.to_owned(), count: 1, reason: error.to_string() });
}
