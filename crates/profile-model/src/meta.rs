use serde::{Deserialize, Serialize};

use crate::{FeatureSession, LatencySession, Overhead, SCHEMA_VERSION, SchedSession, WalkSession};

/// Facts about a recording, kept in `meta.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Layout version of the tables, see [`crate::SCHEMA_VERSION`].
    pub schema: u32,
    /// The launched command, argument by argument.
    pub command: Vec<String>,
    /// The machine that recorded.
    pub machine: Machine,
    /// How ticks became nanoseconds.
    pub clock: Clock,
    /// Collectors that took part; `"flow"` is the cross-flow agent, `"latency"` the sampling of functions' durations.
    pub collectors: Vec<String>,
    /// Timing mode of the flow collector.
    pub timing: Timing,
    /// Estimated share of the program's time that the measurement took while it ran, 0.0–1.0: `agent_ns` and `kernel_ns` of
    /// `overhead` over the threads' running time, or the wall time if that is longer. Zero if there is no estimate.
    pub overhead_estimate: f64,
    /// What the recording cost, with its start and end; `None` where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
    /// Wall time from launch to the end of the recording, ns.
    pub wall_ns: i64,
    /// Start of the recording, nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// Exit status of the launched process as a shell reports it (signal N as 128 + N); `None` while it runs.
    pub exit_status: Option<i32>,
    /// Processes that the kernel killed meanwhile for want of memory; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_kills: Option<MemoryKills>,
    /// How long the machine's CPUs worked meanwhile, for whatever program, summed, ns; in ticks of 10 ms. `None` if
    /// the kernel did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_busy_ns: Option<i64>,
    /// Processes, by their ids, that ran already and had a socket for connections: they serve requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<i32>,
    /// The latency measurement, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySession>,
    /// The recording of scheduler events, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<SchedSession>,
    /// The walk, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<WalkSession>,
    /// The measurement of features, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<FeatureSession>,
}

impl Meta {
    /// Facts about a recording that has counted nothing yet.
    pub fn new(machine: Machine, clock: Clock) -> Self {
        Self {
            schema: SCHEMA_VERSION,
            command: Vec::new(),
            machine,
            clock,
            collectors: Vec::new(),
            timing: Timing::Count,
            overhead_estimate: 0.0,
            overhead: None,
            wall_ns: 0,
            started_unix_ns: 0,
            exit_status: None,
            memory_kills: None,
            machine_busy_ns: None,
            listening: Vec::new(),
            latency: None,
            criticality: None,
            walk: None,
            feature: None,
        }
    }
}

/// What the kernel's out-of-memory killer did during a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKills {
    /// Processes that it killed (`oom_kill`).
    pub count: i64,
    /// The recorder's control group if it was for the limit of that, or of one in it; `None`: of the whole machine's processes.
    pub control_group: Option<String>,
    /// The limit of that control group, bytes; `None` if it has none itself.
    pub limit_bytes: Option<i64>,
}

/// The recording machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// CPU model name.
    pub cpu: String,
    /// CPUs the program was allowed to use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: i64,
}

/// Clock of the recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Name of the clock, `"tsc"`.
    pub source: String,
    /// Ticks per nanosecond, measured over the recording.
    pub ticks_per_ns: f64,
    /// Cost of one timed call on this machine, ns.
    pub timed_call_ns: f64,
    /// Cost of one counted call on this machine, ns.
    pub counted_call_ns: f64,
}

/// Timing mode of the flow collector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "mode")]
pub enum Timing {
    /// One call in *k*, steered by an overhead budget (share of run time, 0.03 = 3 %).
    Adaptive {
        /// Budget as a share of run time.
        budget: f64,
    },
    /// Every call.
    Full,
    /// No call: counts only.
    Count,
    /// One call in `period`.
    Every {
        /// Calls per timed call.
        period: u32,
    },
}
