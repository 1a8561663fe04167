//! The thread that owns the scheduler collector: everything of libbpf lives in it.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transect_bpf_collect::record::Record;
use transect_bpf_collect::{CollectError, SchedCollector, SchedSettings, Storage, privilege};

use super::collected::Collected;
use super::collection::{Collection, Totals};
use crate::clock::monotonic_ns;
use crate::error::RecordError;

/// How long records wait in the ring buffer: at a million a second it is half full then.
const CONSUME_EVERY: Duration = Duration::from_millis(10);
/// How long a program's start waits for the tables of its libraries.
const PREPARE_AT_MOST: Duration = Duration::from_millis(500);
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
}

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedOptions {
    /// Samples a second and processor.
    pub sample_hz: u32,
    /// Stacks whenever fewer threads than this remain active; `None`: the number of processors.
    pub min_parallelism: Option<u32>,
    /// Frames of a stack.
    pub stack_depth: u32,
    /// Each process is an application of its own.
    pub per_process: bool,
    /// Take stacks and samples at all.
    pub stacks: bool,
    /// The flow agent reads what threads gain.
    pub with_flows: bool,
    /// Folder for rows that are too many for memory, in files without names.
    pub spill: PathBuf,
}

impl Default for SchedOptions {
    fn default() -> Self {
        Self {
            sample_hz: 997,
            min_parallelism: None,
            stack_depth: SchedSettings::MAX_STACK_DEPTH,
            per_process: false,
            stacks: true,
            with_flows: false,
            spill: std::env::temp_dir(),
        }
    }
}

enum Request {
    Begin(u64, Sender<Result<(), RecordError>>),
    /// This program will be launched.
    Prepare(PathBuf, Sender<Result<(), RecordError>>),
    Follow(Followed, Sender<Result<(), RecordError>>),
    /// No more privileges are needed.
    Drop(Vec<PathBuf>, Sender<Result<(), RecordError>>),
    Live(Sender<Result<u32, RecordError>>),
}

/// A recording of scheduler events that runs until [`SchedRecording::finish`].
#[derive(Debug)]
pub struct SchedRecording {
    requests: Sender<Request>,
    thread: JoinHandle<Result<Collected, RecordError>>,
    published: OwnedFd,
}

/// Processors that this process, and so the program that it launches, may use.
pub fn allowed_processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

impl SchedRecording {
    /// Loads the collector. Nothing is followed yet.
    ///
    /// # Errors
    /// If privileges are missing, or the kernel does not do what is needed.
    pub fn start(options: &SchedOptions) -> Result<Self, RecordError> {
        privilege::prepare_to_load()?;
        let processors = allowed_processors();
        let settings = SchedSettings {
            processors,
            min_parallelism: options.min_parallelism.unwrap_or(processors),
            stack_depth: options.stack_depth,
            sample_hz: if options.stacks { options.sample_hz } else { 0 },
            per_process: options.per_process,
            waits: true,
            stacks: options.stacks,
            publish_threads: options.with_flows,
        };
        let (requests, inbox) = channel();
        let spill = options.spill.clone();
        let (ready, loaded) = channel();
        let thread = std::thread::Builder::new()
            .name("transect-sched".to_owned())
            .spawn(move || serve(&settings, &spill, &inbox, &ready))
            .map_err(RecordError::system("start a thread"))?;
        match loaded.recv() {
            Ok(published) => Ok(Self { requests, thread, published }),
            Err(_) => match thread.join() {
                Ok(Err(error)) => Err(error),
                _ => Err(RecordError::Ended),
            },
        }
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
        self.ask(|reply| Request::Drop(writes, reply))
    }

    /// How many of the threads followed have not ended.
    ///
    /// # Errors
    /// If the collector has ended or its state can't be read.
    pub fn live_threads(&self) -> Result<u32, RecordError> {
        self.ask(Request::Live)
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
        self.thread.join().map_err(|_| RecordError::Ended)?
    }
}

fn serve(
    settings: &SchedSettings,
    spill: &Path,
    inbox: &Receiver<Request>,
    ready: &Sender<OwnedFd>,
) -> Result<Collected, RecordError> {
    // Nothing is followed, so there are no records, before the recording begins.
    let collection: RefCell<Option<Collection>> = RefCell::new(None);
    let mut storage = Storage::default();
    let mut collector = SchedCollector::load(&mut storage, settings, |bytes| {
        if let Some(collection) = collection.borrow_mut().as_mut() {
            match Record::decode(bytes) {
                Ok(record) => collection.accept(record),
                Err(malformed) => collection.reject(&malformed),
            }
        }
    })?;
    let published =
        collector.published().try_clone_to_owned().map_err(RecordError::system("keep the collector's map"))?;
    // Nobody who waits any more has given up: the loop below ends at once.
    let _ = ready.send(published);
    let without_samples = collector.samples_refused().map(ToString::to_string);
    let settings =
        &SchedSettings { sample_hz: if without_samples.is_some() { 0 } else { settings.sample_hz }, ..*settings };
    let mut audited = Instant::now();
    let mut drift = 0;
    loop {
        match inbox.recv_timeout(CONSUME_EVERY) {
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
                let made = Collection::new(settings, origin_ns, spill);
                let _ = reply.send(made.map(|made| *collection.borrow_mut() = Some(made)));
            }
            Ok(Request::Drop(writes, reply)) => {
                let writes: Vec<&Path> = writes.iter().map(PathBuf::as_path).collect();
                let _ = reply.send(privilege::drop_after_load(&writes).map(drop).map_err(RecordError::from));
            }
            Ok(Request::Live(reply)) => {
                let _ = reply.send(Ok(collector.live_threads()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        collector.consume()?;
        if let Some(collection) = collection.borrow_mut().as_mut() {
            collection.between();
        }
        if audited.elapsed() >= AUDIT_EVERY {
            audited = Instant::now();
            drift = drift.max(collector.audit()?.strays);
        }
    }
    // What goes on must not change some of the numbers while others are read.
    collector.stop();
    let now = monotonic_ns();
    collector.consume()?;
    let totals = Totals {
        applications: collector.totals(now)?,
        open: collector.open_threads(now)?,
        lost: collector.lost(),
        drift,
        now,
        without_samples,
    };
    // While the programs are loaded the kernel names their code, which is on stacks.
    match collection.take() {
        Some(collection) => collection.finish(totals),
        None => Collection::new(settings, now, spill)?.finish(totals),
    }
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
    }
}
