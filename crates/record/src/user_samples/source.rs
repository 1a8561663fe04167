//! Where samples of a user's own processes come from: the kernel's events where `kernel.perf_event_paranoid` is 2 or less,
//! else short stops of threads that run.

use std::time::{Duration, Instant};

use transect_bpf_collect::thread_samples::{ThreadRecord, ThreadSamples};

use super::jitter;
use super::stopped_samples::StoppedSamples;
use crate::clock::monotonic_ns;

/// How often records are read: their buffer holds some 30 samples of a CPU.
pub(super) const STEP: Duration = Duration::from_millis(5);
/// How often the period changes. Each change begins a new period: seldom enough that this moment of ours, which may keep
/// step with the program itself, says nothing about the samples.
const JITTER_EVERY: Duration = Duration::from_millis(100);
/// How long a record may be on its way into its CPU's buffer while younger ones of others are read, ns.
pub(crate) const SETTLED: u64 = 2_000_000;

/// See above.
pub(crate) enum Samples {
    Events { events: ThreadSamples, jittered: Instant, random: u64 },
    Stops(StoppedSamples),
}

impl Samples {
    /// Of a process' threads, and all that they make.
    ///
    /// # Errors
    /// If the kernel does not let this user sample.
    pub fn start(by_events: bool, pid: i32, tids: &[i32], hertz: u32, on_exec: bool) -> std::io::Result<Self> {
        if !by_events {
            return Ok(Self::Stops(StoppedSamples::start(pid, hertz, !on_exec)));
        }
        let events = ThreadSamples::start(tids, hertz, on_exec)?;
        Ok(Self::Events { events, jittered: Instant::now(), random: monotonic_ns() | 1 })
    }

    /// Gives what there is to `each`; the answer is the time until this should be done again.
    pub fn read(&mut self, each: impl FnMut(ThreadRecord)) -> Duration {
        match self {
            Self::Events { events, jittered, random } => {
                if jittered.elapsed() >= JITTER_EVERY {
                    *jittered = Instant::now();
                    events.jitter();
                }
                events.read(each);
                // Waits are looked at in this step, too: a program that waits at even times must not keep step with it.
                Duration::from_nanos(jitter::around(STEP.as_nanos() as u64, random))
            }
            Self::Stops(stops) => {
                stops.read(each);
                stops.pause()
            }
        }
    }
}

/// Threads of a process.
pub(crate) fn threads_of(pid: i32) -> std::io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}
