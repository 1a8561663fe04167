//! The command from attach or launch to outcome.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transect_attach::{Launch, LaunchEvent, Target};
use transect_probe_plan::{Event, PlanOptions};

use super::choice::{Choice, Chosen};
use super::controlled::{Controlled, has_probes, merged, program_of, refused_row};
use super::row::{ProbeRow, ProbeState, Sources, event_word, file_name, provider_word};
use super::{ProbeAction, ProbeOutcome, ProbeSettings, ProbeTarget};
use crate::RecordError;
use crate::clock::Clock;
use crate::latency::BucketScale;
use crate::launch::find_beside;
use crate::probe_session::{
    Guard, LaunchGuard, LoadedObject, LoaderWatcher, ProbeSession, SiteState, load, open_cleaned,
};
use crate::signals::Signals;

/// File name of the image that is loaded into the process.
const PROBE_AGENT_FILE: &str = "libtransect_probe_agent.so";
/// How often it is looked whether a process that we are not the parent of has ended, and at loader events.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Programs that start others: that they have no such functions themselves means nothing.
const WRAPPERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "nice", "nohup", "setsid", "stdbuf", "timeout",
    "time", "taskset", "sudo",
];

struct Command<'a> {
    settings: &'a ProbeSettings,
    choice: Choice,
    sources: Sources,
    scale: Option<BucketScale>,
    /// Of its processes' objects.
    processes: BTreeMap<i32, (Controlled, LoaderWatcher)>,
    /// Rows of processes that have ended.
    rows: Vec<ProbeRow>,
    outcome: ProbeOutcome,
    /// Patterns that matched nothing so far, and what to say of them.
    unmatched: BTreeMap<String, String>,
    began: Instant,
    next_report: Instant,
}

/// See [`super::control`].
pub fn run(settings: &ProbeSettings, live: &mut dyn FnMut(&[ProbeRow], f64)) -> Result<ProbeOutcome, RecordError> {
    let mut command = Command {
        settings,
        choice: Choice::parse(&settings.patterns)?,
        sources: Sources::default(),
        scale: None,
        processes: BTreeMap::new(),
        rows: Vec::new(),
        outcome: ProbeOutcome::default(),
        unmatched: BTreeMap::new(),
        began: Instant::now(),
        next_report: Instant::now() + settings.interval,
    };
    if settings.action == ProbeAction::Time {
        let clock = Clock::start();
        let call = transect_calibrate::timed_call();
        command.scale = Some(BucketScale::new(clock.rate(), call));
    }
    match &settings.target {
        ProbeTarget::Attach { pid, duration } => command.attach(*pid, *duration, live)?,
        ProbeTarget::Launch { command: words, follow } => command.launch(words, *follow, live)?,
    }
    Ok(command.outcome)
}

impl Command<'_> {
    fn attach(
        &mut self,
        pid: i32,
        duration: Option<Duration>,
        live: &mut dyn FnMut(&[ProbeRow], f64),
    ) -> Result<(), RecordError> {
        let target = open_cleaned(pid)?;
        let action = self.settings.action;
        if action == ProbeAction::Detach {
            return self.detach(target);
        }
        let chosen = self.choose(&target)?;
        if let Some((error, _)) = chosen.unmatched.into_iter().next() {
            return Err(error.into());
        }
        if action == ProbeAction::List {
            return self.list(target);
        }
        if action == ProbeAction::Disable && !has_probes(&target.mappings()?) {
            return Ok(());
        }
        let signals = Signals::watch_running()?;
        let controller = std::thread::current();
        let counts = matches!(action, ProbeAction::Count | ProbeAction::Time);
        // Before anything of the process is touched. Without it all but the cleaning works.
        let guard = if counts { Guard::start(pid, &find_beside(PROBE_AGENT_FILE)?).ok() } else { None };
        self.take(target, guard, move || controller.unpark())?;
        if counts {
            let end = duration.map(|duration| self.began + duration);
            while !signals.ends() && end.is_none_or(|end| Instant::now() < end) {
                if !self.processes.values().any(|(process, _)| process.session.target().is_alive()) {
                    break;
                }
                self.tick(live);
                let wait = end.map_or(LOOK_EVERY, |end| end.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
                std::thread::park_timeout(wait);
            }
        }
        self.conclude(true);
        Ok(())
    }

    fn launch(
        &mut self,
        words: &[OsString],
        follow: bool,
        live: &mut dyn FnMut(&[ProbeRow], f64),
    ) -> Result<(), RecordError> {
        if words.is_empty() {
            return Err(RecordError::NoCommand);
        }
        transect_binary_info::inspect_held_launch(&words[0])?;
        let signals = Signals::watch()?;
        let keeps = self.settings.action == ProbeAction::Enable;
        let mut guard = if keeps { None } else { Some(LaunchGuard::start(&find_beside(PROBE_AGENT_FILE)?)) };
        let mut launch = Launch::start(words, follow)?;
        self.began = Instant::now();
        let status = loop {
            let left = self.next_report.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
            let event = launch.next(Some(left))?;
            guard.iter_mut().for_each(|guard| guard.follow(&event));
            match event {
                LaunchEvent::Nothing | LaunchEvent::Forked { .. } | LaunchEvent::Ending { .. } => {}
                LaunchEvent::Image(target) => self.image(&mut launch, target, follow)?,
                LaunchEvent::Ended { pid, status } => {
                    if pid == launch.pid() {
                        break status;
                    }
                    self.leave(pid);
                }
            }
            signals.forward(launch.pid());
            self.tick(live);
        };
        self.leave(launch.pid());
        self.conclude(!keeps);
        guard.into_iter().for_each(LaunchGuard::dismiss);
        self.outcome.unmatched = std::mem::take(&mut self.unmatched).into_values().collect();
        self.outcome.status = Some(shell_status(status));
        Ok(())
    }

    /// A new program stands at its entry point.
    fn image(&mut self, launch: &mut Launch, target: Target, follow: bool) -> Result<(), RecordError> {
        let pid = target.pid();
        self.leave(pid);
        if let Some(reason) = target.withheld_privileges() {
            self.outcome.troubles.insert(format!("{}: {reason}", program_of(pid).display()));
        }
        let keeper = target.share()?;
        match self.probe_image(target, pid == launch.pid() && !follow) {
            Ok(()) => {}
            Err(RecordError::Attach(error)) if error.is_gone() => {}
            // It has not run an instruction of its own yet, and shall not, unless there is something to tell of the program
            // that it was before, or of one that started it.
            Err(error) if pid == launch.pid() && self.rows.is_empty() && self.processes.is_empty() => {
                launch.abandon();
                return Err(error);
            }
            Err(error) => {
                self.outcome.unreadable.push((program_of(pid).to_string_lossy().into_owned(), error.to_string()));
            }
        }
        launch.go_on(&keeper)?;
        Ok(())
    }

    fn probe_image(&mut self, target: Target, only: bool) -> Result<(), RecordError> {
        let chosen = self.choose(&target)?;
        let found = !chosen.functions.is_empty() || !chosen.points.is_empty() || !chosen.refused.is_empty();
        let program = program_of(target.pid());
        let wraps = WRAPPERS.contains(&&*file_name(&program));
        let mut unmatched = BTreeMap::new();
        for (error, there) in chosen.unmatched {
            // Its component may be loaded later, or be that of a program that this one starts.
            if there && (only || !wraps) {
                return Err(error.into());
            }
            unmatched.insert(error.pattern().to_owned(), error.to_string());
        }
        if self.rows.is_empty() && self.processes.is_empty() {
            self.unmatched = unmatched;
        } else {
            self.unmatched.retain(|pattern, _| unmatched.contains_key(pattern));
        }
        if self.settings.action == ProbeAction::List {
            return if found { self.list(target) } else { Ok(()) };
        }
        if found || !wraps {
            let controller = nix::sys::pthread::pthread_self();
            // The launch waits for SIGCHLD, which this thread has blocked; loader events must end the same wait.
            self.take(target, None, move || {
                let _ = nix::sys::pthread::pthread_kill(controller, nix::sys::signal::Signal::SIGCHLD);
            })?;
        }
        Ok(())
    }

    /// Looks the patterns up in the files that the process has mapped.
    fn choose(&mut self, target: &Target) -> Result<Chosen, RecordError> {
        let objects = self.objects(target)?;
        let indexed: Vec<_> = objects.iter().enumerate().collect();
        self.choice.among(&indexed, &program_of(target.task()), &mut self.sources)
    }

    fn objects(&mut self, target: &Target) -> Result<Vec<LoadedObject>, RecordError> {
        let (objects, unreadable) = load(target.task(), &target.mappings()?, &mut Default::default());
        self.outcome
            .unreadable
            .extend(unreadable.into_iter().map(|object| (object.path.to_string_lossy().into_owned(), object.reason)));
        self.outcome.unreadable.sort();
        self.outcome.unreadable.dedup();
        Ok(objects)
    }

    /// Takes a process under control and does what is asked for.
    fn take(
        &mut self,
        target: Target,
        guard: Option<Guard>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(), RecordError> {
        let pid = target.pid();
        let program = program_of(target.task());
        let mut session = ProbeSession::begin(target, &find_beside(PROBE_AGENT_FILE)?)?;
        session.share_plans(&self.sources.plans);
        if matches!(self.settings.target, ProbeTarget::Launch { follow: false, .. }) {
            session.leave_children_alone()?;
        }
        // Indices are those of the session from here on.
        let objects: Vec<_> = session.objects.iter().enumerate().collect();
        let chosen = self.choice.among(&objects, &program, &mut self.sources)?;
        let mut process = Controlled::new(session, program, guard);
        process.unmatched = chosen.unmatched.iter().map(|(error, _)| error.pattern().to_owned()).collect();
        process.begin(&chosen, self.settings.action, &mut self.sources)?;
        let watcher = LoaderWatcher::start(process.session.arena(), wake)
            .map_err(RecordError::system("watch the loader of the process"))?;
        if self.processes.is_empty() && self.rows.is_empty() {
            self.began = Instant::now();
        }
        self.processes.insert(pid, (process, watcher));
        Ok(())
    }

    /// The sites, without touching the process.
    fn list(&mut self, target: Target) -> Result<(), RecordError> {
        let known = has_probes(&target.mappings()?);
        let objects = self.objects(&target)?;
        let indexed: Vec<_> = objects.iter().enumerate().collect();
        let chosen = self.choice.among(&indexed, &program_of(target.task()), &mut self.sources)?;
        let mut rows = Vec::new();
        for (index, object) in indexed {
            let wanted = chosen.functions.get(&index);
            let plan = wanted.map(|wanted| {
                let wanted = |f: &transect_probe_plan::Function| wanted.contains(&f.vaddr);
                transect_probe_plan::plan(
                    &object.object,
                    &PlanOptions { wanted: Some(&wanted), ..PlanOptions::default() },
                )
            });
            let Some(plan) = plan else { continue };
            for site in &plan.sites {
                let mut row = self.sources.row(object, &plan.functions[site.function as usize], site.vaddr);
                row.provider = provider_word(site.provider);
                row.event = event_word(site.event);
                row.name = site.name.clone();
                rows.push((object.bias.wrapping_add(site.vaddr), row));
            }
            for refused in &plan.refused {
                let function = &plan.functions[refused.function as usize];
                let row = self.sources.row(object, function, refused.vaddr);
                let reason = refused.reason.to_string();
                let provider = provider_word(refused.provider);
                let name = refused.name.clone();
                let state = ProbeState::Refused;
                rows.push((0, ProbeRow { state, reason, provider, name, event: "entry", ..row }));
            }
        }
        for (index, function, site) in &chosen.points {
            let mut row = self.sources.row(&objects[*index], function, site.vaddr);
            row.event = event_word(site.event);
            row.provider = provider_word(site.provider);
            row.name = site.name.clone();
            if site.event == Event::Point {
                (row.file, row.line) = self.sources.of(&objects[*index], site.vaddr);
            }
            rows.push((objects[*index].bias.wrapping_add(site.vaddr), row));
        }
        for (index, function, refused) in &chosen.refused {
            rows.push((0, refused_row(self.sources.row(&objects[*index], function, refused.vaddr), refused)));
        }
        if known {
            let session = ProbeSession::begin(target, &find_beside(PROBE_AGENT_FILE)?)?;
            let states: BTreeMap<u64, bool> = (0..session.sites.len() as u32)
                .filter(|&id| session.sites[id as usize].state == SiteState::Installed)
                .map(|id| (session.arena().site(id as usize).address.load(Ordering::Relaxed), session.is_on(id)))
                .collect();
            for (address, row) in &mut rows {
                if let Some(on) = states.get(address) {
                    row.state = if *on { ProbeState::Enabled } else { ProbeState::Disabled };
                }
            }
        }
        self.outcome.rows.extend(rows.into_iter().map(|(_, row)| row));
        Ok(())
    }

    fn detach(&mut self, target: Target) -> Result<(), RecordError> {
        if !has_probes(&target.mappings()?) {
            return Ok(());
        }
        let mut session = ProbeSession::begin(target, &find_beside(PROBE_AGENT_FILE)?)?;
        let installed = session.sites.iter().filter(|site| site.state == SiteState::Installed).count();
        let kept = session.leave()?;
        self.outcome.troubles.extend(kept.map(|kept| format!("process {}: {kept}", session.target().pid())));
        let left = session.sites.iter().filter(|site| site.state == SiteState::Installed).count();
        self.outcome.restored = installed - left;
        self.outcome.stops = session.stop_times();
        Ok(())
    }

    /// Loader events at once, a report when it is due.
    fn tick(&mut self, live: &mut dyn FnMut(&[ProbeRow], f64)) {
        let action = self.settings.action;
        let mut gone = Vec::new();
        for (pid, (process, _)) in &mut self.processes {
            match process.follow_loader(&self.choice, action, &mut self.sources) {
                Ok(()) => {}
                Err(RecordError::Attach(error)) if error.is_gone() => gone.push(*pid),
                // What was there before goes on.
                Err(error) => {
                    self.outcome.troubles.insert(format!("functions that were loaded later have no probes: {error}"));
                }
            }
        }
        gone.into_iter().for_each(|pid| self.leave(pid));
        if Instant::now() >= self.next_report && matches!(action, ProbeAction::Count | ProbeAction::Time) {
            self.next_report = Instant::now() + self.settings.interval;
            let rows = self.current_rows();
            live(&rows, self.began.elapsed().as_secs_f64());
        }
    }

    fn current_rows(&mut self) -> Vec<ProbeRow> {
        let mut rows = self.rows.clone();
        for (process, _) in self.processes.values_mut() {
            rows.extend(process.rows(self.scale.as_ref()));
        }
        merged(rows)
    }

    /// A process has ended, or has become another program: what it has counted is kept.
    fn leave(&mut self, pid: i32) {
        if let Some((mut process, _)) = self.processes.remove(&pid) {
            let rows = process.rows(self.scale.as_ref());
            self.rows.extend(rows.into_iter().map(|row| ProbeRow { recent_calls: 0, ..row }));
            self.account(&process);
        }
    }

    fn account(&mut self, process: &Controlled) {
        // What was loaded later may have been what was meant.
        self.unmatched.retain(|pattern, _| process.unmatched.contains(pattern));
        let times = process.session.stop_times();
        let stops = &mut self.outcome.stops;
        stops.count += times.count;
        stops.longest_ns = stops.longest_ns.max(times.longest_ns);
        stops.total_ns += times.total_ns;
        self.outcome.abandoned += process.abandoned();
    }

    /// Reads everything for the last time; after counting and timing, probes become what they were.
    fn conclude(&mut self, put_back: bool) {
        self.outcome.seconds = self.began.elapsed().as_secs_f64();
        let rows = self.current_rows();
        self.outcome.rows.extend(rows);
        let counting = matches!(self.settings.action, ProbeAction::Count | ProbeAction::Time);
        for (mut process, _) in std::mem::take(&mut self.processes).into_values() {
            if counting && put_back {
                self.outcome.troubles.extend(process.leave());
            }
            self.account(&process);
        }
    }
}

/// As a shell gives it.
fn shell_status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(0)
}
