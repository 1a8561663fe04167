//! The thread that owns the scheduler collector: everything of libbpf lives in it.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use transect_bpf_collect::function_time::{KernelFunctionTimer, RefusedTiming};
use transect_bpf_collect::record::Record;
use transect_bpf_collect::{CollectError, SampledEvent, SchedCollector, SchedSettings, Storage, privilege};
use transect_profile_model::KernelTiming;

use super::affinity::Affinities;
use super::collected::Collected;
use super::collection::{Collection, SoFar, Totals};
use super::kernel_symbols::KernelSymbols;
use super::module::ReadFiles;
use super::read_ahead::ReadAhead;
use super::system_call_budget::{CountedCalls, SystemCallBudget};
use crate::clock::{self, monotonic_ns};
use crate::error::RecordError;
use crate::walk::{Evidence, Gatherer, Rate, system_call_function};

/// How long records wait in the ring buffer: at a million a second it is half full then.
const CONSUME_EVERY: Duration = Duration::from_millis(10);
/// How long they wait at most while few come and nothing new runs: waking up takes CPU time from the program.
const CONSUME_AT_REST: Duration = Duration::from_millis(80);
/// Shorter runs read files at their end.
const SAMPLES_BEFORE_READING: u64 = 50;
/// Few, in one turn: of 8 MiB they fill a tenth.
const FEW_RECORDS: usize = 2500;
/// How long a program's start waits for the tables of its libraries.
const PREPARE_AT_MOST: Duration = Duration::from_millis(500);
/// How often it is looked whether counting system calls costs too much.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// How often the number of active threads is compared with the scheduler's own.
const AUDIT_EVERY: Duration = Duration::from_secs(1);

/// Whose threads are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// A process, its threads and their descendants.
    Process(i32),
    /// A process of ours that is held before it becomes the program: it, its threads and descendants from then on.
    Launched(i32),
    /// Everything in a cgroup (its folder).
    Cgroup(PathBuf),
    /// All programs of the machine.
    Machine,
}

/// One per cent of a CPU.
const DEFAULT_WAIT_BUDGET: u32 = 10_000_000;

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedOptions {
    /// Samples a second and CPU.
    pub sample_hz: u32,
    /// They come less often once there are enough: an interrupt delays the program, in a virtual machine by 0.1 ms.
    pub fewer_samples: bool,
    /// Other collectors are at work: what is dear ends sooner.
    pub beside_flows: bool,
    /// Stacks whenever fewer threads than this remain active; `None`: the number of CPUs.
    pub min_parallelism: Option<u32>,
    /// Frames of a stack.
    pub stack_depth: u32,
    /// Each process is an application of its own.
    pub per_process: bool,
    /// Time that describing waits may take, ns a second and CPU; beyond it short ones are summed up by thread. 0: all
    /// are described.
    pub wait_budget: u32,
    /// Criticality alone: nothing of what waits are for, no stacks, no samples.
    pub totals_only: bool,
    /// The flow agent reads what threads gain. Only of a program that is launched.
    pub with_flows: bool,
    /// A program will be launched, and nothing else is followed.
    pub launched_only: bool,
    /// It, and what is mapped into it: what [`SchedRecording::prepare`] does is begun while the collector is loaded.
    pub programs: Vec<PathBuf>,
    /// Make tables of what is recorded.
    pub tables: bool,
    /// Gather evidence for a walk, which `SchedRecording::evidence` gives.
    pub evidence: bool,
    /// What samples are taken by.
    pub event: SampledEvent,
    /// Count exact times of system calls, for the evidence.
    pub system_calls: bool,
    /// Folder for rows that are too many for memory, in files without names.
    pub spill: PathBuf,
}

impl Default for SchedOptions {
    fn default() -> Self {
        Self {
            sample_hz: 997,
            fewer_samples: false,
            beside_flows: false,
            min_parallelism: None,
            stack_depth: SchedSettings::MAX_STACK_DEPTH,
            per_process: false,
            wait_budget: DEFAULT_WAIT_BUDGET,
            totals_only: false,
            with_flows: false,
            launched_only: false,
            programs: Vec::new(),
            tables: true,
            evidence: false,
            event: SampledEvent::CpuClock,
            system_calls: false,
            spill: temporary_folder(),
        }
    }
}

/// A folder for temporary files: the user's (`TMPDIR`), or another one where that can't be written.
fn temporary_folder() -> PathBuf {
    let own = std::env::temp_dir();
    let writable = |folder: &PathBuf| {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
    };
    let others = ["/tmp", "/var/tmp", "."].map(PathBuf::from);
    std::iter::once(own.clone()).chain(others).find(writable).unwrap_or(own)
}

enum Request {
    Begin(u64, Sender<Result<(), RecordError>>),
    /// This program will be launched.
    Prepare(PathBuf, Sender<Result<(), RecordError>>),
    Follow(Followed, Sender<Result<(), RecordError>>),
    /// No more privileges are needed but, if `true`, those for attaching probes.
    Drop(Vec<PathBuf>, bool, Sender<Result<(), RecordError>>),
    /// Functions of the kernel are to be timed.
    KernelTimer(Option<KernelTiming>, Sender<KernelTimer>),
    Live(Sender<Result<u32, RecordError>>),
    /// Nothing is recorded any more.
    Stop(Sender<Result<(), RecordError>>),
    /// What was recorded up to now.
    SoFar(Sender<Result<SoFar, RecordError>>),
    /// What a walk needs, since the last time; `true`: nothing is recorded any more.
    Evidence(bool, Sender<Result<Evidence, RecordError>>),
    /// Samples count, or don't, from now on.
    Sampling(bool, Sender<Result<(), RecordError>>),
    /// What the kernel prints of these addresses.
    KernelFunctions(Vec<u64>, Sender<Result<String, RecordError>>),
    /// Files that were read for names.
    Files(ReadFiles),
    /// Enough was sampled to go on with fewer samples, by this factor.
    SampleLess(u32, Sender<Result<(), RecordError>>),
}

/// A timer of the kernel's functions, if there can be one, and which kinds can't be used.
pub(crate) type KernelTimer = (Option<KernelFunctionTimer>, Vec<RefusedTiming>);

/// A recording of scheduler events that runs until [`SchedRecording::finish`].
#[derive(Debug)]
pub struct SchedRecording {
    requests: Sender<Request>,
    /// What comes of it; behind a lock only so that threads can share the recording.
    outcome: Mutex<Receiver<Result<Collected, RecordError>>>,
    published: OwnedFd,
}

/// A recording whose collector is being loaded. Dropped, it comes to nothing.
#[derive(Debug)]
pub struct LoadingRecording {
    requests: Sender<Request>,
    outcome: Receiver<Result<Collected, RecordError>>,
    loaded: Receiver<OwnedFd>,
}

impl LoadingRecording {
    /// Waits until the collector is loaded.
    ///
    /// # Errors
    /// If the kernel does not do what is needed.
    pub fn wait(self) -> Result<SchedRecording, RecordError> {
        let Self { requests, outcome, loaded } = self;
        match loaded.recv() {
            Ok(published) => Ok(SchedRecording { requests, outcome: Mutex::new(outcome), published }),
            Err(_) => match outcome.recv() {
                Ok(Err(error)) => Err(error),
                _ => Err(RecordError::Ended),
            },
        }
    }
}

/// CPUs that this process, and so the program that it launches, may use.
pub fn allowed_cpus() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

impl SchedRecording {
    /// Loads the collector. Nothing is followed yet.
    ///
    /// # Errors
    /// If privileges are missing, or the kernel does not do what is needed.
    pub fn start(options: &SchedOptions) -> Result<Self, RecordError> {
        Self::start_loading(options)?.wait()
    }

    /// Begins to load the collector, beside whatever else is to be prepared.
    ///
    /// # Errors
    /// If privileges are missing.
    pub fn start_loading(options: &SchedOptions) -> Result<LoadingRecording, RecordError> {
        clock::prepare();
        privilege::prepare_to_load()?;
        let cpus = allowed_cpus();
        let settings = SchedSettings {
            cpus,
            min_parallelism: options.min_parallelism.unwrap_or(cpus),
            stack_period_ns: SchedSettings::STACK_PERIOD_NS,
            kernel_halves: options.evidence,
            preemptions: options.evidence,
            event: options.event,
            wait_budget: options.wait_budget,
            stack_depth: options.stack_depth,
            sample_hz: if options.totals_only { 0 } else { options.sample_hz },
            per_process: options.per_process,
            waits: !options.totals_only,
            stacks: !options.totals_only,
            publish_threads: options.with_flows,
            launched_only: options.launched_only || options.with_flows,
            system_calls: options.system_calls,
        };
        let (requests, inbox) = channel();
        let options = options.clone();
        let (ready, loaded) = channel();
        let (tell, outcome) = channel();
        std::thread::Builder::new()
            .name("transect-sched".to_owned())
            .spawn(move || {
                if let Err(why) = serve(&settings, &options, &inbox, ready, &tell) {
                    let _ = tell.send(Err(why));
                }
            })
            .map_err(RecordError::system("start a thread"))?;
        Ok(LoadingRecording { requests, outcome, loaded })
    }

    /// Descriptor of the map whose pages the flow agent reads.
    pub fn published(&self) -> &OwnedFd {
        &self.published
    }

    /// The recording starts: times in the profile count from `origin_ns` (`CLOCK_MONOTONIC`, ns).
    ///
    /// # Errors
    /// If the collector has ended.
    pub fn begin(&self, origin_ns: u64) -> Result<(), RecordError> {
        self.ask(|reply| Request::Begin(origin_ns, reply))
    }

    /// The program will be launched: its stacks can be unwound from the beginning.
    ///
    /// # Errors
    /// If the collector has ended.
    pub fn prepare(&self, program: &OsStr) -> Result<(), RecordError> {
        self.ask(|reply| Request::Prepare(PathBuf::from(program), reply))
    }

    /// Records these from now on.
    ///
    /// # Errors
    /// If they are not there.
    pub fn follow(&self, followed: Followed) -> Result<(), RecordError> {
        self.ask(|reply| Request::Follow(followed, reply))
    }

    /// Gives up the privileges that only loading needs; nothing more can be loaded. Call it after the program to launch
    /// has been forked, so that the program keeps what it would have had. `writes` are files and folders that will be
    /// written later.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn drop_privileges(&self, writes: Vec<PathBuf>) -> Result<(), RecordError> {
        self.ask(|reply| Request::Drop(writes, false, reply))
    }

    /// As [`SchedRecording::drop_privileges`], but keeps what the timer of kernel functions needs.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn drop_privileges_but_probes(&self, writes: Vec<PathBuf>) -> Result<(), RecordError> {
        self.ask(|reply| Request::Drop(writes, true, reply))
    }

    /// A timer of functions of the kernel, of the wanted kind or the best that the kernel allows.
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn kernel_timer(&self, wanted: Option<KernelTiming>) -> Result<KernelTimer, RecordError> {
        let (reply, answer) = channel();
        self.requests.send(Request::KernelTimer(wanted, reply)).map_err(|_| RecordError::Ended)?;
        answer.recv().map_err(|_| RecordError::Ended)
    }

    /// How many of the threads followed have not ended.
    ///
    /// # Errors
    /// If the collector has ended or its state can't be read.
    pub fn live_threads(&self) -> Result<u32, RecordError> {
        self.ask(Request::Live)
    }

    /// Samples are evidence from now on, or are not: while return addresses on stacks are replaced, those of some
    /// functions' callees can't be unwound, and what is left would be a wrong picture.
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn sampling(&self, on: bool) -> Result<(), RecordError> {
        self.ask(|reply| Request::Sampling(on, reply))
    }

    /// From now on samples come less often, by the factor `times`.
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn sample_less(&self, times: u32) -> Result<(), RecordError> {
        self.ask(|reply| Request::SampleLess(times, reply))
    }

    /// What was seen since the last call, for a walk; with `last` the recording ends before it is gathered.
    ///
    /// # Errors
    /// If the collector has ended or its state can't be read.
    pub(crate) fn evidence(&self, last: bool) -> Result<Evidence, RecordError> {
        self.ask(|reply| Request::Evidence(last, reply))
    }

    /// Nothing is recorded any more.
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn stop(&self) -> Result<(), RecordError> {
        self.ask(Request::Stop)
    }

    /// What was recorded up to now.
    ///
    /// # Errors
    /// If the collector has ended, makes no tables, or its state can't be read.
    pub(crate) fn so_far(&self) -> Result<SoFar, RecordError> {
        self.ask(Request::SoFar)
    }

    /// Functions of the kernel at these addresses, as it prints them: see [`SchedCollector::kernel_functions`].
    ///
    /// # Errors
    /// If the collector has ended.
    pub(crate) fn kernel_functions(&self, addresses: Vec<u64>) -> Result<String, RecordError> {
        self.ask(|reply| Request::KernelFunctions(addresses, reply))
    }

    /// Files that need not be read again to name what the recording saw.
    pub(crate) fn know_files(&self, files: ReadFiles) {
        let _ = self.requests.send(Request::Files(files));
    }

    fn ask<T>(&self, request: impl FnOnce(Sender<Result<T, RecordError>>) -> Request) -> Result<T, RecordError> {
        let (reply, answer) = channel();
        self.requests.send(request(reply)).map_err(|_| RecordError::Ended)?;
        answer.recv().map_err(|_| RecordError::Ended)?
    }

    /// Ends the recording and makes tables of it.
    ///
    /// # Errors
    /// If the kernel's side can't be read.
    pub fn finish(self) -> Result<Collected, RecordError> {
        drop(self.requests);
        let outcome = self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.recv().map_err(|_| RecordError::Ended)?
    }
}

/// Loads the collector, hands over its published map, and does what is asked until nobody can ask any more; then tells what came
/// of it. To give the kernel's memory back takes milliseconds more, for which nobody waits.
fn serve(
    settings: &SchedSettings,
    options: &SchedOptions,
    inbox: &Receiver<Request>,
    ready: Sender<OwnedFd>,
    outcome: &Sender<Result<Collected, RecordError>>,
) -> Result<(), RecordError> {
    // Nothing is followed, so there are no records, before the recording begins.
    let collection: RefCell<Option<Collection>> = RefCell::new(None);
    let gatherer = RefCell::new(options.evidence.then(|| Gatherer::new(options.event)));
    // Threads or code that were not there before: user space has to look at them soon.
    let news = Cell::new(true);
    let samples = Cell::new(0);
    let affinities = RefCell::new(options.tables.then(|| Affinities::new(settings.cpus)));
    let mut storage = Storage::default();
    let mut collector = SchedCollector::load(&mut storage, settings, &options.programs, |bytes| {
        let record = Record::decode(bytes);
        if matches!(record, Ok(Record::Task(_) | Record::UnknownCode(_))) {
            news.set(true);
        }
        if matches!(&record, Ok(Record::Sample(sample)) if sample.queued == 0) {
            samples.set(samples.get() + 1);
        }
        if let (Some(affinities), Ok(Record::Task(task))) = (affinities.borrow_mut().as_mut(), &record) {
            affinities.see(task);
        }
        if let Some(gatherer) = gatherer.borrow_mut().as_mut() {
            match &record {
                Ok(record) => gatherer.accept(record),
                Err(_) => gatherer.reject(),
            }
        }
        if let Some(collection) = collection.borrow_mut().as_mut() {
            match record {
                Ok(record) => collection.accept(record),
                Err(malformed) => collection.reject(&malformed),
            }
        }
    })?;
    if let Some(gatherer) = gatherer.borrow_mut().as_mut() {
        gatherer.follow_mappings(collector.mappings());
    }
    let published =
        collector.published().try_clone_to_owned().map_err(RecordError::system("keep the collector's map"))?;
    // Nobody who waits any more has given up: the loop below ends at once.
    let _ = ready.send(published);
    drop(ready);
    let without_samples = collector.samples_refused().map(ToString::to_string);
    let settings =
        &SchedSettings { sample_hz: if without_samples.is_some() { 0 } else { settings.sample_hz }, ..*settings };
    let mut system_calls = options.system_calls.then(|| SystemCallBudget::new(options.event, options.beside_flows));
    let mut audited = Instant::now();
    let mut counted = Instant::now();
    let mut drift = 0;
    let mut rate = options.fewer_samples.then(Rate::beside);
    let mut pause = CONSUME_EVERY;
    let mut ahead = ReadAhead::default();
    let mut read = ReadFiles::default();
    // When recording ended, once it has.
    let mut ended = None;
    loop {
        match inbox.recv_timeout(pause) {
            Ok(Request::Prepare(program, reply)) => {
                collector.prepare_program(&program, PREPARE_AT_MOST);
                let _ = reply.send(Ok(()));
            }
            Ok(Request::Follow(followed, reply)) => {
                let outcome = follow(&mut collector, &followed);
                if outcome.is_ok() && !matches!(followed, Followed::Launched(_)) {
                    wait_for_tables(&mut collector)?;
                }
                let _ = reply.send(outcome.map_err(RecordError::from));
            }
            Ok(Request::Begin(origin_ns, reply)) => {
                let made = options.tables.then(|| Collection::new(settings, origin_ns, &options.spill)).transpose();
                let _ = reply.send(made.map(|made| {
                    *collection.borrow_mut() = made.map(|mut made| {
                        made.follow_mappings(collector.mappings());
                        made
                    });
                }));
            }
            Ok(Request::KernelTimer(wanted, reply)) => {
                let _ = reply.send(KernelFunctionTimer::load(&collector, wanted, system_call_function));
            }
            Ok(Request::Drop(writes, probes, reply)) => {
                let writes: Vec<&Path> = writes.iter().map(PathBuf::as_path).collect();
                let drops = if probes { privilege::drop_but_loading } else { privilege::drop_after_load };
                let loaded = collector.finish_loading().map_err(RecordError::from);
                let _ = reply.send(loaded.and_then(|()| drops(&writes).map(drop).map_err(RecordError::from)));
            }
            Ok(Request::Sampling(on, reply)) => {
                if let Some(gatherer) = gatherer.borrow_mut().as_mut() {
                    gatherer.sampling(on, monotonic_ns());
                }
                let _ = reply.send(Ok(()));
            }
            Ok(Request::SampleLess(times, reply)) => {
                collector.sample_less(times);
                if let Some(collection) = collection.borrow_mut().as_mut() {
                    collection.sample_less(times);
                }
                let _ = reply.send(Ok(()));
            }
            Ok(Request::Evidence(last, reply)) => {
                if last && ended.is_none() {
                    ended = Some(stop(&mut collector));
                }
                let now = ended.unwrap_or_else(monotonic_ns);
                let mut found = evidence(&mut collector, &gatherer, system_calls.as_mut(), last, now);
                if let Ok(evidence) = &mut found
                    && last
                {
                    evidence.read = ahead.finish();
                }
                let _ = reply.send(found);
            }
            Ok(Request::KernelFunctions(addresses, reply)) => {
                let _ = reply.send(collector.kernel_functions(&addresses).map_err(RecordError::from));
            }
            Ok(Request::SoFar(reply)) => {
                collector.consume()?;
                let mut collection = collection.borrow_mut();
                let found = collection.as_mut().map(|collection| -> Result<SoFar, RecordError> {
                    let totals = totals(&collector, ended.unwrap_or_else(monotonic_ns), drift, &without_samples)?;
                    let addresses = collection.kernel_addresses();
                    let lines = (!addresses.is_empty()).then(|| collector.kernel_functions(&addresses)).transpose()?;
                    let kernel = lines.map(|lines| KernelSymbols::of_printed(&addresses, &lines));
                    Ok(collection.so_far(totals, kernel))
                });
                let _ = reply.send(found.unwrap_or(Err(RecordError::Ended)));
            }
            Ok(Request::Files(files)) => read = files,
            Ok(Request::Stop(reply)) => {
                drift = drift.max(collector.audit()?.strays);
                ended = Some(stop(&mut collector));
                let _ = reply.send(Ok(()));
            }
            Ok(Request::Live(reply)) => {
                let _ = reply.send(Ok(collector.live_threads()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        collector.follow_moved()?;
        let taken = collector.consume()?;
        pause = match taken {
            0..FEW_RECORDS if !news.take() => (pause + pause / 4).min(CONSUME_AT_REST),
            _ => CONSUME_EVERY,
        };
        if let Some(times) = rate.as_mut().and_then(|rate| rate.change(samples.get())) {
            collector.sample_less(times);
            if let Some(collection) = collection.borrow_mut().as_mut() {
                collection.sample_less(times);
            }
        }
        let changed = affinities.borrow_mut().as_mut().and_then(Affinities::changed);
        if let Some(cpus) = changed {
            collector.set_cpus(cpus, options.min_parallelism.unwrap_or(cpus));
        }
        if let Some(collection) = collection.borrow_mut().as_mut() {
            if let Some(cpus) = changed {
                collection.set_cpus(cpus, options.min_parallelism.unwrap_or(cpus));
            }
            collection.between();
            if samples.get() >= SAMPLES_BEFORE_READING {
                collection.read_ahead(&mut ahead);
            }
        }
        if let Some(gatherer) = gatherer.borrow_mut().as_mut() {
            gatherer.between();
        }
        if let Some(budget) = &mut system_calls {
            budget.look(&mut collector, monotonic_ns())?;
            if counted.elapsed() >= COUNT_EVERY {
                counted = Instant::now();
                budget.counted(&mut collector, monotonic_ns())?;
            }
        }
        if ended.is_none() && audited.elapsed() >= AUDIT_EVERY {
            audited = Instant::now();
            drift = drift.max(collector.audit()?.strays);
        }
    }
    let now = match ended {
        Some(ended) => ended,
        None => {
            // Also finds what waits are for that are still under way.
            drift = drift.max(collector.audit()?.strays);
            stop(&mut collector)
        }
    };
    collector.consume()?;
    let totals = totals(&collector, now, drift, &without_samples)?;
    // While the programs are loaded the kernel names their code, which is on stacks.
    let collected = match collection.take() {
        Some(mut collection) => {
            if let Some(cpus) = affinities.borrow().as_ref().map(Affinities::usual) {
                collection.set_cpus(cpus, options.min_parallelism.unwrap_or(cpus));
            }
            read.extend(ahead.finish());
            collection.know_files(read);
            let addresses = collection.kernel_addresses();
            if !addresses.is_empty()
                && let Ok(lines) = collector.kernel_functions(&addresses)
            {
                collection.name_kernel(&addresses, &lines);
            }
            collection.finish(totals)
        }
        None => Collection::new(settings, now, &options.spill)?.finish(totals),
    };
    let _ = outcome.send(collected);
    Ok(())
}

/// What the kernel's part knows by `now`.
fn totals(
    collector: &SchedCollector<'_>,
    now: u64,
    drift: u64,
    without_samples: &Option<String>,
) -> Result<Totals, RecordError> {
    let mut open = collector.open_threads(now)?;
    open.iter_mut().for_each(|open| super::affinity::place(&mut open.task));
    Ok(Totals {
        applications: collector.totals(now)?,
        open,
        lost: collector.lost(),
        drift,
        now,
        without_samples: without_samples.clone(),
    })
}

/// Ends what the kernel records, so that nothing changes some of the numbers while others are read. Gives the instant up to
/// which it was recorded: what runs on is in no state that is known after it.
fn stop(collector: &mut SchedCollector<'_>) -> u64 {
    collector.stop();
    monotonic_ns()
}

fn evidence(
    collector: &mut SchedCollector<'_>,
    gatherer: &RefCell<Option<Gatherer>>,
    system_calls: Option<&mut SystemCallBudget>,
    last: bool,
    now: u64,
) -> Result<Evidence, RecordError> {
    collector.consume()?;
    let open = collector.open_threads(now)?;
    let calls = match system_calls {
        Some(budget) => budget.counted(collector, now)?,
        None => CountedCalls::default(),
    };
    let (kernel, samples_refused) = (collector.lost(), collector.samples_refused().map(ToString::to_string));
    let mut gatherer = gatherer.borrow_mut();
    let gatherer = gatherer.get_or_insert_with(|| Gatherer::new(SampledEvent::CpuClock));
    let mut evidence = Evidence { calls, ..gatherer.take(open, last) };
    (evidence.not_kept.kernel, evidence.not_kept.samples_refused) = (kernel, samples_refused);
    Ok(evidence)
}

/// What runs already is recorded from the moment on that its stacks can be unwound, or after a while anyhow.
fn wait_for_tables(collector: &mut SchedCollector<'_>) -> Result<(), RecordError> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let start = Instant::now();
    while !collector.wait_for_tables(CONSUME_EVERY)? && start.elapsed() < PATIENCE {}
    Ok(())
}

fn follow(collector: &mut SchedCollector<'_>, followed: &Followed) -> Result<(), CollectError> {
    match followed {
        Followed::Process(pid) => collector.follow_process(*pid),
        Followed::Launched(pid) => {
            collector.follow_launched(*pid);
            Ok(())
        }
        Followed::Cgroup(folder) => collector.follow_cgroup(folder),
        Followed::Machine => collector.follow_machine(),
    }
}
