use crate::{ComponentId, ProcessId, ThreadId};

/// Waiting inside one blocking API for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The thread that waited.
    pub thread: ThreadId,
    /// Blocking API, demangled.
    pub api: String,
    /// What was waited for: lock address with symbol where known, `fd 5`, or empty.
    pub object: String,
    /// Number of waits.
    pub count: i64,
    /// Sum, ns.
    pub ns: i64,
    /// Component that called.
    pub caller: ComponentId,
}

/// One lock as seen from one call path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Process whose memory holds the lock.
    pub process: ProcessId,
    /// Lock kind and address, with symbol where it lies in a component's data: `mutex 0x55d0 (queue_lock)`.
    pub object: String,
    /// Call path of the acquisition, `component!function` outermost first, joined by ` > `.
    pub path: String,
    /// Acquisitions, and attempts whose time ran out.
    pub acquisitions: i64,
    /// Acquisitions that found the lock held.
    pub contended: i64,
    /// Time waited, ns.
    pub wait_ns: i64,
    /// Time held, ns; estimated from sampled acquisitions.
    pub hold_ns: i64,
    /// Lower end of its 95 % interval; `None`: not known.
    pub hold_ns_low: Option<i64>,
    /// Upper end.
    pub hold_ns_high: Option<i64>,
}
