//! A recording of a user's own processes: threads of ours that read, follow calls, and look.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use transect_bpf_collect::SampledEvent;
use transect_bpf_collect::SchedSettings;
use transect_bpf_collect::thread_samples::{self, ThreadRecord};

use super::gathered::{Gathered, LookTime};
use super::kernel_stops::KernelStops;
use super::look::Look;
use super::source::{SETTLED, STEP, Samples};
use super::stopped_samples::{self, MOST_HZ, time_of_children};
use crate::clock::monotonic_ns;
use crate::error::RecordError;
use crate::sched::collection::Collection;
use crate::sched::{Collected, allowed_cpus};

/// Samples a second of a thread's time on CPUs. One costs the program some 10 µs.
pub const HERTZ: u32 = 499;
/// Looks at waiting threads in a round at most.
const MOST_LOOKS: usize = 64;

/// Samples that are being taken.
#[derive(Debug)]
pub struct UserSamples {
    begun: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Collected, RecordError>>,
}

impl UserSamples {
    /// Of a process that is held and will become the program, and of all that it makes. `origin` is the recording's start,
    /// `CLOCK_MONOTONIC`, ns; rows that are too many for memory are put aside in files in `folder`.
    ///
    /// # Errors
    /// If this user may not sample.
    pub fn start(pid: i32, origin: u64, folder: &Path) -> Result<Self, RecordError> {
        let by_events = thread_samples::is_permitted().is_ok();
        let hertz = if by_events { HERTZ } else { MOST_HZ };
        let cpus = allowed_cpus();
        let settings = settings(cpus, hertz);
        let (begun, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (begun.clone(), over.clone());
        let (say, started) = channel();
        let folder = folder.to_owned();
        let gather = move || {
            let collection = Collection::new(&settings, origin, &folder)?;
            let (tell, told) = channel();
            let read = move || read(pid, by_events, hertz, &flags.0, &flags.1, (&say, &tell));
            let reader = thread("sample-reader", read)?;
            gather(collection, by_events, hertz, &told, reader)
        };
        let thread = thread("user-samples", gather)?;
        match started.recv() {
            Ok(Ok(())) => Ok(Self { begun, over, thread }),
            Ok(Err(source)) => Err(refused(source)),
            Err(_) => Err(thread.join().ok().and_then(Result::err).unwrap_or(RecordError::Ended)),
        }
    }

    /// The process has become the program.
    pub fn begin(&self) {
        self.begun.store(true, Release);
    }

    /// The program has ended.
    ///
    /// # Errors
    /// If what was recorded can't be read again.
    pub fn finish(self) -> Result<Collected, RecordError> {
        self.over.store(true, Release);
        self.thread.join().map_err(|_| RecordError::Ended)?
    }
}

fn refused(source: std::io::Error) -> RecordError {
    let why = "the kernel gives this user no samples".to_owned();
    RecordError::NoSamples { why, paranoid: thread_samples::paranoid(), source }
}

fn thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RecordError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(RecordError::system("start a thread"))
}

fn settings(cpus: u32, sample_hz: u32) -> SchedSettings {
    SchedSettings {
        cpus,
        min_parallelism: cpus,
        stack_period_ns: SchedSettings::STACK_PERIOD_NS,
        kernel_halves: false,
        preemptions: false,
        event: SampledEvent::CpuClock,
        stack_depth: SchedSettings::MAX_STACK_DEPTH,
        sample_hz,
        per_process: false,
        waits: true,
        wait_budget: 0,
        stacks: true,
        publish_threads: false,
        launched_only: true,
        system_calls: false,
    }
}

/// Reads and sends on: following calls takes its time when code is met first, and the kernel's buffers are small. Gives the
/// time of the latest look, ns: what is sent may be gone through long after the program's end.
fn read(
    pid: i32,
    by_events: bool,
    hertz: u32,
    begun: &AtomicBool,
    over: &AtomicBool,
    (say, tell): (&Sender<std::io::Result<()>>, &Sender<Vec<ThreadRecord>>),
) -> u64 {
    let samples = Samples::start(by_events, pid, &[pid], hertz, true);
    let mut samples = match samples {
        Ok(samples) => samples,
        Err(error) => {
            let _ = say.send(Err(error));
            return monotonic_ns();
        }
    };
    let _ = say.send(Ok(()));
    // A program that is not there yet can't be stopped.
    while !begun.load(Acquire) && !over.load(Acquire) {
        std::thread::sleep(Duration::from_micros(200));
    }
    loop {
        let last = over.load(Acquire);
        let mut records = Vec::new();
        let now = monotonic_ns();
        let pause = samples.read(|record| records.push(record));
        if tell.send(records).is_err() || last {
            return now;
        }
        std::thread::sleep(pause);
    }
}

fn gather(
    collection: Collection,
    by_events: bool,
    hertz: u32,
    told: &Receiver<Vec<ThreadRecord>>,
    reader: JoinHandle<u64>,
) -> Result<Collected, RecordError> {
    let before = time_of_children();
    let period = if by_events { STEP.as_nanos() as f64 } else { 1e9 / f64::from(hertz) };
    let mut gathered = Gathered::new(collection, period, !by_events);
    let mut stops = KernelStops::new(monotonic_ns());
    while let Ok(records) = told.recv() {
        gathered.add(records);
        told.try_iter().for_each(|more| gathered.add(more));
        let now = monotonic_ns();
        // One reader reports the stops, all of a round at once.
        gathered.take(if by_events { now.saturating_sub(SETTLED) } else { now });
        for (tgid, tid) in gathered.next_looks(now, MOST_LOOKS) {
            let from = monotonic_ns();
            let gap = gathered.begin_look(tid, from);
            let Some(look) = Look::at(tgid, tid) else { continue };
            let when = LookTime { from, until: monotonic_ns(), gap };
            if gathered.look((tgid, tid), &look, when) && !stops.look(&mut gathered, (tgid, tid), &look, when) {
                gathered.look_in_passing((tgid, tid), &look, when);
            }
        }
        if by_events {
            stops.round(&mut gathered, monotonic_ns());
        }
    }
    let ran = gathered.ran();
    let end = reader.join().map_err(|_| RecordError::Ended)?;
    let mut collected = gathered.finish(end)?;
    if !by_events {
        let spent = time_of_children().saturating_sub(before) as f64;
        collected.loss.push(stopped_samples::loss(spent, ran, hertz));
    }
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use transect_bpf_collect::thread_samples::Seen;

    use super::*;

    /// Whoever goes through the records later than they came counts no time after the program's end.
    #[test]
    fn time_ends_with_the_program() {
        const MS: u64 = 1_000_000;
        let end = monotonic_ns() - 700 * MS;
        let (tell, told) = channel();
        let begins = Seen::Named { name: "app".into(), program: true };
        let pid = i32::MAX - 1;
        tell.send(vec![ThreadRecord { time: end - 100 * MS, tgid: pid, tid: pid, seen: begins }]).unwrap();
        drop(tell);
        let collection = Collection::new(&settings(2, HERTZ), 0, &std::env::temp_dir()).unwrap();
        // Its end was lost.
        let collected = gather(collection, true, HERTZ, &told, std::thread::spawn(move || end)).unwrap();
        assert_eq!(collected.session.busy_ns + collected.session.idle_ns, 100 * MS as i64);
    }
}
