//! Samples of a program whose regions tell by events: some have no sites, as they lie in hot loops, and some are too hot for
//! events. Samples see where the thread computes; what of that is by events already is left to those (`unprobed_regions`).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use transect_bpf_collect::thread_samples;
use transect_profile_model::RegionId;

use super::gathered::{Gathered, StackSamples};
use super::translation::Translation;
use crate::clock::monotonic_ns;
use crate::user_samples::source::{SETTLED, Samples, threads_of};

/// Samples a second and thread at most. One costs the program 10 to 20 µs.
const MOST_HZ: u32 = 249;

/// Samples that are being taken.
#[derive(Debug)]
pub struct SupplementarySamples {
    over: Arc<AtomicBool>,
    silent: Arc<Mutex<Vec<u64>>>,
    thread: JoinHandle<Gathered>,
    hertz: u32,
}

/// What was seen of a thread with one stack.
#[derive(Debug, Clone)]
pub struct SeenSupplementary {
    /// So many of the regions that became silent were so then.
    pub silent: usize,
    /// Regions by [`SupplementaryTimes::translation`], outermost first; `None` if they can't be told.
    pub regions: Option<Vec<RegionId>>,
    /// By the time that they stand for.
    pub samples: StackSamples,
}

/// A thread.
#[derive(Debug)]
pub struct SupplementaryThread {
    pub pid: i32,
    pub tid: i32,
    /// `CLOCK_MONOTONIC`, ns.
    pub begin: u64,
    pub seen: Vec<SeenSupplementary>,
}

/// What was sampled.
#[derive(Debug)]
pub struct SupplementaryTimes {
    pub hertz: u32,
    pub translation: Translation,
    pub threads: Vec<SupplementaryThread>,
    /// Records, samples among them, that the kernel's buffer had no room for.
    pub lost: u64,
}

impl SupplementarySamples {
    /// Of processes, the one that is launched held, and all that they make. `hertz`: as the user wishes; `None` if this user may
    /// not sample.
    pub fn start(pids: &[i32], hertz: u32) -> Option<Self> {
        thread_samples::is_permitted().ok()?;
        let hertz = hertz.min(MOST_HZ);
        let (over, silent) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (flag, times) = (over.clone(), silent.clone());
        let (say, started) = channel();
        let pids = pids.to_vec();
        let sample = move || {
            let mut gathered = Gathered::of(times);
            let mut samples = Vec::new();
            for pid in pids {
                let tids = threads_of(pid).unwrap_or_default();
                if let Ok(started) = Samples::start(true, pid, &tids, hertz, false) {
                    gathered.meet(pid, &tids);
                    samples.push(started);
                }
            }
            // Who has asked waits for it, and lets the process go then.
            let _ = say.send(!samples.is_empty());
            if samples.is_empty() {
                return gathered;
            }
            loop {
                let last = flag.load(Acquire);
                let horizon = monotonic_ns().saturating_sub(SETTLED);
                let pauses = samples.iter_mut().map(|samples| samples.read(|record| gathered.waiting.push(record)));
                let pause = pauses.min().unwrap_or_default();
                gathered.take(if last { u64::MAX } else { horizon });
                if last {
                    return gathered;
                }
                std::thread::sleep(pause);
            }
        };
        let thread = std::thread::Builder::new().name("region-sampler".to_owned()).spawn(sample).ok()?;
        started.recv().is_ok_and(|started| started).then_some(Self { over, silent, thread, hertz })
    }

    /// One more region tells nothing by events from now on.
    pub fn note_unprobed(&self) {
        if let Ok(mut times) = self.silent.lock() {
            times.push(monotonic_ns());
        }
    }

    /// Ends it; `None` if its thread has failed.
    pub fn finish(self) -> Option<SupplementaryTimes> {
        self.over.store(true, Release);
        let mut gathered = self.thread.join().ok()?;
        // Programs of which nothing was sampled have regions, too.
        let files = gathered.files.since(gathered.told);
        gathered.translation.add_files(&files);
        let Gathered { translation, threads, lost, .. } = gathered;
        let threads = threads.into_iter().map(|thread| SupplementaryThread {
            pid: thread.tgid,
            tid: thread.tid,
            begin: thread.times.begin,
            seen: thread
                .samples
                .into_iter()
                .map(|((stack, silent), samples)| SeenSupplementary {
                    silent,
                    regions: translation.regions(stack).cloned(),
                    samples,
                })
                .collect(),
        });
        let threads = threads.collect();
        Some(SupplementaryTimes { hertz: self.hertz, translation, threads, lost })
    }
}
