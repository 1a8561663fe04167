use serde::Serialize;
use transect_profile_model::Meta;

use crate::{ComponentRow, FindingRow, FlowRow, GroupRow, LockRow, LossRow, ThreadRow, WaitRow};

/// Every view at once: what `--format json` prints without `--view`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FullReport {
    /// Facts about the recording.
    pub meta: Meta,
    /// What stands out, weightiest first.
    pub summary: Vec<FindingRow>,
    /// Component view.
    pub components: Vec<ComponentRow>,
    /// Flows, longest first.
    pub flows: Vec<FlowRow>,
    /// Threads, busiest first.
    pub threads: Vec<ThreadRow>,
    /// Waiting, longest first.
    pub waits: Vec<WaitRow>,
    /// Locks.
    pub locks: Vec<LockRow>,
    /// Everything the recording did not see.
    pub loss: Vec<LossRow>,
    /// Thread groups, for renderers; not a key of the JSON object.
    #[serde(skip)]
    pub groups: Vec<GroupRow>,
    /// Denominators of the percentages, for renderers; not a key of the JSON object.
    #[serde(skip)]
    pub totals: Totals,
}

/// Sums over the whole profile: the denominators of every percentage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Wall time of the recording, ns.
    pub wall_ns: i64,
    /// Sum of all threads' lifetimes, ns.
    pub lifetime_ns: i64,
    /// Sum of all threads' attributed lifetimes, ns.
    pub attributed_ns: i64,
    /// Sum of all threads' busy time, ns.
    pub busy_ns: i64,
    /// Time in APIs of class `lock` and `wait`, ns.
    pub wait_ns: i64,
    /// Calls of all flows.
    pub calls: i64,
    /// Calls of all flows that were timed.
    pub timed_calls: i64,
    /// Number of threads.
    pub threads: i64,
    /// Number of processes.
    pub processes: i64,
    /// Number of flows (caller, callee, API).
    pub flows: i64,
    /// False where the recording took no times (`--timing count`).
    pub timed: bool,
}
