use serde::Serialize;

/// One thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadRow {
    /// Process id.
    pub process: i32,
    /// Kernel thread id.
    pub tid: i32,
    /// Name at its end.
    pub name: String,
    /// Thread group: same start routine, split by name stem; `main` for main threads.
    pub group: String,
    /// Symbol of the start routine, demangled; empty where unknown.
    pub start_routine: String,
    /// Lifetime, ns.
    pub wall_ns: i64,
    /// Lifetime less waiting, ns.
    pub busy_ns: i64,
    /// Time inside APIs that wait, lock or do input and output, ns.
    pub wait_ns: i64,
    /// Calls entered.
    pub calls: i64,
    /// Lifetime, each instant divided by the number of active threads, ns.
    pub attributed_ns: i64,
    /// Executable of the process (display name).
    pub executable: String,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
}

/// One thread group of one executable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRow {
    /// Group name as in [`ThreadRow::group`].
    pub group: String,
    /// Executable of the processes that the threads belong to (display name).
    pub executable: String,
    /// Number of threads.
    pub threads: i64,
    /// Sum of lifetimes, ns.
    pub wall_ns: i64,
    /// Sum of busy times, ns.
    pub busy_ns: i64,
    /// Sum of waiting, ns.
    pub wait_ns: i64,
    /// Sum of calls.
    pub calls: i64,
    /// Sum of attributed lifetimes, ns.
    pub attributed_ns: i64,
    /// Busy time of the mean thread, ns.
    pub mean_busy_ns: i64,
    /// Busy time of the busiest thread, ns.
    pub max_busy_ns: i64,
    /// `max_busy_ns / mean_busy_ns`: 1.0 is perfect balance; `None` where nothing was busy.
    pub imbalance: Option<f64>,
    /// Mean thread of this group against the mean thread of the least busy group, ≥ 1.0; `None` where that one was
    /// idle.
    pub busy_ratio: Option<f64>,
}

/// Threads and their groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadsView {
    /// Single threads, busiest first.
    pub threads: Vec<ThreadRow>,
    /// Groups, busiest first.
    pub groups: Vec<GroupRow>,
}
