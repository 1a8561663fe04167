//! One recording from launch to profile.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::Pid;
use rustix::thread::futex;
use transect_binary_info::{LaunchTarget, PlanCache, inspect_launch};
use transect_bpf_collect::privilege;
use transect_event_abi::arena::{
    EXTENT_PROCESS, OPTION_FOLLOW, OPTION_HISTOGRAM, OPTION_PUBLISHED, TIMING_ADAPTIVE, TIMING_COUNT, TIMING_EVERY,
    TIMING_FULL,
};
use transect_profile_model::{ApiClass, Clock as ClockFacts, Flow, Loss, LossKind, Meta, Overhead, Profile, Timing};

use crate::api_data::ApiData;
use crate::arena::{Arena, Settings};
use crate::assemble::Scale;
use crate::attached_collector::{Asker, Orders};
use crate::clock::{self, Clock};
use crate::displaced::own_ns;
use crate::error::RecordError;
use crate::extent::Head;
use crate::feature::FeatureSettings;
use crate::feature::probe_recording;
use crate::feature::with_flows::{FeatureRows, Observation, Trace};
use crate::harvest::Harvest;
use crate::latency::{ConcurrentLatency, merge};
use crate::launch::BeforeExecAnywhere;
use crate::plans::Plans;
use crate::process_cost::processes_ns;
use crate::process_start::{self, Launched};
use crate::published::{Counter, Pages, Relation};
use crate::queue_watch::QueueWatch;
use crate::sampled_flows::expected_queue;
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::static_components::StaticComponents;
use crate::user_samples::SamplesWithCalls;
use crate::{Options, OtherCollectors, Recorded, flow_context, launch, machine};

/// How often ended threads and processes are looked for.
const COLLECT_EVERY: Duration = Duration::from_millis(50);
/// Longest sleep between two looks. The agent's requests, the program's end and signals end it; each timer that fires takes the
/// program's CPU for a moment.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The same while nothing happens.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// A process that the program made just before it ended makes itself known within this time.
const BEGINNING: Duration = Duration::from_millis(300);

fn timing(options: &Options) -> (u32, u32, u32) {
    match options.timing {
        Timing::Count => (TIMING_COUNT, 0, 0),
        Timing::Full => (TIMING_FULL, 0, 0),
        Timing::Every { period } => (TIMING_EVERY, period.max(1), 0),
        Timing::Adaptive { budget } => (TIMING_ADAPTIVE, 0, (budget * 1e6).clamp(100.0, 1e6) as u32),
    }
}

/// See [`crate::record`]. `clock` starts the recording.
pub fn run(
    options: &Options,
    beside: OtherCollectors<'_>,
    clock: Clock,
    snapshot: &mut dyn FnMut(&Profile),
) -> Result<Recorded, RecordError> {
    let program = options.command.first().ok_or(RecordError::NoCommand)?;
    // Before anything is made that an end by a signal would leave behind.
    let signals = Signals::watch()?;
    let target: LaunchTarget = inspect_launch(program)?;
    let observation = beside.features.map(|settings| Observation::prepare(settings, &options.command, &clock));
    let observation = observation.transpose()?;
    if matches!(observation, Some(Observation::Probe(_))) && options.latency.is_some() {
        return Err(RecordError::ProbesBesideLatency);
    }
    let agent = launch::find_agent(options.agent.as_deref())?;
    let apis = ApiData::load(&options.wait_apis)?;
    let statics = options.static_components.as_deref().map(StaticComponents::load).transpose()?;
    if let Some(statics) = &statics {
        statics.prepare(&target.object)?;
    }
    let dir = launch::SessionDir::create(&agent)?;
    // A user without a home that can be written has plans for this recording only.
    let cache = match &options.plan_cache {
        Some(folder) => PlanCache::new(folder),
        None => PlanCache::open_default().or_else(|_| PlanCache::new(dir.plans())),
    }?;
    let (mode, every, budget_ppm) = timing(options);
    let pages = beside.published.map(Pages::map).transpose()?;
    let set = |on: bool, bit: u32| if on { bit } else { 0 };
    let rate = clock.rate();
    let arena = Arena::create(&Settings {
        options: set(options.histogram, OPTION_HISTOGRAM)
            | set(options.follow, OPTION_FOLLOW)
            | set(pages.is_some(), OPTION_PUBLISHED),
        timing: mode,
        every,
        budget_ppm,
        ticks_per_us: (rate * 1000.0) as u32,
        epoch_ticks: clock.epoch(),
        plan_dir: cache.folder().as_os_str().as_bytes(),
        static_dir: statics.as_ref().map_or(&[], |s| s.folder().as_os_str().as_bytes()),
        agent_path: dir.agent().as_os_str().as_bytes(),
        trace: options.trace.join("\n").as_bytes(),
        apis: &apis.table(),
    })?;
    dir.link_arena(arena.descriptor())?;
    let relation = pages.as_ref().map(|_| Relation::start(&arena.header().clock, rate));
    let counter = pages.as_ref().map(|_| Counter::open(&dir.socket())).transpose()?;
    let tell_end = beside.ended;
    let mut nothing = |_: i32| Ok(());
    let tell_start = beside.before_exec.unwrap_or(&mut nothing);
    let mut variables = launch::agent_environment(&target.object, &dir.agent());
    let (probed, mut trace) = match observation {
        Some(Observation::Probe(settings)) => (Some(settings), None),
        Some(Observation::Trace(trace)) => (None, Some(trace)),
        None => (None, None),
    };
    if let Some(trace) = &trace {
        variables.push(trace.variable());
    }
    let mut samples = beside.user_samples.as_deref().map(|folder| SamplesWithCalls::of(folder, &clock));
    let (asker, orders) = Asker::with_orders();
    let probes = probed.is_some();
    let program = match probed {
        Some(settings) => {
            Program::Probed { settings, options, clock: &clock, orders, variables, before_exec: tell_start }
        }
        None => Program::Started(Launched::start(&options.command, &variables, &mut |pid| {
            tell_start(pid)?;
            samples.iter_mut().for_each(|samples| samples.start(pid));
            trace.as_mut().map_or(Ok(()), |trace| trace.started(pid))?;
            // Beside the scheduler's collector that one gives privileges up.
            if pages.is_none() { Ok(privilege::drop_granted()?) } else { Ok(()) }
        })?),
    };
    samples.iter().for_each(SamplesWithCalls::begin);
    let _blocked = program.block_child_signal();
    let latency = options.latency.clone().map(|settings| ConcurrentLatency::start(settings, clock)).transpose()?;

    let statics = statics.as_ref();
    let mut session = Session {
        options,
        arena: &arena,
        clock: &clock,
        apis: &apis,
        statics,
        harvest: Harvest::new(pages.as_ref()),
        latency,
        features: FeatureSource { trace, probes: probes.then_some(asker) },
        relation,
        ended: None,
        queues: (pages.is_none() && samples.is_none()).then(QueueWatch::new),
    };
    let plans = Plans::new(cache, statics);
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        if let (Some(counter), Some(pages)) = (&counter, &pages) {
            // Without it regions that are called in flows are not told apart.
            drop(std::thread::Builder::new().spawn_scoped(scope, || counter.serve(pages)));
        }
        let (tell, told) = channel();
        let waiter = scope.spawn(|| {
            let ended = program.wait(tell);
            over.store(true, Ordering::Release);
            arena.header().attention.fetch_add(1, Ordering::AcqRel);
            let _ = futex::wake(&arena.header().attention, futex::Flags::empty(), 1);
            ended
        });
        // A program that could not be started sends nothing.
        let pid = told.recv().ok();
        if let Some(pid) = pid {
            session.serve(&plans, &signals, pid, || over.load(Ordering::Acquire), snapshot);
        }
        let ended = waiter.join().unwrap_or(Err(RecordError::Ended));
        session.harvest.collect(&arena, pid.zip(ended.as_ref().ok().map(|ended| ended.end)));
        let settled = Instant::now() + BEGINNING;
        let is_over = |session: &Session<'_>| session.harvest.is_all_over(&arena) && Instant::now() >= settled;
        while options.wait_all && ended.is_ok() && !is_over(&session) && !signals.ends() {
            session.round(&plans, &signals, None, SHORTEST_PAUSE, snapshot);
            session.harvest.collect(&arena, None);
        }
        if let Some(counter) = &counter {
            counter.close();
        }
        if let (Some(trace), Some(pid), Ok(ended)) = (&session.features.trace, pid, &ended) {
            trace.ended(pid.cast_signed(), ended.end);
        }
        ended
    })?;
    if let Some(tell) = tell_end {
        tell();
    }
    arena.header().recorder_gone.store(1, Ordering::Release);
    let exit_status = launch::shell_status(ended.status);
    let features = match session.features.trace.take() {
        Some(trace) => Some(trace.finish(exit_status)),
        None => ended.features,
    };
    // With it: what has been done since then is ours.
    session.ended = Some(ended.end).filter(|_| !options.wait_all);
    let mut profile = session.profile(Some(exit_status));
    // What goes wrong with one collector takes nothing from the others.
    match features {
        Some(Ok(features)) => features.merge_into(&mut profile, session.harvest.contexts()),
        Some(Err(why)) => {
            flow_context::forget(&mut profile);
            profile.loss.push(left_out("feature", &why));
        }
        None => flow_context::forget(&mut profile),
    }
    match session.latency.take().map(ConcurrentLatency::finish) {
        Some(Ok(latencies)) => merge(&mut profile, latencies),
        Some(Err(why)) => profile.loss.push(left_out("latency", &why)),
        None => {}
    }
    let timeline = samples.and_then(|samples| samples.finish(&mut profile));
    Ok(Recorded { profile, exit_status, timeline })
}

/// Who runs the program.
enum Program<'a> {
    /// It runs.
    Started(Launched),
    /// It is launched by the thread that switches its sites on.
    Probed {
        settings: &'a FeatureSettings,
        options: &'a Options,
        clock: &'a Clock,
        /// What it is told.
        orders: Orders,
        variables: Vec<(OsString, OsString)>,
        before_exec: BeforeExecAnywhere<'a>,
    },
}

/// How it ended.
struct Ended {
    status: ExitStatus,
    /// Ticks.
    end: u64,
    /// What was recorded by the thread that ran it.
    features: Option<Result<FeatureRows, RecordError>>,
}

impl Program<'_> {
    /// Whoever switches sites on waits for SIGCHLD: no other thread of ours may take it. Until the result is dropped.
    fn block_child_signal(&self) -> Option<ChildSignalBlock> {
        matches!(self, Program::Probed { .. }).then(ChildSignalBlock::new)
    }

    /// Waits for its end; `tell` hears its process id first.
    fn wait(self, tell: Sender<u32>) -> Result<Ended, RecordError> {
        match self {
            Program::Started(child) => {
                let _ = tell.send(child.id());
                // Waiting for a child would take the stops of one that is traced; its pidfd tells of its end alone.
                wait_for_end(child.id());
                let status = child.wait().map_err(RecordError::system("wait for the program"))?;
                Ok(Ended { status, end: clock::ticks(), features: None })
            }
            Program::Probed { settings, options, clock, orders, variables, before_exec } => {
                let variables = process_start::environment(&variables);
                let started = |pid: i32| {
                    let _ = tell.send(pid.cast_unsigned());
                };
                let (command, follow) = (&options.command, options.follow);
                let (status, end, features) = probe_recording::launch_beside_flows(
                    settings,
                    (clock, &orders),
                    command,
                    variables,
                    follow,
                    before_exec,
                    started,
                )?;
                Ok(Ended { status, end, features: Some(features) })
            }
        }
    }
}

/// SIGCHLD is blocked in this thread, and in those that it starts.
struct ChildSignalBlock;

impl ChildSignalBlock {
    fn new() -> Self {
        let _ = SigSet::from(Signal::SIGCHLD).thread_block();
        Self
    }
}

impl Drop for ChildSignalBlock {
    fn drop(&mut self) {
        let _ = SigSet::from(Signal::SIGCHLD).thread_unblock();
    }
}

/// Waits until the process has ended, without reaping it.
fn wait_for_end(pid: u32) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let Some(pid) = Pid::from_raw(pid as i32) else { return };
    // Kernels before 5.3 have none; there the wait that follows does.
    if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) {
        let mut end = [PollFd::new(&descriptor, PollFlags::IN)];
        while poll(&mut end, None) == Err(rustix::io::Errno::INTR) {}
    }
}

/// Who knows the features so far.
struct FeatureSource<'a> {
    /// The program writes events.
    trace: Option<Box<Trace<'a>>>,
    /// The thread that launches it has its sites switched on.
    probes: Option<Asker>,
}

impl FeatureSource<'_> {
    fn so_far(&self) -> Option<Profile> {
        match (&self.trace, &self.probes) {
            (Some(trace), _) => trace.so_far(),
            (None, Some(asker)) => asker.so_far(|| ()),
            (None, None) => None,
        }
    }
}

struct Session<'a> {
    options: &'a Options,
    arena: &'a Arena,
    clock: &'a Clock,
    apis: &'a ApiData,
    statics: Option<&'a StaticComponents>,
    harvest: Harvest<'a>,
    latency: Option<ConcurrentLatency>,
    features: FeatureSource<'a>,
    relation: Option<Relation>,
    /// When the program had ended, ticks.
    ended: Option<u64>,
    /// Where neither the scheduler's events nor samples tell how long threads were without a CPU.
    queues: Option<QueueWatch>,
}

impl Session<'_> {
    /// Serves requests until the launched process has ended.
    fn serve(
        &mut self,
        plans: &Plans<'_>,
        signals: &Signals,
        pid: u32,
        is_over: impl Fn() -> bool,
        snapshot: &mut dyn FnMut(&Profile),
    ) {
        let mut next_collect = Instant::now() + COLLECT_EVERY;
        let mut snapshots = Snapshots::new(self.options.interval);
        let longest = match &self.queues {
            _ if self.options.interval.is_some() || self.latency.is_some() => SHORTEST_PAUSE,
            Some(_) => QueueWatch::EVERY,
            None => LONGEST_PAUSE,
        };
        let mut pause = SHORTEST_PAUSE;
        while !is_over() {
            let asked = self.round(plans, signals, Some(pid), pause, snapshot);
            pause = if asked { SHORTEST_PAUSE } else { (pause + pause / 4).min(longest) };
            self.queues.iter_mut().for_each(|queues| queues.round(self.arena));
            let now = Instant::now();
            if now >= next_collect {
                self.release_latency(pid);
                if self.harvest.collect(self.arena, None) {
                    pause = SHORTEST_PAUSE;
                }
                next_collect = now + COLLECT_EVERY;
            }
            if snapshots.is_time() {
                snapshot(&self.snapshot());
            }
        }
    }

    /// Names the launched process to the latency measurement once the agent in it has hooked what was loaded: both change
    /// the loader's event function, and the agent needs it as it was.
    fn release_latency(&mut self, pid: u32) {
        let Some(latency) = &mut self.latency else { return };
        let ready = self
            .arena
            .extents()
            .into_iter()
            .any(|(extent, kind)| kind == EXTENT_PROCESS && Head::read(self.arena, extent).pid == pid);
        if ready {
            latency.follow(pid as i32);
        }
    }

    /// Waits for attention, so long at most, then answers requests and signals; those for the program, while there is one. Gives
    /// whether anything was asked for.
    fn round(
        &mut self,
        plans: &Plans<'_>,
        signals: &Signals,
        pid: Option<u32>,
        pause: Duration,
        snapshot: &mut dyn FnMut(&Profile),
    ) -> bool {
        let attention = &self.arena.header().attention;
        let seen = attention.load(Ordering::Acquire);
        plans.answer(self.arena);
        if let Some(relation) = &mut self.relation {
            relation.refresh(&self.arena.header().clock);
        }
        let timeout = rustix::fs::Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        let _ = futex::wait(attention, futex::Flags::empty(), seen, Some(&timeout));
        plans.answer(self.arena);
        if let Some(pid) = pid.and_then(|p| Pid::from_raw(p as i32)) {
            for signal in signals.to_forward() {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        if signals.wants_snapshot() {
            snapshot(&self.snapshot());
        }
        attention.load(Ordering::Acquire) != seen
    }

    /// The profile so far. In which regions calls were made is told at the end only.
    fn snapshot(&mut self) -> Profile {
        let mut profile = self.profile(None);
        flow_context::forget(&mut profile);
        if let Some(features) = self.features.so_far() {
            FeatureRows::alone(features).merge_into(&mut profile, &[]);
        }
        if let Some(latencies) = self.latency.as_ref().and_then(ConcurrentLatency::so_far) {
            merge(&mut profile, latencies);
        }
        profile
    }

    fn profile(&mut self, exit_status: Option<i32>) -> Profile {
        let rate = self.clock.rate();
        let wall_ns = self.ended.map_or_else(|| self.clock.elapsed_ns(), |end| self.clock.ns_at(end));
        let start = Profile::new(Meta {
            command: self.options.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
            collectors: vec!["flow".into()],
            timing: self.options.timing.clone(),
            wall_ns,
            started_unix_ns: self.clock.started_unix_ns,
            exit_status,
            ..Meta::new(
                machine::here(),
                ClockFacts {
                    source: "tsc".into(),
                    ticks_per_ns: rate,
                    timed_call_ns: 0.0,
                    counted_call_ns: COUNTED_NS,
                },
            )
        });
        let scale = Scale { epoch: self.clock.epoch(), rate };
        let mut profile = self.harvest.profile(self.arena, &start, scale, self.apis, self.statics);
        profile.trace.sort_by_key(|e| e.time_ns);
        if let Some(queues) = &self.queues {
            expected_queue::correct(&mut profile, queues.threads());
        }
        let (timed, sampled) = self.harvest.call_ticks();
        profile.meta.clock.timed_call_ns = timed / rate;
        let timed_ns = timed_ns(&profile, sampled / rate);
        let setup_ns = self.harvest.setup_ticks() / rate;
        let spent = timed_ns + counting_ns(&profile.flows) + once_ns(&profile) + setup_ns;
        let lifetime: i64 = profile.threads.iter().map(|thread| thread.busy_ns).sum();
        // Threads that wait have no CPU, and a program that hardly runs is not delayed by more than it takes.
        let time = lifetime.min(wall_ns * profile.meta.machine.cpus.max(1) as i64).max(wall_ns).max(1);
        let own = own_ns(time as f64 - spent, timed_ns);
        profile.meta.overhead_estimate = (1.0 - own / time as f64).clamp(0.0, 1.0);
        profile.meta.overhead = Some(Overhead {
            agent_ns: spent as i64,
            setup_ns: setup_ns as i64,
            timed_ns: timed_ns as i64,
            ..Overhead::default()
        });
        let refused = self.arena.header().extents_refused.load(Ordering::Relaxed);
        if refused > 0 {
            profile.loss.push(Loss {
                what: LossKind::UnrecordedThreads,
                place: String::new(),
                count: refused as i64,
                reason: "recording memory used up".into(),
            });
        }
        profile
    }
}

/// Why there is nothing of a collector.
pub(crate) fn left_out(collector: &str, why: &RecordError) -> Loss {
    Loss { what: LossKind::CollectorsLeftOut, place: collector.to_owned(), count: 1, reason: why.to_string() }
}

/// What counting a call costs where nothing hides it, ns: loops that do nothing else ran 1.0 to 1.7 longer for each. This and
/// the next two are for the estimate of the overhead only.
pub(crate) const COUNTED_NS: f64 = 1.3;
/// And what adding up the bytes of one costs beside, ns: `memchr` and the like in Perl, 17 million times.
const BYTES_NS: f64 = 2.0;
/// The same to give a thread its record, of which it touches some pages: 60,000 threads that make some 40 calls each.
const THREAD_NS: f64 = 25_000.0;

/// What counting all calls costs, ns.
pub(crate) fn counting_ns(flows: &[Flow]) -> f64 {
    let each = |flow: &Flow| COUNTED_NS + if flow.bytes.is_some() { BYTES_NS } else { 0.0 };
    flows.iter().map(|flow| flow.calls as f64 * each(flow)).sum()
}

/// Timed calls times their calibrated cost. `sampled_ns`: that of one through Rust.
fn timed_ns(p: &Profile, sampled_ns: f64) -> f64 {
    let cost = |f: &Flow| {
        let plain = f.timed_calls == f.calls && f.class == ApiClass::Compute && f.bytes.is_none();
        let timed = if plain { p.meta.clock.timed_call_ns } else { sampled_ns };
        f.timed_calls as f64 * timed
    };
    p.flows.iter().map(cost).sum::<f64>().max(0.0)
}

/// What each program and thread takes once.
fn once_ns(p: &Profile) -> f64 {
    processes_ns(&p.processes, |_| true) + p.threads.len() as f64 * THREAD_NS
}
