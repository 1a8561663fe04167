//! From attaching to the profile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transect_attach::AttachError;
use transect_binary_info::PlanCache;
use transect_profile_model::{Clock as ClockFacts, Meta, Overhead, Profile, Timing};

use super::counted::Counted;
use super::leaving::Kept;
use crate::api_data::ApiData;
use crate::assemble::Scale;
use crate::clock::Clock;
use crate::error::RecordError;
use crate::flow_context;
use crate::harvest::Harvest;
use crate::machine;
use crate::own_folder::OwnFolder;
use crate::session::counting_ns;
use crate::signals::Signals;

/// How often it is looked for what has come and gone.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether the recording is to end.
const NAP: Duration = Duration::from_millis(10);

/// What to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedFlowSettings {
    /// The process.
    pub pid: i32,
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
    /// What of ours had to stay in the process, and why, in words.
    pub left_behind: Vec<String>,
}

/// Counts the calls of a running process until it ends, the time is over, or a signal says so.
///
/// # Errors
/// If it can't be attached to, or its calls can't be counted: it is as it was then.
pub fn record(
    settings: &AttachedFlowSettings,
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<AttachedFlowOutcome, RecordError> {
    let signals = Signals::watch_running()?;
    let begun = std::cell::Cell::new(None);
    let over = || {
        let until = begun.get().zip(settings.duration).map(|(begun, duration): (Instant, _)| begun + duration);
        signals.ends() || until.is_some_and(|until| Instant::now() >= until)
    };
    let begin = || begun.set(Some(Instant::now()));
    count(settings, Clock::start(), begin, &over, &|| signals.wants_snapshot(), snapshot)
}

/// Counts beside another collector, in a thread of its own (the kernel binds a tracer to its thread).
#[derive(Debug)]
pub struct AttachedFlows {
    over: Arc<AtomicBool>,
    begun: Receiver<()>,
    thread: JoinHandle<Result<AttachedFlowOutcome, RecordError>>,
}

impl AttachedFlows {
    /// Attaches to the process, by the clock of the recording.
    ///
    /// # Errors
    /// If no thread can be had.
    pub(crate) fn start(settings: AttachedFlowSettings, clock: Clock) -> Result<Self, RecordError> {
        let over = Arc::<AtomicBool>::default();
        let (flag, (tell, begun)) = (over.clone(), channel());
        let life = move || {
            let begin = move || _ = tell.send(());
            count(&settings, clock, begin, &|| flag.load(Ordering::Acquire), &|| false, &mut |_| ())
        };
        let thread = std::thread::Builder::new().name("flows".to_owned()).spawn(life);
        let thread = thread.map_err(RecordError::system("start a thread for calls"))?;
        Ok(Self { over, begun, thread })
    }

    /// Waits until calls are counted, or can't be; true if it was `enough` before.
    pub(crate) fn wait_begun(&self, enough: impl Fn() -> bool) -> bool {
        while self.begun.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if enough() {
                return true;
            }
        }
        false
    }

    /// Leaves the process.
    ///
    /// # Errors
    /// As for [`record`].
    pub(crate) fn finish(self) -> Result<AttachedFlowOutcome, RecordError> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or(Err(RecordError::Ended))
    }
}

/// `begin` hears that it is counted from now on.
fn count(
    settings: &AttachedFlowSettings,
    clock: Clock,
    begin: impl FnOnce(),
    over: &dyn Fn() -> bool,
    wants_snapshot: &dyn Fn() -> bool,
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<AttachedFlowOutcome, RecordError> {
    let apis = ApiData::load(&settings.wait_apis)?;
    let own = OwnFolder::create().map_err(RecordError::TemporaryFolder)?;
    // A user without a home that can be written has plans for this recording only.
    let plans = PlanCache::open_default().or_else(|_| PlanCache::new(own.path().join("linkage")))?;
    let mut counted = Counted::begin(settings.pid, &apis, plans, &clock)?;
    begin();
    let mut harvest = Harvest::new(None);
    let (mut next, mut next_objects) = (Instant::now(), Instant::now());
    let mut next_snapshot = settings.interval.map(|interval| Instant::now() + interval);
    let mut trouble = None;
    while !over() && counted.is_alive() {
        let now = Instant::now();
        let mut looked = Ok(());
        if now >= next {
            next = now + LOOK_EVERY;
            looked = counted.look_at_threads();
            harvest.collect(&counted.arena, None);
        }
        if now >= next_objects && looked.is_ok() {
            let begin = Instant::now();
            looked = counted.look_at_objects();
            // Many mappings take their time.
            next_objects = now + (begin.elapsed() * 20).clamp(LOOK_EVERY, LOOK_EVERY * 10);
        }
        match looked {
            // One that can't be held at the moment can be another time.
            Ok(()) | Err(RecordError::Attach(AttachError::Unstoppable { .. } | AttachError::Traced { .. })) => {}
            Err(error) => {
                let gone = matches!(&error, RecordError::Attach(error) if error.is_gone());
                trouble = (!gone).then(|| error.to_string());
                // What goes on in it can't be followed: it is left.
                break;
            }
        }
        let due = next_snapshot.is_some_and(|at| now >= at);
        if due || wants_snapshot() {
            next_snapshot = settings.interval.map(|interval| now + interval);
            snapshot(&profile(&counted, &mut harvest, &apis, clock, settings.pid));
        }
        std::thread::sleep(NAP);
    }
    // Once more: for what came in the last moment.
    let _ = counted.look_at_threads().and_then(|()| counted.look_at_objects());
    let left = counted.leave();
    let mut profile = profile(&counted, &mut harvest, &apis, clock, settings.pid);
    let mut left_behind = Vec::new();
    match left {
        Ok(left) => {
            profile.loss.extend(counted.losses(&left));
            let why = left.kept.map(|kept| match kept {
                Kept::Inside => "a thread stands in a stub; the memory remains mapped until that has gone on",
                Kept::Changed => {
                    "the program has changed slots meanwhile, and may have kept stubs; the memory remains mapped"
                }
            });
            left_behind.extend(why.map(|why| format!("process {}: {why}", settings.pid)));
        }
        Err(error) => left_behind.push(format!("{error}; it is left as soon as that is possible")),
    }
    left_behind.extend(trouble.map(|why| format!("the recording has ended early: {why}")));
    Ok(AttachedFlowOutcome { profile, left_behind })
}

fn profile(counted: &Counted<'_>, harvest: &mut Harvest<'_>, apis: &ApiData, clock: Clock, pid: i32) -> Profile {
    let wall_ns = clock.elapsed_ns();
    let rate = clock.rate();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    let start = Profile::new(Meta {
        command: vec![if command.is_empty() { format!("process {pid}") } else { command }],
        collectors: vec!["flow".into()],
        timing: Timing::Count,
        wall_ns,
        started_unix_ns: clock.started_unix_ns,
        ..Meta::new(
            machine::here(),
            ClockFacts { source: "tsc".into(), ticks_per_ns: rate, timed_call_ns: 0.0, counted_call_ns: COUNTED_NS },
        )
    });
    let mut profile = harvest.profile(&counted.arena, &start, Scale { epoch: clock.epoch(), rate }, apis, None);
    flow_context::forget(&mut profile);
    let spent = counting_ns(&profile.flows) * (COUNTED_NS / crate::session::COUNTED_NS);
    profile.meta.overhead_estimate = (spent / (wall_ns.max(1) as f64 * profile.threads.len().max(1) as f64)).min(1.0);
    profile.meta.overhead = Some(Overhead { agent_ns: spent as i64, ..Overhead::default() });
    profile
}

/// What counting a call costs here where nothing hides it, ns: the stub looks the thread's counters up.
const COUNTED_NS: f64 = 2.0;
