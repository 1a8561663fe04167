//! One measurement from start or attach to profile.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use transect_attach::{AddressRoom, GivenLimit, Launch, LaunchEvent, Target};
use transect_profile_model::{LatencyId, LatencySampling, Loss, LossKind, Profile};

use super::assemble::assemble;
use super::measured::{Finished, Measured};
use super::reading::Reading;
use super::short_lived::ShortLived;
use super::steer::Costs;
use super::wanted::Wanted;
use super::{LatencyOutcome, LatencySettings, LatencyTarget, TimeSlices};
use crate::RecordError;
use crate::clock::{Clock, ticks};
use crate::launch::find_beside;
use crate::lead::Lead;
use crate::liveness::is_alive;
use crate::probe_session::{Guard, LaunchGuard, Plans, ProbeSession, load, open_cleaned, plan};
use crate::session::left_out;
use crate::signals::Signals;

/// File name of the image that is loaded into the process.
const PROBE_AGENT_FILE: &str = "libtransect_probe_agent.so";
/// Narrowest column of the picture of latency over time.
const NARROWEST_SLICE: Duration = Duration::from_millis(20);
/// The controller's own time for switching, and cold lines on both sides, as a multiple of the calibrated cost.
const ARMING_FACTOR: f64 = 10.0;
/// How often it is looked whether a process that we are not the parent of has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a program that a running process executes is given to load its libraries, before it gets probes.
const LOADS: Duration = Duration::from_millis(50);

/// Everything that is under way.
pub(super) struct Measurement<'a> {
    settings: &'a LatencySettings,
    wanted: Wanted,
    pub(super) agent: std::path::PathBuf,
    costs: Costs,
    reading: Reading,
    clock: Clock,
    ticks_per_ns: f64,
    rows: Rc<Cell<LatencyId>>,
    plans: Plans,
    slices: TimeSlices,
    processes: Vec<Measured>,
    finished: Vec<Finished>,
    /// Their executables.
    known: HashSet<String>,
    /// Processes that could not be measured: (executable, reason).
    pub unmeasured: Vec<(String, String)>,
    /// Programs that running processes came to execute, and those that ran without the privileges of their files.
    replaced: Vec<Loss>,
    /// Limits of the address space that processes got: what is mapped into them comes on top of what they had.
    limits: HashMap<i32, GivenLimit>,
    /// How long programs live that were started.
    short_lived: ShortLived,
    next_epoch: Instant,
    /// For how long it was measured, once that is over, ns.
    wall_ns: Option<i64>,
    /// As [`LatencyOutcome::ended_before`].
    ended_before: bool,
    /// Another process puts back what we have attached to if we are killed.
    pub guarded: bool,
    /// For how long programs that were launched were held until they had their probes: the first, and those that it started, ns.
    held_ns: [u64; 2],
    /// Of these the parts that are among the stops of the measured processes, too, ns.
    counted_stops_ns: u64,
    /// For how long threads stood because they were traced.
    traced: Duration,
}

/// See [`super::record`].
pub fn run(settings: &LatencySettings, snapshot: &mut dyn FnMut(&Profile)) -> Result<LatencyOutcome, RecordError> {
    let (signals, duration) = match &settings.target {
        LatencyTarget::Attach { duration, .. } => (Signals::watch_running()?, *duration),
        LatencyTarget::Launch { .. } => (Signals::watch()?, None),
    };
    let lead = Lead::alone(signals, duration, settings.interval, snapshot);
    let mut measurement = Measurement::new(settings, lead.clock)?;
    let status = match &settings.target {
        LatencyTarget::Attach { pids, .. } => {
            measurement.attach(pids, &lead)?;
            None
        }
        LatencyTarget::Launch { command, follow } => Some(measurement.launch(command, *follow, &lead)?),
    };
    let outcome = measurement.conclude(status);
    // A process may end at any step of it.
    let measured = outcome.profile.meta.latency.as_ref().is_some_and(|session| session.probes_installed > 0);
    match &settings.target {
        LatencyTarget::Attach { pids, .. } if !measured && !pids.iter().any(|pid| is_alive(pid.cast_unsigned())) => {
            Err(RecordError::EndedBefore { what: "its functions had probes" })
        }
        _ => Ok(outcome),
    }
}

impl<'a> Measurement<'a> {
    pub(super) fn new(settings: &'a LatencySettings, clock: Clock) -> Result<Self, RecordError> {
        let reading = Reading::calibrate(settings.metric)?;
        let ticks_per_ns = clock.rate();
        Ok(Self {
            settings,
            wanted: Wanted::new(settings),
            agent: find_beside(PROBE_AGENT_FILE)?,
            costs: Costs { sample: reading.call.cost_ticks, arming: ARMING_FACTOR * reading.call.arming_ticks },
            reading,
            slices: slices_from(clock.elapsed_ns(), settings),
            clock,
            ticks_per_ns,
            rows: Rc::default(),
            plans: Plans::default(),
            processes: Vec::new(),
            finished: Vec::new(),
            known: HashSet::new(),
            unmeasured: Vec::new(),
            replaced: Vec::new(),
            limits: HashMap::new(),
            short_lived: ShortLived::default(),
            next_epoch: Instant::now() + settings.epoch,
            wall_ns: None,
            ended_before: false,
            guarded: true,
            held_ns: [0; 2],
            counted_stops_ns: 0,
            traced: Duration::ZERO,
        })
    }

    /// The time of the recording counts from now on, at which what is measured has run for `ran` of it.
    fn begin_time(&mut self, ran: Duration) {
        self.clock = Clock::start_after(ran);
        self.slices = slices_from(0, self.settings);
    }

    /// The time of the recording is over; what is still to be done is not part of it.
    fn end_time(&mut self) {
        self.wall_ns = Some(self.clock.elapsed_ns());
    }

    /// How much of that has passed, ns.
    fn elapsed_ns(&self) -> i64 {
        self.wall_ns.unwrap_or_else(|| self.clock.elapsed_ns())
    }

    /// Measures running processes until they have ended, or `lead` says that it is enough. Those of several that can't be
    /// measured are noted.
    pub(super) fn attach(&mut self, pids: &[i32], lead: &Lead<'_>) -> Result<(), RecordError> {
        let (mut measured, mut refused, mut first_error) = (Vec::new(), 0, None);
        for &pid in pids {
            match self.attach_one(pid) {
                Ok(true) => measured.push(pid),
                Ok(false) => {}
                Err(error) => {
                    self.replaced.push(left_out(&format!("latency of process {pid}"), &error));
                    first_error.get_or_insert(error);
                    refused += 1;
                }
            }
            // Those that have their probes already may load something meanwhile.
            self.tick();
        }
        match first_error {
            Some(error) if refused == pids.len() => return Err(error),
            _ if measured.is_empty() => return Ok(()),
            _ => {}
        }
        if !lead.is_beside() {
            self.begin_time(Duration::ZERO);
        }
        let end = lead.begin();
        let mut look = Instant::now();
        let mut successors: Vec<(i32, Instant)> = Vec::new();
        while !lead.ends() {
            if look.elapsed() >= LOOK_EVERY {
                measured.retain(|&pid| self.is_there(pid));
                if measured.is_empty() {
                    break;
                }
                look = Instant::now();
            }
            let replaced = self.processes.iter().filter(|process| process.is_replaced());
            let replaced: Vec<i32> = replaced.flat_map(|process| process.pids.iter().copied()).collect();
            for pid in replaced {
                self.leave(pid);
                successors.push((pid, Instant::now()));
            }
            for (pid, _) in successors.extract_if(.., |(_, since)| since.elapsed() >= LOADS) {
                self.succeed(pid);
            }
            self.tick();
            lead.so_far(|| Ok(self.so_far()))?;
            let until = end.map_or(self.next_epoch, |end| end.min(self.next_epoch));
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        self.end_time();
        self.finish_all(true);
        Ok(())
    }

    /// Begins to measure one of the processes; false if it has nothing to be measured.
    fn attach_one(&mut self, pid: i32) -> Result<bool, RecordError> {
        let target = open_cleaned(pid)?;
        if self.settings.hot {
            let hot = super::hot::sample(&target, Duration::from_secs(1))?;
            self.wanted.hot.get_or_insert_default().add_all(hot);
        }
        self.measure_running(target)
    }

    /// Whether a process that was attached to goes on. One that has ended is finished: its time is over.
    fn is_there(&mut self, pid: i32) -> bool {
        match self.processes.iter().position(|process| process.pids.contains(&pid)) {
            Some(index) if self.processes[index].is_alive() => true,
            // The last one's end is that of the measurement.
            Some(index) if self.processes.len() > 1 => {
                let process = self.processes.swap_remove(index);
                self.finish(process, true);
                false
            }
            Some(_) => false,
            None => is_alive(pid.cast_unsigned()),
        }
    }

    /// A running process executes another program, and has its probes no more: it gets new ones.
    fn succeed(&mut self, pid: i32) {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let reason = match open_cleaned(pid).map_err(RecordError::from).and_then(|target| self.measure_running(target))
        {
            Ok(true) => {
                "it was executed instead of the one before, and measured only once it had its probes".to_owned()
            }
            Ok(false) => "it was executed instead of the one before, and has no function that is asked for".to_owned(),
            Err(error) => format!("it was executed instead of the one before, and not measured: {error}"),
        };
        let place = format!("{} (process {pid})", program.display());
        self.replaced.push(Loss { what: LossKind::ReplacedPrograms, place, count: 1, reason });
    }

    /// Begins to measure a process that runs; false if there is nothing to measure: it is left alone then.
    fn measure_running(&mut self, target: Target) -> Result<bool, RecordError> {
        if !self.any_wanted(&target)? {
            return Ok(false);
        }
        let (controller, pid) = (std::thread::current(), target.pid());
        // Before anything of the process is touched. Without it all but the cleaning works.
        let guard = if self.guarded { Guard::start(pid, &self.agent).ok() } else { None };
        self.measure(target, guard, move || controller.unpark())?;
        Ok(true)
    }

    /// Whether any function of the process is wanted and can hold a probe, from its files alone.
    fn any_wanted(&self, target: &Target) -> Result<bool, RecordError> {
        if self.settings.functions.is_empty() && self.settings.components.is_empty() {
            return Ok(true);
        }
        let (objects, _) = load(target.task(), &target.mappings()?, &mut HashSet::new());
        let wanted = &self.wanted;
        let has_site = |object| !plan(object, &|function| wanted.wants(object, function)).sites.is_empty();
        Ok(objects.iter().any(has_site))
    }

    /// Measures a program from its first own instruction to the end of the launched process; gives its status.
    fn launch(&mut self, command: &[std::ffi::OsString], follow: bool, lead: &Lead<'_>) -> Result<i32, RecordError> {
        if command.is_empty() {
            return Err(RecordError::NoCommand);
        }
        transect_binary_info::inspect_held_launch(&command[0])?;
        let mut guard = LaunchGuard::start(&self.agent);
        let mut launch = Launch::start(command, follow)?;
        self.begin_time(Duration::ZERO);
        let status = loop {
            let left = self.next_epoch.saturating_duration_since(Instant::now());
            let event = launch.next(Some(left))?;
            self.traced = launch.held();
            guard.follow(&event);
            match event {
                LaunchEvent::Nothing => {}
                LaunchEvent::Image(target) => {
                    let which = usize::from(self.held_ns[0] > 0);
                    self.held_ns[which] += self.image(&mut launch, target)?.as_nanos() as u64;
                }
                LaunchEvent::Forked { parent, child, .. } => {
                    if let Some(process) = self.processes.iter_mut().find(|p| p.pids.contains(&parent)) {
                        process.pids.insert(child);
                    }
                }
                LaunchEvent::Ending { pid } => self.processes.iter_mut().for_each(|process| process.ending(pid)),
                LaunchEvent::Ended { pid, status } => {
                    if pid == launch.pid() {
                        self.end_time();
                    }
                    self.leave(pid);
                    if pid == launch.pid() {
                        break status;
                    }
                }
            }
            lead.signals().forward(launch.pid());
            self.tick();
            lead.so_far(|| Ok(self.so_far()))?;
        };
        // Descendants that outlive the launched process go on without us.
        self.finish_all(true);
        self.ended_before = self.finished.is_empty() && self.unmeasured.is_empty() && status.signal().is_some();
        drop(launch);
        guard.dismiss();
        Ok(shell_status(status))
    }

    /// A new program stands at its entry point; gives for how long it stood.
    fn image(&mut self, launch: &mut Launch, target: Target) -> Result<Duration, RecordError> {
        let (pid, mut stands) = (target.pid(), Instant::now());
        // Who is held is not run meanwhile: the first one's time goes on when it is let go.
        let ran = (self.held_ns[0] == 0).then(|| Duration::from_nanos(self.clock.elapsed_ns().cast_unsigned()));
        self.leave(pid);
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if let Some(reason) = target.withheld_privileges() {
            let place = format!("{} (process {pid})", program.display());
            self.replaced.push(Loss { what: LossKind::UnprivilegedPrograms, place, count: 1, reason });
        }
        if !self.short_lived.is_worth(&program) {
            launch.go_on(&target)?;
            return Ok(stands.elapsed());
        }
        let keeper = target.share()?;
        // The launch waits for SIGCHLD, which this thread has blocked; the loader's events must end the same wait.
        let controller = nix::sys::pthread::pthread_self();
        let wake = move || {
            let _ = nix::sys::pthread::pthread_kill(controller, nix::sys::signal::Signal::SIGCHLD);
        };
        let runs = self.settings.hot && self.wanted.hot.is_none();
        if runs {
            ran.into_iter().for_each(|ran| self.begin_time(ran));
            launch.go_on(&keeper)?;
            // Who ends sooner has no hot functions.
            self.wanted.hot = Some(super::hot::sample(&target, Duration::from_secs(1))?);
            stands = Instant::now();
        }
        let held = Instant::now();
        let measured = self.measure(target, None, wake);
        self.short_lived.begin(pid, program, held.elapsed());
        match measured {
            Ok(()) => {}
            Err(RecordError::Attach(error)) if error.is_gone() => {}
            // It has not run an instruction of its own yet, and shall not if it can't be measured. If it is not the first
            // program of its process, or a child, what was measured before counts.
            Err(error) if pid == launch.pid() && self.finished.is_empty() && !runs => {
                launch.abandon();
                return Err(error);
            }
            Err(error) => self.unmeasured.push((pid.to_string(), error.to_string())),
        }
        if !runs {
            ran.into_iter().for_each(|ran| self.begin_time(ran));
            launch.go_on(&keeper)?;
        }
        let stops = self.processes.last().filter(|process| process.pids.contains(&pid) && !runs);
        self.counted_stops_ns += stops.map_or(0, Measured::stop_ns);
        Ok(stands.elapsed())
    }

    /// Begins to measure one process.
    fn measure(
        &mut self,
        target: Target,
        guard: Option<Guard>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(), RecordError> {
        let (pid, given) = (target.pid(), self.limits.values().cloned().collect::<Vec<_>>());
        let room = AddressRoom::lift(pid, &given)?;
        let mut session = ProbeSession::begin(target, &self.agent)?;
        session.share_plans(&self.plans);
        if matches!(self.settings.target, LatencyTarget::Launch { follow: false, .. }) {
            session.leave_children_alone()?;
        }
        let rows = self.rows.clone();
        let sampling = match self.settings.sampling {
            LatencySampling::Budget { share } => LatencySampling::Budget { share: share / 2.0 },
            fixed => fixed,
        };
        let measured = Measured::begin((session, guard), &self.wanted, sampling, self.costs, self.reading, rows, wake)?;
        match room.map(AddressRoom::settle).transpose() {
            Ok(limit) => self.limits.extend(limit.map(|limit| (pid, limit))),
            Err(error) => {
                measured.finish(true, &self.known, self.ticks_per_ns);
                return Err(error.into());
            }
        }
        self.processes.push(measured);
        Ok(())
    }

    /// A process has ended or has become another program: what its probes have counted is kept once nobody else uses
    /// them.
    fn leave(&mut self, pid: i32) {
        self.short_lived.end(pid);
        let mut index = 0;
        while index < self.processes.len() {
            if self.processes[index].leave(pid) {
                let process = self.processes.swap_remove(index);
                self.finish(process, false);
            } else {
                index += 1;
            }
        }
    }

    fn finish(&mut self, process: Measured, restore: bool) {
        let elapsed = self.elapsed_ns();
        process.cut(&mut self.slices, elapsed);
        let finished = process.finish(restore, &self.known, self.ticks_per_ns);
        if let Some(limit) = self.limits.get(&finished.pid).filter(|_| restore) {
            limit.take_back(finished.pid);
        }
        self.known.insert(finished.executable.clone());
        self.finished.push(finished);
    }

    fn finish_all(&mut self, restore: bool) {
        for process in std::mem::take(&mut self.processes) {
            self.finish(process, restore);
        }
    }

    /// What is to be done by now: loader events always, an epoch when it is due, a column of the picture likewise. What
    /// can't be done in one process is noted there; the measurement goes on.
    fn tick(&mut self) {
        for process in &mut self.processes {
            process.follow_loader(&self.wanted);
        }
        let now = Instant::now();
        if now < self.next_epoch {
            return;
        }
        self.next_epoch += self.settings.epoch;
        if self.next_epoch < now {
            // We came too late; epochs are not made up for.
            self.next_epoch = now + self.settings.epoch;
        }
        for process in &mut self.processes {
            process.epoch(self.ticks_per_ns);
            // Half of a budget is for samples, half for the detours of probes that are off.
            if let LatencySampling::Budget { share } = self.settings.sampling {
                process.take_turns(share / 2.0);
            }
        }
        let elapsed = self.clock.elapsed_ns();
        if elapsed >= self.slices.due_ns() {
            self.processes.iter().for_each(|process| process.cut(&mut self.slices, elapsed));
        }
    }

    pub(super) fn conclude(mut self, status: Option<i32>) -> LatencyOutcome {
        let left_behind = self.finished.iter().flat_map(|process| process.left_behind.clone()).collect();
        let finished = std::mem::take(&mut self.finished);
        let unmatched = self.wanted.unmatched();
        let ended_before = self.ended_before;
        LatencyOutcome { profile: self.profile(finished, status), status, left_behind, unmatched, ended_before }
    }

    /// The profile up to the last epoch, without source lines, which take their time. Processes go on.
    pub(super) fn so_far(&self) -> Profile {
        let mut finished = self.finished.clone();
        finished.extend(self.processes.iter().map(|process| process.told(ticks(), &self.known, false)));
        self.profile(finished, None)
    }

    fn profile(&self, finished: Vec<Finished>, status: Option<i32>) -> Profile {
        assemble(super::assemble::Facts {
            settings: self.settings,
            clock: &self.clock,
            wall_ns: self.elapsed_ns(),
            reading: self.reading,
            finished,
            unmeasured: &self.unmeasured,
            left_out: self.short_lived.losses().into_iter().chain(self.replaced.iter().cloned()).collect(),
            slices: &self.slices,
            status,
            held_ns: [self.held_ns[0], self.held_ns[1] + self.traced.as_nanos() as u64],
            counted_stops_ns: self.counted_stops_ns,
        })
    }
}

/// The picture of latency over time, from then on.
fn slices_from(start_ns: i64, settings: &LatencySettings) -> TimeSlices {
    TimeSlices::new(start_ns, settings.epoch.max(NARROWEST_SLICE).as_nanos() as i64)
}

/// As a shell gives it.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(0)
}
