use crate::ProcessId;

/// One process; a new program by exec in the same pid is a new row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent_pid: i32,
    /// Executable path.
    pub executable: String,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
    /// Wall time, ns.
    pub wall_ns: i64,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Process it belongs to.
    pub process: ProcessId,
    /// Kernel thread id.
    pub tid: i32,
    /// Name at its end (`comm`).
    pub name: String,
    /// Thread group: threads of the same start routine, split by name stem where names differ; `"main"` for main
    /// threads.
    pub group: String,
    /// Symbol of the start routine, demangled; empty for main threads and where unknown.
    pub start_routine: String,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
    /// Lifetime, ns.
    pub wall_ns: i64,
    /// Lifetime less waiting, ns.
    pub busy_ns: i64,
    /// Time inside APIs of class `wait`, `lock` and `io`, ns, outermost calls only.
    pub wait_ns: i64,
    /// Calls entered by the thread.
    pub calls: i64,
    /// Time in outermost timed calls, ns: what the executable's self time is less than the lifetime.
    pub outermost_ns: i64,
    /// The same, attributed (each instant divided by the number of active threads).
    pub outermost_attributed_ns: i64,
    /// Lifetime, attributed.
    pub attributed_ns: i64,
}
