//! From attaching to the profile.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use transect_attach::AttachError;
use transect_binary_info::PlanCache;
use transect_profile_model::{Clock as ClockFacts, Loss, LossKind, Meta, Overhead, Profile, Timing};

use super::counted::Counted;
use super::leaving::Kept;
use super::places::own_number;
use super::threads;
use crate::api_data::ApiData;
use crate::assemble::Scale;
use crate::attached_collector::{AttachedCollector, AttachedOutcome, FLOW};
use crate::clock::{self, Clock};
use crate::error::RecordError;
use crate::feature::commands;
use crate::flow_context;
use crate::harvest::{Harvest, Rows};
use crate::lead::Lead;
use crate::machine;
use crate::own_folder::OwnFolder;
use crate::session::{counting_ns, left_out};
use crate::signals::Signals;

/// How often it is looked for what has come and gone.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether the recording is to end.
const NAP: Duration = Duration::from_millis(10);
/// Less than that before the first counted call is not worth a word.
const LEAST_UNCOUNTED_MS: i64 = 20;

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFlowSettings {
    /// The processes.
    pub pids: Vec<i32>,
    /// End after this time at the latest.
    pub duration: Option<Duration>,
    /// Hand out a snapshot this often.
    pub interval: Option<Duration>,
    /// Files that extend the wait-API data.
    pub wait_apis: Vec<PathBuf>,
}

/// What came of it.
#[derive(Debug)]
pub struct AttachedFlowOutcome {
    /// The profile.
    pub profile: Profile,
    /// What of ours had to stay in the processes, and why, in words.
    pub left_behind: Vec<String>,
}

/// Counts the calls of running processes until they end, the time is over, or a signal says so.
///
/// # Errors
/// If none can be attached to, or their calls can't be counted: they are as they were then.
pub fn record(
    settings: &AttachedFlowSettings,
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<AttachedFlowOutcome, RecordError> {
    let lead = Lead::alone(Signals::watch_running()?, settings.duration, settings.interval, snapshot);
    let AttachedOutcome { profile, left_behind } = count(settings, &lead)?;
    Ok(AttachedFlowOutcome { profile, left_behind })
}

/// Counts beside another collector, by the clock of that.
///
/// # Errors
/// If no thread can be had.
pub(crate) fn start(settings: AttachedFlowSettings, clock: Clock) -> Result<AttachedCollector, RecordError> {
    AttachedCollector::start(FLOW, move |orders| count(&settings, &Lead::beside(orders, clock)))
}

fn count(settings: &AttachedFlowSettings, lead: &Lead<'_>) -> Result<AttachedOutcome, RecordError> {
    let apis = ApiData::load(&settings.wait_apis)?;
    // A user without a home that can be written has plans for this recording only. Nobody else has a folder: it would be left
    // behind by a recorder that is killed.
    let mut own = None;
    let plans = match PlanCache::open_default() {
        Ok(plans) => plans,
        Err(_) => {
            let folder = own.insert(OwnFolder::create().map_err(RecordError::TemporaryFolder)?);
            PlanCache::new(folder.path().join("linkage"))?
        }
    };
    let mut session = Session {
        commands: commands(&settings.pids),
        apis: &apis,
        clock: lead.clock,
        assembly: Harvest::new(None),
        loss: Vec::new(),
        left_behind: Vec::new(),
    };
    let (mut processes, mut first_error) = (Vec::new(), None);
    for &pid in &settings.pids {
        match Counted::begin(pid, &apis, &plans, &lead.clock) {
            Ok(counted) => processes.push(OneProcess::new(pid, counted)),
            Err(error) => {
                session.loss.push(left_out(&format!("flow of process {pid}"), &error));
                first_error.get_or_insert(error);
            }
        }
    }
    if let (true, Some(error)) = (processes.is_empty(), first_error) {
        return Err(error);
    }
    if lead.is_beside() {
        session.loss.extend(uncounted(lead.clock.elapsed_ns()));
    } else {
        // What it took to get there is not the recording that was asked for.
        session.clock = Clock::start();
    }
    lead.begin();
    while !lead.ends() && processes.iter().any(|process| process.rows.is_none()) {
        processes.iter_mut().for_each(|process| process.look(&mut session));
        lead.so_far(|| Ok(session.profile(&processes)))?;
        std::thread::sleep(NAP);
    }
    processes.iter_mut().for_each(|process| process.leave(&mut session));
    let mut profile = session.profile(&processes);
    profile.loss.extend(session.loss);
    Ok(AttachedOutcome { profile, left_behind: session.left_behind })
}

/// One of the processes.
struct OneProcess<'a> {
    pid: i32,
    /// The number by which it knows itself.
    own: i32,
    counted: Counted<'a>,
    harvest: Harvest<'a>,
    /// When it is looked for threads, and for objects.
    next: (Instant, Instant),
    /// What was counted, once it was left.
    rows: Option<Rows>,
    /// It was left because it had ended.
    has_ended: bool,
}

impl<'a> OneProcess<'a> {
    fn new(pid: i32, counted: Counted<'a>) -> Self {
        let next = (Instant::now(), Instant::now());
        let own = own_number(pid, pid).map_or(pid, u32::cast_signed);
        Self { pid, own, counted, harvest: Harvest::new(None), next, rows: None, has_ended: false }
    }

    /// Looks for what has come and gone; one that has ended, or can't be followed any more, is left.
    fn look(&mut self, session: &mut Session<'_>) {
        if self.rows.is_some() {
            return;
        }
        if !self.counted.is_alive() {
            self.leave(session);
            return;
        }
        let (now, mut looked) = (Instant::now(), Ok(()));
        if now >= self.next.0 {
            self.next.0 = now + LOOK_EVERY;
            looked = self.counted.look_at_threads();
            self.harvest.collect(&self.counted.arena, None);
        }
        if now >= self.next.1 && looked.is_ok() {
            let begin = Instant::now();
            looked = self.counted.look_at_objects();
            // Many mappings take their time.
            self.next.1 = now + (begin.elapsed() * 20).clamp(LOOK_EVERY, LOOK_EVERY * 10);
        }
        match looked {
            // One that can't be held at the moment can be another time.
            Ok(()) | Err(RecordError::Attach(AttachError::Unstoppable { .. } | AttachError::Traced { .. })) => {}
            Err(error) => {
                if !matches!(&error, RecordError::Attach(error) if error.is_gone()) {
                    let why = format!("process {}: its calls were not counted to the end: {error}", self.pid);
                    session.left_behind.push(why);
                }
                self.leave(session);
            }
        }
    }

    /// What was counted in it by now.
    fn rows(&self) -> Rows {
        let Some(rows) = &self.rows else { return self.harvest.rows(&self.counted.arena) };
        let mut rows = rows.clone();
        if !self.has_ended {
            to_the_end(&mut rows, clock::ticks());
        }
        rows
    }

    /// Leaves it, and notes what it has counted.
    fn leave(&mut self, session: &mut Session<'_>) {
        if self.rows.is_some() {
            return;
        }
        // Once more: for what came in the last moment.
        let _ = self.counted.look_at_threads().and_then(|()| self.counted.look_at_objects());
        self.has_ended = !self.counted.is_alive();
        match self.counted.leave() {
            Ok(left) => {
                session.loss.extend(self.counted.losses(&left));
                let why = left.kept.map(|kept| match kept {
                    Kept::Inside => "a thread stands in a stub; the memory remains mapped until that has gone on",
                    Kept::Changed => {
                        "the program has changed slots meanwhile, and may have kept stubs; the memory remains mapped"
                    }
                });
                session.left_behind.extend(why.map(|why| format!("process {}: {why}", self.pid)));
            }
            Err(error) => session.left_behind.push(format!("{error}; it is left as soon as that is possible")),
        }
        self.rows = Some(self.harvest.rows(&self.counted.arena));
    }
}

/// Others recorded for so long before calls were counted.
fn uncounted(ns: i64) -> Option<Loss> {
    let ms = ns / 1_000_000;
    (ms >= LEAST_UNCOUNTED_MS).then(|| Loss {
        what: LossKind::UncountedTime,
        place: "at the beginning".to_owned(),
        count: ms,
        reason: "the program's slots were being led to the agent, while other collectors recorded already".to_owned(),
    })
}

/// A process that was left and lives is known to the end of the recording: only one that ended ends before that.
fn to_the_end(rows: &mut Rows, now: u64) {
    rows.iter_mut().for_each(|(_, _, end)| *end = now);
}

/// What all processes have in common.
struct Session<'a> {
    /// What ran, as it was at the beginning: of a process that has ended nobody knows any more.
    commands: Vec<String>,
    apis: &'a ApiData,
    clock: Clock,
    /// Knows names.
    assembly: Harvest<'a>,
    loss: Vec<Loss>,
    left_behind: Vec<String>,
}

impl Session<'_> {
    /// What was counted by now.
    fn profile(&mut self, processes: &[OneProcess<'_>]) -> Profile {
        let (wall_ns, rate) = (self.clock.elapsed_ns(), self.clock.rate());
        let clock =
            ClockFacts { source: "tsc".into(), ticks_per_ns: rate, timed_call_ns: 0.0, counted_call_ns: COUNTED_NS };
        let start = Profile::new(Meta {
            command: self.commands.clone(),
            collectors: vec!["flow".into()],
            timing: Timing::Count,
            wall_ns,
            started_unix_ns: self.clock.started_unix_ns,
            ..Meta::new(machine::here(), clock)
        });
        let rows = processes.iter().flat_map(OneProcess::rows);
        let scale = Scale { epoch: self.clock.epoch(), rate };
        let mut profile = self.assembly.assemble(rows.collect(), &start, scale, self.apis, None);
        let owns: HashMap<i32, i32> = processes.iter().map(|process| (process.pid, process.own)).collect();
        threads::name(&mut profile, &owns);
        for thread in &mut profile.threads {
            // From before the recording's time began.
            thread.wall_ns = thread.wall_ns.min(wall_ns - thread.start_ns).max(0);
            thread.busy_ns = thread.busy_ns.min(thread.wall_ns);
        }
        flow_context::forget(&mut profile);
        let spent = counting_ns(&profile.flows) * (COUNTED_NS / crate::session::COUNTED_NS);
        let time = wall_ns.max(1) as f64 * profile.threads.len().max(1) as f64;
        profile.meta.overhead_estimate = (spent / time).min(1.0);
        profile.meta.overhead = Some(Overhead { agent_ns: spent as i64, ..Overhead::default() });
        profile
    }
}

/// What counting a call costs here where nothing hides it, ns: the stub looks the thread's counters up.
const COUNTED_NS: f64 = 2.0;
