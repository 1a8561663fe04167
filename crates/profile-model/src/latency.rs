use serde::{Deserialize, Serialize};

use crate::{ComponentId, Metric, ProcessId};

/// Row number in [`crate::Profile::latency`].
pub type LatencyId = u32;

/// Sampled durations of one function of one process (interval sampling of "Living on the Edge", PLDI '16, section 6:
/// a probe switches itself off after its sample and is switched on again at the next epoch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// Process that ran it.
    pub process: ProcessId,
    /// Component that holds it.
    pub component: ComponentId,
    /// Name, demangled; `sub_4f30` (virtual address in the object) where a stripped object names none.
    pub function: String,
    /// Raw symbol name; empty if there is none.
    pub symbol: String,
    /// Virtual address of the function in its object: tells functions of the same name apart.
    pub address: i64,
    /// Source file; empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: i32,
    /// Calls that met the probe switched on.
    pub calls_seen: i64,
    /// Calls that were timed.
    pub samples: i64,
    /// Sum of what they took from entry to return, in the unit of [`LatencySession::metric`] (durations in ns), less what
    /// timing shows beside it.
    pub total: i64,
    /// Estimate of the sum of all calls of the measurement: those timed, and for the time in which the probe was switched off as
    /// many calls as [`Latency::calls_estimated`] has it, each of the mean of the windows next to it; at most the time that the
    /// threads had then. The function's first calls, all timed and often its slowest, stand for themselves alone. `None` if
    /// that is not known.
    pub total_estimated: Option<i64>,
    /// The largest of them; 0 without samples.
    pub max: i64,
    /// Estimate of all calls of the measurement: those seen, and for the time in which the probe was switched off the
    /// mean of the rates in the windows in which it was on. `None` if that is not known.
    pub calls_estimated: Option<i64>,
    /// Half of the 95 % interval about it; 0 if all were seen, `None` if unknown.
    pub calls_error: Option<i64>,
    /// Samples by size, ascending, buckets without samples left out.
    pub histogram: Vec<LatencyBucket>,
}

impl Latency {
    /// Estimate of the sum of all calls; `calls`: how many there are taken to be, where that was not estimated by the recorder.
    /// `None` without samples.
    pub fn whole(&self, calls: i64) -> Option<f64> {
        let mean = (self.samples > 0).then(|| self.total as f64 / self.samples as f64)?;
        Some(self.total_estimated.map_or(calls as f64 * mean, |total| total as f64))
    }
}

/// Samples of one size, to within an eighth: buckets are those of the agent (8 per power of two of what it reads, as in
/// HdrHistogram), their bounds converted from clock ticks to nanoseconds by the recorder where they are durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBucket {
    /// Smallest size, in the unit of [`LatencySession::metric`].
    pub low: i64,
    /// Where the next bucket begins; equal to `low` in buckets of less than a nanosecond.
    pub high: i64,
    /// Samples.
    pub count: i64,
}

/// Samples of one function and one size in one slice of the run: a cell of the picture of latency over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySlice {
    /// The function.
    pub latency: LatencyId,
    /// Start of the slice since the recording's start, ns.
    pub start_ns: i64,
    /// Its end, ns.
    pub end_ns: i64,
    /// The samples that ended in it.
    pub bucket: LatencyBucket,
}

/// How often functions are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "mode")]
pub enum LatencySampling {
    /// So many calls per epoch and function.
    Fixed {
        /// Calls.
        sample_size: u32,
    },
    /// As many as an overhead budget allows, function by function.
    Budget {
        /// Share of run time, 0.02 = 2 %.
        share: f64,
    },
}

/// Facts about a latency measurement as a whole; counts are sums over its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySession {
    /// What calls are measured in; absent in older profiles, which have durations.
    #[serde(default)]
    pub metric: Metric,
    /// How often functions were sampled.
    pub sampling: LatencySampling,
    /// Time between two switchings on, ns.
    pub epoch_ns: i64,
    /// From the first switching on to the last switching off, ns: what the rates below refer to.
    pub measured_ns: i64,
    /// Functions that got a probe.
    pub probes_installed: i64,
    /// Functions of them that were called while their probe was on.
    pub probes_active: i64,
    /// Functions that got none; the reasons are among the losses.
    pub sites_refused: i64,
    /// Probes switched on or off.
    pub toggles: i64,
    /// The same per second of `measured_ns`.
    pub toggles_per_second: f64,
    /// Calls timed.
    pub samples: i64,
    /// The same per second of `measured_ns`.
    pub samples_per_second: f64,
    /// Share of `measured_ns` that one CPU spent in switching, 0.0–1.0.
    pub toggling_share: f64,
    /// What timing shows beside a call's duration, ns (or a count); taken off every sample.
    pub empty_ns: f64,
    /// Calls up to this show about the same as empty ones, ns (or a count): what such a sample took is between nothing and this.
    #[serde(default)]
    pub hidden_ns: f64,
    /// Wall time of all threads together, ns: calls that are not inside each other take no more. 0 if unknown.
    #[serde(default)]
    pub thread_ns: i64,
    /// How often the program's threads were stopped to install or remove probes.
    pub stops: i64,
    /// The longest of these stops, ns.
    pub longest_stop_ns: i64,
    /// All of them together, ns.
    pub total_stop_ns: i64,
    /// Timed calls left by an exception, longjmp or thread end: no duration is known.
    pub abandoned: i64,
    /// Calls that should have been timed and were not, for want of memory.
    pub untimed: i64,
    /// Calls whose thread's clock or counter could not be read at entry and return: the process had put itself under a
    /// filter of system calls, or the call ended on another thread than it began on. 0 with wall time.
    #[serde(default)]
    pub unread: i64,
}
