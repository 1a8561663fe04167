//! Costs of clock, probes and toggles on this machine, and how often the published waiting protocol fails on it.
//!
//! Everything is in ticks of the time-stamp counter, net of reading it, and the least or the trimmed mean of many
//! measurements: other work on the machine makes figures larger, never smaller.
//!
//! [`calibrate`] sets up this process' probe handlers for its own purposes: call it in a program that uses none. The
//! wait protocol is tried in child processes, since its failures execute code that nobody has written.

#[allow(unsafe_code)]
pub mod clock;
#[allow(unsafe_code)]
pub mod code_memory;
mod picture;
#[allow(unsafe_code)]
pub mod probe_cost;
mod text;
#[allow(unsafe_code)]
mod timed_call;
#[allow(unsafe_code)]
pub mod toggle;
pub mod wait;

use std::process::Command;

use serde::Serialize;

pub use picture::svg;
pub use text::text;
pub use timed_call::{ScopedCall, TimedCall, cpu_timed_call, fault_counted_call, scoped_call, timed_call};

use probe_cost::ProbeCost;
use toggle::ToggleCost;
use wait::{Budget, WaitFailures};

/// What was measured. The names of the fields are the keys of the JSON form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// CPUs that this process may use. With one, nothing runs while code is changed, and the curve means nothing.
    #[serde(rename = "processors")]
    pub cpus: usize,
    /// Ticks of one clock read.
    pub clock_ticks: f64,
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// Switching sites.
    pub toggle: Vec<ToggleCost>,
    /// Passing probes.
    pub probe: Vec<ProbeCost>,
    /// Ticks of a `membarrier(SYNC_CORE)`; null where the kernel refuses it.
    pub membarrier_ticks: Option<f64>,
    /// Failures of the waiting protocol.
    pub wait_curve: Vec<WaitFailures>,
    /// The same protocol with a serialization of all threads in place of each wait.
    pub serialized: Vec<WaitFailures>,
}

/// Measures everything. `child` makes a process that calls [`wait::run_child`] with the trials of `budget` from the
/// given one on.
///
/// # Errors
/// [`CalibrateError`] if this machine has no executable memory for us or the child can't be started.
pub fn calibrate(budget: Budget, child: impl FnMut(usize) -> Command) -> Result<Calibration, CalibrateError> {
    let rounds = if budget == Budget::Quick { 5 } else { 40 };
    let toggle = toggle::SPLITS.iter().map(|&split| toggle::toggle_cost(split, rounds));
    let toggle = toggle.collect::<Result<_, _>>()?;
    let probe = probe_cost::probe_costs(rounds)?;
    let curve = wait::measure(budget, child)?;
    Ok(Calibration {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        clock_ticks: clock::read_cost(),
        ticks_per_ns: clock::rate(),
        toggle,
        probe,
        membarrier_ticks: membarrier_ticks(rounds * 50),
        wait_curve: curve.waits,
        serialized: curve.serialized,
    })
}

/// Ticks of serializing all threads, of which one other runs meanwhile: least of many. None if it is refused.
pub fn membarrier_ticks(rounds: usize) -> Option<f64> {
    use std::sync::atomic::{AtomicBool, Ordering};
    use transect_text_patch::serialize::serialize_all;
    serialize_all().ok()?;
    let (running, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            running.store(true, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        while !running.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        let mut ticks: Vec<u64> = (0..rounds)
            .filter_map(|_| {
                let start = clock::begin();
                serialize_all().ok()?;
                Some(clock::end() - start)
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        // The least would be a moment at which the other thread had no CPU: then nobody is interrupted.
        ticks.sort_unstable();
        ticks.get(ticks.len() / 2).map(|&ticks| ticks as f64)
    })
}

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// No memory for code.
    #[error("cannot make executable memory ({step}: {errno}): a policy of this machine or a container forbids it")]
    CodeMemory {
        /// What failed.
        step: &'static str,
        /// Its error.
        errno: rustix::io::Errno,
    },
    /// The child that runs the trials of the wait protocol.
    #[error("the process that measures the wait protocol failed: {reason}")]
    Child {
        /// How.
        reason: String,
    },
    /// The child's standard output.
    #[error("cannot hand over the results of the wait protocol: {0}")]
    Pipe(#[source] std::io::Error),
    /// A trampoline could not be built.
    #[error("cannot build a trampoline for a function of our own")]
    Trampoline,
    /// Patching was refused.
    #[error("patching code of our own was refused: {0}")]
    Refused(#[from] transect_text_patch::Refusal),
}
