//! One process under measurement: its probes, how they are steered, and what they have counted in the end.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use transect_attach::{AttachError, Unwritten};
use transect_profile_model::{LatencyId, LatencySampling};

use super::disturbance::{Disturbance, Span};
use super::reading::Reading;
use super::rotation::Rotation;
use super::steer::{Costs, MOST, Steering};
use super::unseen::UnseenCalls;
use super::visit::Visit;
use super::window::{BusyTime, OnTime, Timed, Windows};
use super::{TimeSlices, wanted::Wanted};
use crate::clock::ticks;
use crate::command_line;
use crate::probe_session::{
    Guard, LoaderWatcher, MemoryKept, ProbeSession, Purpose, RefusedFunction, SavedProbe, SiteCounts, SiteId,
    SiteState, UnreadableObject,
};

/// Threads of which the runs are counted at each epoch.
const FEW_THREADS: usize = 32;
/// A window lasts as long as that if the budget bears it.
const SPAN_NS: f64 = 1e6;
/// Most samples of one window, of short functions that come in bursts.
const MOST_OF_BURSTS: u32 = 40_000;
/// A program that is idle has a budget as if it ran for this part of the time: else it would hardly be sampled.
const IDLE_PART: f64 = 0.05;

/// How often an object is loaded with probes, however long the program waits for them.
const LOADS: u32 = 8;
/// It gets none if the program waits for probes in what it loads for more than this part of its time: a tenth.
const WAITING_PART: u64 = 10;

/// A function of a finished process.
#[derive(Debug, Clone)]
pub struct MeasuredFunction {
    /// Row in the profile.
    pub row: LatencyId,
    /// Index in [`Finished::objects`].
    pub object: usize,
    /// Demangled name.
    pub name: String,
    /// Raw symbol.
    pub symbol: String,
    /// Virtual address.
    pub vaddr: u64,
    /// Source file and line; empty and 0 if unknown.
    pub source: (String, i32),
    /// Calls that met the probe switched on.
    pub calls: u64,
    /// Those of them that were counted where none was timed: what they took is among [`MeasuredFunction::unseen`].
    pub counted: u64,
    /// Calls timed.
    pub samples: u64,
    /// Their ticks.
    pub ticks: u64,
    /// The longest, ticks.
    pub max_ticks: u64,
    /// Calls that were not seen.
    pub unseen: UnseenCalls,
    /// Samples by duration.
    pub histogram: Vec<u32>,
}

/// What is left of a process when it has ended or was let go.
#[derive(Debug, Clone, Default)]
pub struct Finished {
    /// Pid.
    pub pid: i32,
    /// Parent's pid.
    pub parent: i32,
    /// Path of the executable.
    pub executable: String,
    /// Its command line.
    pub command: Vec<String>,
    /// When its measurement began and ended, ticks.
    pub span: (u64, u64),
    /// Paths and build-ids of its objects.
    pub objects: Vec<(String, String)>,
    /// Probes that were installed.
    pub probes: usize,
    /// Functions, in the order of their rows; of a program that was measured before only those that were called.
    pub functions: Vec<MeasuredFunction>,
    /// Functions without probe.
    pub refused: Vec<RefusedFunction>,
    /// Sites whose text could not be written: (object, reason).
    pub unwritten: Vec<(usize, String)>,
    /// Objects that could not be looked into.
    pub unreadable: Vec<UnreadableObject>,
    /// Ticks that all its threads together had.
    pub thread_ticks: f64,
    /// Probes that were switched on or off.
    pub toggles: u64,
    /// Ticks that this process spent on switching.
    pub toggling_ticks: u64,
    /// Number, longest, sum of the stops.
    pub stops: (u64, u64, u64),
    /// Time for which threads waited in the loader for probes in what it had loaded, stops left out, ns.
    pub loading_ns: u64,
    /// Timed calls left by unwinding.
    pub abandoned: u64,
    /// Calls not timed for want of a frame.
    pub untimed: u64,
    /// Calls that could not be read at both ends.
    pub unread: u64,
    /// What could not be done while it ran, in words.
    pub troubles: BTreeSet<String>,
    /// What of ours had to stay in it, and why, in words.
    pub left_behind: Vec<String>,
}

/// Taken at the start: an ended process can't be asked.
struct Identity {
    pid: i32,
    parent: i32,
    executable: String,
    command: Vec<String>,
}

/// A process under measurement.
pub struct Measured {
    pub(super) session: ProbeSession,
    pub(super) reading: Reading,
    steering: Steering,
    next_row: Rc<Cell<LatencyId>>,
    /// It and the children that share its text and arena.
    pub pids: BTreeSet<i32>,
    /// Its functions' rows among those of all processes.
    pub(super) rows: Vec<(LatencyId, SiteId)>,
    pub(super) windows: Vec<Windows>,
    pub(super) rotation: Rotation,
    pub(super) visits: Vec<Visit>,
    pub(super) next_turn: Instant,
    /// CPU time used since the last turn, ticks; and when that was.
    pub(super) since_turn: (f64, u64),
    /// Parked probes whose turn to be switched on came meanwhile.
    pub(super) owed: BTreeSet<SiteId>,
    /// Probes that got their jump back and wait to be switched on.
    pub(super) recalled: Vec<SiteId>,
    refused: Vec<RefusedFunction>,
    unwritten: Vec<(usize, String)>,
    troubles: BTreeSet<String>,
    /// As [`Finished::loading_ns`].
    loading_ns: u64,
    /// The same with the stops, ns.
    waited_ns: u64,
    /// How often objects were loaded, by path.
    loads: HashMap<PathBuf, u32>,
    /// Probes that were there before, and what they did.
    pub(super) before: BTreeMap<SiteId, SavedProbe>,
    /// Puts everything back if we are killed.
    guard: Option<Guard>,
    /// A sanitizer in it traces it when it ends.
    pub(super) finds_leaks: bool,
    identity: Identity,
    began: u64,
    since: Instant,
    pub(super) busy: BusyTime,
    /// CPU time of its processes when it was asked for last, ns.
    cpu_ns: BTreeMap<i32, f64>,
    /// That of those that have ended, ns.
    past_ns: f64,
    /// Processes of which that is the last.
    ending: BTreeSet<i32>,
    /// A process has ended, or runs another program, whose last CPU time was not heard.
    lost_time: bool,
    pub(super) toggles: u64,
    toggling_ticks: u64,
    _watcher: LoaderWatcher,
}

impl Measured {
    /// Puts probes on all wanted functions and switches them on; `rows` numbers the functions of all processes.
    ///
    /// # Errors
    /// If the process can't be probed. Its text is as it was, then, or it has ended.
    pub fn begin(
        (mut session, guard): (ProbeSession, Option<Guard>),
        wanted: &Wanted,
        sampling: LatencySampling,
        costs: Costs,
        reading: Reading,
        rows: Rc<Cell<LatencyId>>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Measured, AttachError> {
        let pid = session.target().pid();
        let before = session.saved();
        let objects = 0..session.objects.len();
        if reading.asks_kernel() {
            session.target().check_own_calls("clock_gettime, getrusage or gettid")?;
        }
        session.check_clock()?;
        // Before the first handler reads the clock.
        session.install_timing_services(objects.clone())?;
        let watcher = LoaderWatcher::start(session.arena(), wake).map_err(|source| AttachError::System {
            pid,
            what: "watch the loader",
            source,
        })?;
        let mut measured = Measured {
            reading,
            next_row: rows,
            steering: Steering::new(sampling, costs),
            pids: BTreeSet::from([pid]),
            rows: Vec::new(),
            windows: Vec::new(),
            rotation: Rotation::default(),
            visits: Vec::new(),
            next_turn: Instant::now(),
            since_turn: (0.0, ticks()),
            owed: BTreeSet::new(),
            recalled: Vec::new(),
            refused: Vec::new(),
            unwritten: Vec::new(),
            troubles: BTreeSet::new(),
            loading_ns: 0,
            waited_ns: 0,
            loads: HashMap::new(),
            before,
            guard,
            finds_leaks: session.target().finds_leaks(),
            identity: Identity {
                pid,
                parent: parent_of(pid),
                executable: command_line::executable(pid),
                command: command_line::words(pid),
            },
            began: ticks(),
            since: Instant::now(),
            busy: BusyTime::default(),
            cpu_ns: BTreeMap::new(),
            past_ns: 0.0,
            ending: BTreeSet::new(),
            lost_time: false,
            toggles: 0,
            toggling_ticks: 0,
            session,
            _watcher: watcher,
        };
        measured.add_probes(objects, wanted)?;
        measured.start();
        Ok(measured)
    }

    /// From now on its time counts: who was armed before may not have been able to run.
    fn start(&mut self) {
        let now = ticks();
        let used = self.busy_ns();
        self.busy.start(now, used);
        self.begin_turns();
        let grant = self.steering.first_grant();
        for &(_, id) in &self.rows {
            self.session.rearm(id, now);
            self.windows[id as usize].arm(grant, &self.busy);
        }
    }

    fn add_probes(&mut self, objects: Range<usize>, wanted: &Wanted) -> Result<(), AttachError> {
        // Who is hot is known only once the first process runs.
        let purpose = wanted.hot.is_none().then_some(Purpose::Measured);
        let prepared =
            self.session.prepare_for(purpose, objects, &|object, function| wanted.wants(object, function))?;
        let can_time = |id: &SiteId| self.session.sites[*id as usize].can_time && !self.session.is_service(*id);
        let fresh: Vec<SiteId> = prepared.sites.into_iter().filter(can_time).collect();
        for &id in &fresh {
            self.session.set_handler(id, self.reading.enter);
            self.session.set_exit_handler(id, self.reading.exit);
        }
        self.session.install(&fresh)?;
        let now = ticks();
        let grant = self.steering.first_grant();
        self.windows.resize(self.session.sites.len(), Windows::default());
        for &id in &fresh {
            if self.session.sites[id as usize].state == SiteState::Installed {
                self.session.arm(id, grant, now);
                self.windows[id as usize].arm(grant, &self.busy);
                self.toggles += 1;
                self.rows.push((self.next_row.replace(self.next_row.get() + 1), id));
            }
        }
        let unwritten = fresh.iter().filter_map(|&id| match self.session.sites[id as usize].state {
            SiteState::Refused(reason) => Some((self.session.sites[id as usize].object, words(reason).to_owned())),
            _ => None,
        });
        self.unwritten.extend(unwritten);
        for (object, count) in prepared.without_room {
            self.unwritten.extend((0..count).map(|_| (object, "there was no room for more probes".to_owned())));
        }
        self.refused.extend(prepared.refused);
        Ok(())
    }

    /// CPU time of its processes so far, ns.
    fn busy_ns(&mut self) -> f64 {
        for &pid in &self.pids {
            let used = self.cpu_ns.entry(pid).or_default();
            // Of one that has ended nothing is said any more.
            *used = used.max(super::cpu_time::of_process(pid));
        }
        self.past_ns + self.cpu_ns.values().sum::<f64>()
    }

    /// A process of it has run its last instruction.
    pub fn ending(&mut self, pid: i32) {
        if self.pids.contains(&pid) {
            self.cpu_ns.insert(pid, super::cpu_time::of_process(pid));
            self.ending.insert(pid);
        }
    }

    /// For how long its threads were stopped so far, ns.
    pub fn stop_ns(&self) -> u64 {
        self.session.stop_times().total_ns
    }

    /// A process has ended or has become another program; true if it was the last that uses the probes.
    pub fn leave(&mut self, pid: i32) -> bool {
        if self.pids.remove(&pid) {
            self.past_ns += self.cpu_ns.remove(&pid).unwrap_or(0.0);
            self.lost_time |= !self.ending.remove(&pid);
        }
        self.pids.is_empty()
    }

    /// Whether its process, which goes on, runs another program: its probes are gone.
    pub fn is_replaced(&self) -> bool {
        self.session.target().memory().is_gone() && self.is_alive()
    }

    /// One epoch: probes that used up their samples are switched on again as far as the budget goes.
    pub fn epoch(&mut self, ticks_per_ns: f64) {
        let began = ticks();
        let busy_ns = self.busy_ns();
        let threads = self.pids.iter().map(|&pid| super::cpu_time::threads_of(pid)).sum();
        let runs = (threads <= FEW_THREADS)
            .then(|| self.pids.iter().map(|&pid| super::cpu_time::runs_of(pid)).sum())
            .flatten();
        let least = IDLE_PART * self.busy.since(began);
        let busy_ticks = self.busy.advance(began, busy_ns, ticks_per_ns, threads, runs);
        self.since_turn.0 += busy_ticks;
        let mut off = self.close_windows();
        self.end_counting();
        let (session, windows, mut armed) = (&self.session, &mut self.windows, 0);
        let (rotation, parked) = (&self.rotation, &mut self.owed);
        off.append(&mut self.recalled);
        let span = SPAN_NS * ticks_per_ns;
        let most: Vec<(SiteId, u32)> =
            off.iter().map(|&id| (id, windows[id as usize].wanted(span, MOST, MOST_OF_BURSTS))).collect();
        self.steering.epoch(most, busy_ticks.max(least), |id, samples| {
            if rotation.is_parked(id) {
                parked.insert(id);
                return;
            }
            session.arm(id, samples, ticks());
            windows[id as usize].arm(samples, &self.busy);
            armed += 1;
        });
        self.toggles += armed;
        self.toggling_ticks += ticks() - began;
    }

    /// Takes account of the probes that have used up their samples, and gives them.
    fn close_windows(&mut self) -> Vec<SiteId> {
        let mut off = Vec::new();
        self.session.take_disarmed(|id| off.push(id));
        self.toggles += off.len() as u64;
        let call = self.reading.call;
        let (session, windows, busy) = (&self.session, &mut self.windows, &self.busy);
        let closed: Vec<(OnTime, Timed)> =
            off.iter().map(|&id| (OnTime::of(session.arena().site(id as usize)), later(&session.counts(id)))).collect();
        let span = |(&id, &(on, timed)): (&SiteId, &(OnTime, Timed))| windows[id as usize].span(on, timed, &call, busy);
        let spans: Vec<Span> = off.iter().zip(&closed).map(span).collect();
        let disturbance = Disturbance::of(&spans);
        for ((&id, (on, timed)), span) in off.iter().zip(closed).zip(&spans) {
            windows[id as usize].close(on, timed, &call, disturbance.within(span), busy);
        }
        off
    }

    /// Accounts for the time since the last epoch, at the end of the measurement.
    fn end(&mut self, ticks_per_ns: f64) -> u64 {
        let end = ticks();
        let is_known = !self.lost_time && (self.pids.is_empty() || self.is_alive());
        if is_known {
            let used = self.busy_ns();
            self.busy.advance(end, used, ticks_per_ns, self.busy.threads(), None);
        } else {
            self.busy.end(end);
        }
        if is_known && self.pids.is_empty() {
            self.busy.ended();
        }
        self.close_windows();
        self.end_counting();
        self.visits.clear();
        end
    }

    /// Deals with objects that were loaded or unloaded.
    pub fn follow_loader(&mut self, wanted: &Wanted) {
        if !self.session.has_loader_event() {
            return;
        }
        let (begin, stopped) = (Instant::now(), self.session.stop_times().total_ns);
        let event = self.session.loader_event();
        let result = self.session.look_at_objects().and_then(|fresh| {
            self.session.install_timing_services(fresh.clone())?;
            self.add_probes(fresh.clone(), wanted)?;
            fresh.into_iter().try_for_each(|object| self.leave_alone_if_frequent(object))
        });
        self.session.loader_done(event);
        let stopped = self.session.stop_times().total_ns - stopped;
        let waited = begin.elapsed().as_nanos() as u64;
        self.waited_ns += waited;
        self.loading_ns += waited.saturating_sub(stopped);
        self.note("functions that were loaded later have no probes", result);
    }

    /// What is loaded again and again has no probes any more once the program waits for them for much of its time.
    fn leave_alone_if_frequent(&mut self, object: usize) -> Result<(), AttachError> {
        let path = self.session.objects[object].path.clone();
        let loads = self.loads.entry(path.clone()).or_default();
        *loads += 1;
        let elapsed_ns = self.since.elapsed().as_nanos() as u64;
        if *loads > LOADS && self.waited_ns > elapsed_ns / WAITING_PART && self.session.leave_alone(object)? {
            let (path, loads) = (path.display(), *loads);
            self.troubles.insert(format!(
                "functions of {path} have no probes from its load {loads} on: it is loaded again and again, and the program waited for them each time"
            ));
        }
        Ok(())
    }

    /// Notes what could not be done; of who has ended, or runs another program, nothing more is wanted.
    fn note(&mut self, what: &str, result: Result<(), AttachError>) {
        if let Some(error) = result.err().filter(|error| !error.is_gone()) {
            self.troubles.insert(format!("{what}: {error}"));
        }
    }

    /// Counts of a probe. Most are never called in a short run: to look at all their counters would make pages of memory for
    /// each.
    fn counts(&self, id: SiteId) -> SiteCounts {
        let left = self.session.arena().site(id as usize).remaining.load(Relaxed);
        let is_untouched = left == self.steering.first_grant().cast_signed() && !self.windows[id as usize].has_closed();
        if is_untouched { SiteCounts::default() } else { self.session.counts(id) }
    }

    /// Reads all histograms for the picture of latency over time.
    pub fn cut(&self, slices: &mut TimeSlices, now_ns: i64) {
        let mut cut = slices.cut(now_ns);
        for &(row, id) in &self.rows {
            let samples = self.counts(id).samples;
            let histogram = self.session.arena().histogram(id as usize);
            cut.function(row, samples, || histogram.iter().map(|count| count.load(Relaxed)).collect::<Vec<_>>());
        }
    }

    /// Whether any of its processes is alive.
    pub fn is_alive(&self) -> bool {
        self.session.target().is_alive()
    }

    /// Ends the measurement. With `restore` the process gets its original bytes back first. `known`: programs of which all
    /// functions were told before.
    pub fn finish(mut self, restore: bool, known: &HashSet<String>, ticks_per_ns: f64) -> Finished {
        let end = self.end(ticks_per_ns);
        let mut left_behind = Vec::new();
        if restore && self.is_alive() {
            let pid = self.identity.pid;
            // Others' probes do what they did before.
            self.before.iter().for_each(|(&id, &before)| self.session.put_back(id, before));
            match self.session.leave_but(&self.before.keys().copied().collect()) {
                Ok(kept) => left_behind
                    .extend(kept.filter(|why| *why != MemoryKept::Probes).map(|why| format!("process {pid}: {why}"))),
                Err(error) if error.is_gone() => {}
                Err(error) => left_behind.push(format!("probes are left in process {pid}: {error}")),
            }
        }
        if let Some(guard) = self.guard.take() {
            // Who could not take them out leaves that to the guard.
            if left_behind.is_empty() { guard.dismiss() } else { drop(guard) }
        }
        Finished { left_behind, ..self.told(end, known, true) }
    }

    /// What its probes have counted by `end`. `lines`: with source lines.
    pub fn told(&self, end: u64, known: &HashSet<String>, lines: bool) -> Finished {
        let session = &self.session;
        let functions = self.rows.iter().map(|&(row, id)| {
            let (site, counts) = (&session.sites[id as usize], self.counts(id));
            let record = session.arena().site(id as usize);
            MeasuredFunction {
                row,
                object: site.object,
                name: site.function.name.clone(),
                symbol: site.function.symbol.clone(),
                vaddr: site.function.vaddr,
                source: if counts.calls == 0 || !lines {
                    Default::default()
                } else {
                    session.source_line(site.object, site.function.vaddr)
                },
                calls: counts.calls - self.still_counted(id, counts.calls),
                counted: self.windows[id as usize].calls_counted(),
                samples: counts.samples,
                ticks: counts.ticks,
                max_ticks: record.max_ticks.load(Relaxed),
                unseen: self.windows[id as usize].unseen(first(&counts), &self.reading.call, &self.busy),
                histogram: match counts.samples {
                    0 => Vec::new(),
                    _ => session.arena().histogram(id as usize).iter().map(|count| count.load(Relaxed)).collect(),
                },
            }
        });
        let mut functions: Vec<MeasuredFunction> = functions.collect();
        let probes = functions.len();
        if known.contains(&self.identity.executable) {
            functions.retain(|function| function.calls > 0);
        }
        let objects = session
            .objects
            .iter()
            .map(|object| (object.path.to_string_lossy().into_owned(), object.object.build_id().unwrap_or_default()));
        let times = session.stop_times();
        let header = session.arena().header();
        Finished {
            pid: self.identity.pid,
            parent: self.identity.parent,
            executable: self.identity.executable.clone(),
            command: self.identity.command.clone(),
            span: (self.began, end),
            objects: objects.collect(),
            probes,
            functions,
            refused: self.refused.clone(),
            unwritten: self.unwritten.clone(),
            unreadable: session.unreadable.clone(),
            thread_ticks: self.busy.thread_ticks(end),
            toggles: self.toggles,
            toggling_ticks: self.toggling_ticks,
            stops: (times.count, times.longest_ns, times.total_ns),
            loading_ns: self.loading_ns,
            abandoned: header.abandoned.load(Relaxed),
            untimed: header.untimed.load(Relaxed),
            unread: header.unread.load(Relaxed),
            troubles: self.troubles.clone(),
            left_behind: Vec::new(),
        }
    }
}

/// Calls timed that began in the probe's first window.
fn first(counts: &SiteCounts) -> Timed {
    Timed { samples: counts.first_samples, ticks: counts.first_ticks }
}

/// The others.
fn later(counts: &SiteCounts) -> Timed {
    let (samples, ticks) = (counts.samples - counts.first_samples.min(counts.samples), counts.ticks);
    Timed { samples, ticks: ticks.saturating_sub(counts.first_ticks) }
}

/// Why a jump was not written.
fn words(reason: Unwritten) -> &'static str {
    match reason {
        Unwritten::Foreign => "other bytes than the file's stand there",
        Unwritten::NotWritable => "its memory can't be written",
        Unwritten::ThreadInside => "a thread stood where the jump goes",
    }
}

fn parent_of(pid: i32) -> i32 {
    let status = transect_attach::read_text(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0)
}
