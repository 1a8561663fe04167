use serde::{Deserialize, Serialize};

use crate::{ComponentId, ThreadId};

/// One ELF object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Path as the loader reported it, absolute for the executable.
    pub path: String,
    /// GNU build-id in lower-case hexadecimal; empty if the object has none.
    pub build_id: String,
    /// True for a process' executable.
    pub executable: bool,
    /// True for the vDSO, the dynamic loader and unknown code.
    pub synthetic: bool,
    /// For a static component, the object that it is part of: its path is that object's, a `/` and its name.
    pub static_in: Option<ComponentId>,
}

/// What kind of time an API takes; the words of the wait-API data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiClass {
    /// Ordinary code.
    Compute,
    /// Input and output that may block (`read`, `fsync`, …).
    Io,
    /// Acquisition of a mutex, rwlock or spin lock.
    Lock,
    /// Waiting for somebody (`sleep`, `pthread_join`, `poll`, …).
    Wait,
    /// Counted but never timed (`setjmp`, `vfork`, `exit`, …).
    CountOnly,
}

impl ApiClass {
    /// `lock` and `wait` are waiting (the contract's `wait` flag).
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Lock | Self::Wait)
    }

    /// The word in data file, JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Io => "io",
            Self::Lock => "lock",
            Self::Wait => "wait",
            Self::CountOnly => "count-only",
        }
    }

    /// Inverse of [`ApiClass::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Compute, Self::Io, Self::Lock, Self::Wait, Self::CountOnly].into_iter().find(|c| c.as_str() == word)
    }
}

/// Folded calls of one API by one component on one thread (Scaler, ASE '24, section 3.3).
///
/// Times are estimates for *all* calls: a call timed one in *k* counts *k* times. `None` where the mode or class
/// takes no times.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Thread that called.
    pub thread: ThreadId,
    /// Context of the call: 0 is the program as a whole, others are named by later collectors (feature regions).
    pub context: u32,
    /// Calling component.
    pub caller: ComponentId,
    /// Component that holds the target.
    pub callee: ComponentId,
    /// Demangled name, without version.
    pub api: String,
    /// Raw symbol name.
    pub symbol: String,
    /// Symbol version the caller asked for; empty if none.
    pub version: String,
    /// What kind of time the calls take.
    pub class: ApiClass,
    /// Calls entered; exact.
    pub calls: i64,
    /// Calls that were timed.
    pub timed_calls: i64,
    /// Calls left by unwinding, longjmp or thread end.
    pub abandoned_calls: i64,
    /// Wall time from entry to return, recursive re-entries once.
    pub total_ns: Option<i64>,
    /// 95 % interval of `total_ns`; `None` where every call was timed.
    pub total_ns_low: Option<i64>,
    /// Upper end of the interval.
    pub total_ns_high: Option<i64>,
    /// `total_ns` less calls made meanwhile by the callee into other components.
    pub self_ns: Option<i64>,
    /// 95 % interval of `self_ns`.
    pub self_ns_low: Option<i64>,
    /// Upper end of the interval.
    pub self_ns_high: Option<i64>,
    /// Of `self_ns`, in calls that callbacks made, ns: they are flows of their own as well. 0 where there were none.
    pub called_back_ns: i64,
    /// Of `called_back_ns`, in calls between the same two components, ns: one time in the totals of two of their flows.
    pub called_back_same_edge_ns: i64,
    /// ∫ dt / max(1, active threads) over `total_ns`.
    pub attributed_ns: Option<i64>,
    /// Criticality that the calling thread gained during the calls, waits in them left out; `None` unless the scheduler
    /// was recorded too.
    pub criticality_ns: Option<i64>,
    /// Median call, with `--histogram`.
    pub p50_ns: Option<i64>,
    /// 99th percentile, with `--histogram`.
    pub p99_ns: Option<i64>,
    /// Longest call, with `--histogram`.
    pub max_ns: Option<i64>,
    /// Bytes asked for, where the data file says which argument holds the size.
    pub bytes: Option<i64>,
    /// True if this row was requested with dlsym (later requesters share the canonical stub).
    pub dlsym: bool,
}

impl Flow {
    /// `self_ns` without what callbacks called, ns: those of all flows of a thread are disjoint. 0 where no times were taken.
    pub fn exclusive_ns(&self) -> i64 {
        self.self_ns.unwrap_or(0).saturating_sub(self.called_back_ns.max(0)).max(0)
    }
}

/// One traced call (`--trace GLOB`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time since the start of the recording, ns.
    pub time_ns: i64,
    /// Calling thread.
    pub thread: ThreadId,
    /// Calling component.
    pub caller: ComponentId,
    /// Demangled API name.
    pub api: String,
    /// The six integer argument registers (rdi, rsi, rdx, rcx, r8, r9), as signed bits.
    pub args: [i64; 6],
}

/// A function's name without what a C library puts before its own name for it: `malloc` of `__libc_malloc`. Flows and frames
/// of one call may differ in that.
pub fn bare_name(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    ["libc_", "GI_", "IO_"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}
