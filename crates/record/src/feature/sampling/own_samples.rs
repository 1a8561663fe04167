//! Samples without privileges, of processes that are the user's own: by the kernel's events where
//! `kernel.perf_event_paranoid` is 2 or less, else by short stops of threads that run.
//!
//! Stacks are unwound here. Times on processors are exact. Where a thread waits is not seen, nor what it does inside of the
//! kernel unless it was stopped: that is in the row of no feature, within its interval.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap as HashMap;
use transect_attach::Mapping;
use transect_bpf_collect::CodeMapping;
use transect_bpf_collect::thread_samples::{self, Seen as Record, ThreadRecord, ThreadSamples};
use transect_profile_model::{Loss, LossKind};

use super::estimate::{Seen, Weights};
use super::kernel_stacks::{Sampled, SampledThread};
use super::process_code::{ProcessCode, UnwindImages};
use super::stopped_samples::{self, MOST_HZ, StoppedSamples, time_of_children};
use super::thread_times::ThreadTimes;
use super::translation::Translation;
use crate::RecordError;
use crate::clock::{Clock, monotonic_ns};
use crate::feature::settings::{FeatureSettings, FeatureTarget};
use crate::launch::{shell_status, spawn_plain};
use crate::process_start::Launched;
use crate::sched::call_stack::StackNumber;
use crate::sched::mapped_file::MappedFiles;
use crate::sched::place::Place;
use crate::signals::Signals;
use crate::walk::NewStack;

/// How often records are read: their buffer holds some 60 samples of a processor.
const STEP: Duration = Duration::from_millis(5);
/// How often the period changes. Each change begins a new period: seldom enough that this moment of ours, which may keep
/// step with the program itself, says nothing about the samples.
const JITTER_EVERY: Duration = Duration::from_millis(100);
/// How long a record may be on its way into its processor's buffer while younger ones of others are read, ns.
const SETTLED: u64 = 2_000_000;

/// Records until the program has ended, the time is over, or a signal says so. `why`: better samples can't be had.
///
/// # Errors
/// If the kernel does not let this user sample, or the program can't be started.
pub(super) fn record(
    settings: &FeatureSettings,
    clock: &Clock,
    signals: &Signals,
    why: &str,
) -> Result<Sampled, RecordError> {
    let refused = |source| RecordError::NoSamples { why: why.to_owned(), paranoid: thread_samples::paranoid(), source };
    let by_events = thread_samples::is_permitted().is_ok();
    let sample_hz = if by_events { settings.sample_hz } else { settings.sample_hz.min(MOST_HZ) };
    let before = time_of_children();
    let mut gathered = Gathered::default();
    let mut samples = None;
    let (child, pid, command, limit) = match &settings.target {
        FeatureTarget::Launch { command, .. } => {
            let mut error = None;
            let child = spawn_plain(command, &mut |pid| {
                match Samples::start(by_events, pid, &[pid], sample_hz, true) {
                    Ok(started) => samples = Some(started),
                    Err(source) => error = Some(source),
                }
                Ok(())
            })?;
            if let Some(source) = error {
                kill(child);
                return Err(refused(source));
            }
            let pid = child.id().cast_signed();
            (Some(child), pid, crate::feature::session::words(command), None)
        }
        FeatureTarget::Attach { pid, duration } => {
            let tids = threads_of(*pid).map_err(RecordError::system("look at the process' threads"))?;
            samples = Some(Samples::start(by_events, *pid, &tids, sample_hz, false).map_err(refused)?);
            gathered.meet(*pid, &tids);
            (None, *pid, command_of(*pid), duration.map(|duration| Instant::now() + duration))
        }
    };
    let Some(mut samples) = samples else { return Err(RecordError::Ended) };
    gathered.main = pid;
    let process = rustix::process::Pid::from_raw(pid).ok_or(RecordError::Ended)?;
    loop {
        let ended = crate::feature::task_list::is_over(pid);
        if child.is_some() {
            for signal in signals.to_forward() {
                let _ = rustix::process::kill_process(process, signal);
            }
        }
        let over = ended || child.is_none() && signals.ends() || limit.is_some_and(|limit| Instant::now() >= limit);
        let horizon = monotonic_ns().saturating_sub(SETTLED);
        let pause = samples.read(|record| gathered.waiting.push(record));
        gathered.take(if over { u64::MAX } else { horizon });
        if over {
            break;
        }
        std::thread::sleep(pause);
    }
    let wall_ns = clock.elapsed_ns();
    let status = match child {
        Some(child) => Some(shell_status(child.wait().map_err(RecordError::system("wait for the program"))?)),
        None => None,
    };
    let mut sampled = gathered.finish(clock, sample_hz, by_events, command, wall_ns, status);
    if let Samples::Stops(stops) = samples {
        if let Some(error) = stops.refused
            && sampled.threads.iter().all(|thread| thread.seen.is_empty())
        {
            return Err(refused(std::io::Error::other(error)));
        }
        let ran: f64 = sampled.threads.iter().map(|thread| thread.exact.running).sum();
        let spent = time_of_children().saturating_sub(before) as f64;
        sampled.unseen.push(stopped_samples::loss(spent, ran, sample_hz));
    }
    Ok(sampled)
}

/// Where samples come from.
enum Samples {
    Events { events: ThreadSamples, jittered: Instant },
    Stops(StoppedSamples),
}

impl Samples {
    fn start(by_events: bool, pid: i32, tids: &[i32], hertz: u32, on_exec: bool) -> std::io::Result<Self> {
        if !by_events {
            return Ok(Self::Stops(StoppedSamples::start(pid, hertz, !on_exec)));
        }
        Ok(Self::Events { events: ThreadSamples::start(tids, hertz, on_exec)?, jittered: Instant::now() })
    }

    /// Gives what there is to `each`; the answer is the time until this should be done again.
    fn read(&mut self, each: impl FnMut(ThreadRecord)) -> Duration {
        match self {
            Self::Events { events, jittered } => {
                if jittered.elapsed() >= JITTER_EVERY {
                    *jittered = Instant::now();
                    events.jitter();
                }
                events.read(each);
                STEP
            }
            Self::Stops(stops) => {
                stops.read(each);
                stops.pause()
            }
        }
    }
}

fn kill(child: Launched) {
    let _ = rustix::process::Pid::from_raw(child.id().cast_signed())
        .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
    let _ = child.wait();
}

pub(in crate::feature) fn threads_of(pid: i32) -> std::io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn command_of(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.filter(|word| !word.is_empty()).collect()
}

struct OneThread {
    tid: i32,
    tgid: i32,
    name: String,
    times: ThreadTimes,
    samples: HashMap<StackNumber, Weights>,
}

#[derive(Default)]
struct Gathered {
    main: i32,
    /// Read, but older ones of other processors may come.
    waiting: Vec<ThreadRecord>,
    processes: HashMap<i32, ProcessCode>,
    images: UnwindImages,
    files: MappedFiles,
    /// Files that the translation knows.
    told: usize,
    translation: Translation,
    numbers: HashMap<(Vec<Place>, bool), StackNumber>,
    /// The latest thread of each number.
    living: HashMap<i32, usize>,
    threads: Vec<OneThread>,
    executables: HashMap<i32, String>,
    parents: HashMap<i32, i32>,
    lost: u64,
}

impl Gathered {
    /// A process that runs already.
    fn meet(&mut self, pid: i32, tids: &[i32]) {
        let now = monotonic_ns();
        for &tid in tids {
            let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            self.add(pid, tid, name.trim_end_matches('\n').to_owned(), ThreadTimes::new(now, false));
        }
        if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) {
            self.executables.insert(pid, path.to_string_lossy().into_owned());
        }
        for mapping in Mapping::all(pid).unwrap_or_default() {
            if mapping.executable && mapping.inode != 0 {
                let path = mapping.path.to_string_lossy().into_owned();
                self.map(pid, &path, mapping.device, mapping.inode, (mapping.start, mapping.end, mapping.offset));
            }
        }
    }

    fn map(
        &mut self,
        tgid: i32,
        path: &str,
        (major, minor): (u32, u32),
        inode: u64,
        (start, end, offset): (u64, u64, u64),
    ) {
        let file = self.files.number(tgid, path, rustix::fs::makedev(major, minor), inode);
        self.processes.entry(tgid).or_default().map(start, end, offset, file);
    }

    fn add(&mut self, tgid: i32, tid: i32, name: String, times: ThreadTimes) -> usize {
        self.living.insert(tid, self.threads.len());
        self.threads.push(OneThread { tid, tgid, name, times, samples: HashMap::default() });
        self.threads.len() - 1
    }

    fn thread(&mut self, record: &ThreadRecord) -> usize {
        match self.living.get(&record.tid) {
            Some(&thread) => thread,
            None => self.add(record.tgid, record.tid, String::new(), ThreadTimes::new(record.time, false)),
        }
    }

    /// Takes in records up to a time, in their order.
    fn take(&mut self, horizon: u64) {
        self.waiting.sort_by_key(|record| record.time);
        let ready = self.waiting.partition_point(|record| record.time <= horizon);
        let rest = self.waiting.split_off(ready);
        for record in std::mem::replace(&mut self.waiting, rest) {
            self.one(record);
        }
    }

    fn one(&mut self, record: ThreadRecord) {
        let ThreadRecord { time, tgid, tid, .. } = record;
        match record.seen {
            Record::Lost(count) => self.lost += count,
            Record::Born { parent } => {
                // Its maker's name, until it has another one.
                let name = self.threads.iter().rev().find(|thread| thread.tid == parent || thread.tgid == parent);
                let name = name.map(|thread| thread.name.clone()).unwrap_or_default();
                self.add(tgid, tid, name, ThreadTimes::new(time, true));
                if parent != tgid {
                    let code = self.processes.get(&parent).map(ProcessCode::of_child).unwrap_or_default();
                    self.processes.insert(tgid, code);
                    self.parents.insert(tgid, parent);
                    if let Some(executable) = self.executables.get(&parent).cloned() {
                        self.executables.insert(tgid, executable);
                    }
                }
            }
            Record::Named { ref name, program } => {
                let thread = self.thread(&record);
                name.clone_into(&mut self.threads[thread].name);
                if program {
                    self.processes.insert(tgid, ProcessCode::default());
                    self.executables.remove(&tgid);
                }
            }
            Record::Mapped(CodeMapping { start, end, offset, device, inode, path }) => {
                // The first code of a program is its own.
                self.executables.entry(tgid).or_insert_with(|| path.clone());
                self.map(tgid, &path, device, inode, (start, end, offset));
            }
            Record::Runs => {
                let thread = self.thread(&record);
                self.threads[thread].times.runs(time);
            }
            Record::Stops { preempted } => {
                let thread = self.thread(&record);
                self.threads[thread].times.stops(time, preempted);
            }
            Record::Ended => {
                let thread = self.thread(&record);
                self.threads[thread].times.ends(time);
                self.living.remove(&tid);
            }
            Record::Sample { period, registers, ref stack } => {
                let thread = self.thread(&record);
                self.threads[thread].times.is_running(time);
                let code = self.processes.entry(tgid).or_default();
                let (places, complete) = code.unwind(tgid, registers, stack, &mut self.images, &self.files);
                let number = self.number(places, complete);
                let period = period as f64;
                let weights = self.threads[thread].samples.entry(number).or_default();
                weights.count += 1;
                weights.sum += period;
                weights.squares += period * period;
            }
        }
    }

    fn number(&mut self, places: Vec<Place>, complete: bool) -> StackNumber {
        let next = self.numbers.len() as StackNumber + 1;
        let key = (places, complete);
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let files = self.files.since(self.told);
        self.told += files.len();
        self.translation.add_files(&files);
        let user = key.0.clone();
        self.translation.add_stacks(&[NewStack { number: next, complete, kernel: Vec::new(), user }]);
        self.numbers.insert(key, next);
        next
    }

    fn finish(
        mut self,
        clock: &Clock,
        sample_hz: u32,
        by_events: bool,
        command: Vec<String>,
        wall_ns: i64,
        status: Option<i32>,
    ) -> Sampled {
        let now = monotonic_ns();
        // Programs of which nothing was sampled have regions, too.
        let files = self.files.since(self.told);
        self.translation.add_files(&files);
        let period = 1e9 / f64::from(sample_hz.max(1));
        let (mut waits, mut unseen_ns, mut running_ns) = (0, 0.0, 0.0);
        let mut threads = Vec::new();
        for mut thread in self.threads {
            thread.times.ends(now);
            let exact = thread.times.exact();
            let mut seen: Vec<Seen> = thread
                .samples
                .iter()
                .map(|(number, weights)| Seen {
                    regions: self.translation.regions(*number).cloned(),
                    samples: *weights,
                    ..Seen::default()
                })
                .collect();
            seen.sort_by(|a, b| a.regions.cmp(&b.regions));
            let sampled: f64 = seen.iter().map(|seen| seen.samples.sum).sum();
            // Running without samples: inside of the kernel, as far as it is more than the last sample's rest.
            let unseen = if by_events { (exact.running - sampled - period).max(0.0) } else { 0.0 };
            if unseen > 0.0 {
                let weights = Weights { count: 0, sum: unseen, squares: unseen * period };
                seen.push(Seen { regions: None, samples: weights, ..Seen::default() });
            }
            waits += thread.times.waits;
            unseen_ns += unseen;
            running_ns += exact.running;
            threads.push(SampledThread {
                tid: thread.tid,
                tgid: thread.tgid,
                name: thread.name,
                start_ns: thread.times.begin.saturating_sub(clock.started_monotonic_ns()) as i64,
                exact,
                seen,
            });
        }
        let mut unseen = Vec::new();
        let mut add = |place: &str, count: u64, reason: String| {
            if count > 0 {
                unseen.push(Loss {
                    what: LossKind::TruncatedStacks,
                    place: place.to_owned(),
                    count: count as i64,
                    reason,
                });
            }
        };
        add(
            "waits",
            waits,
            "their stacks can't be had without privileges: their time is in the row of no feature".to_owned(),
        );
        let share = 100.0 * unseen_ns / f64::max(running_ns, 1.0);
        let reason = format!(
            "{share:.1} % of the time on processors was in the kernel or not sampled; without privileges that is in the row \
             of no feature"
        );
        add("the kernel's code", (unseen_ns / period) as u64, reason);
        Sampled {
            translation: self.translation,
            threads,
            executables: self.executables,
            parents: self.parents,
            command,
            wall_ns,
            status,
            lost: self.lost,
            sample_hz,
            unseen,
        }
    }
}
