//! Who waits for whom.

use serde::Serialize;
use transect_profile_model::WaitKind;

/// Threads, devices and the time that the ones waited for the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitGraph {
    /// Thread groups and what is outside of the program.
    pub nodes: Vec<WaitNode>,
    /// Waits between them, longest first.
    pub edges: Vec<WaitEdge>,
    /// Strongly connected nodes that wait (for a percent of the time or more) for nobody outside of their knot: where
    /// waiting ends, most blamed first. Numbers of nodes.
    pub knots: Vec<Vec<usize>>,
}

/// What a node of the graph is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A group of threads.
    #[default]
    Group,
    /// One thread.
    Thread,
    /// Files.
    Disk,
    /// Sockets.
    Net,
    /// Sleeping.
    Timer,
    /// Page faults.
    Memory,
    /// Whatever else is outside of the program, or not known.
    Other,
}

/// One node of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitNode {
    /// Name of the group or thread, or `disk`, `net`, `timer`, `memory`, `other`.
    pub name: String,
    /// What it is.
    pub what: NodeKind,
    /// Its threads.
    pub threads: i64,
    /// Time that its threads waited, ns.
    pub wait_ns: i64,
    /// Criticality of its threads, ns.
    pub self_ns: i64,
    /// Time that others waited for it, directly or through others, while it did not wait itself, ns.
    pub blamed_ns: i64,
    /// The knot it belongs to.
    pub knot: Option<usize>,
}

/// Waits of one node for another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitEdge {
    /// The waiting node's number.
    pub from: usize,
    /// The node it waits for: who holds the lock, or else who ended the wait.
    pub to: usize,
    /// Time waited, ns.
    pub ns: i64,
    /// The same and the time that others waited for the waiting threads meanwhile, ns (wPerf, OSDI '18).
    pub cascaded_ns: i64,
    /// See [`crate::CriticalWaitRow`].
    pub critical_ns: i64,
    /// Waits.
    pub count: i64,
    /// Kinds with their time, longest first.
    pub kinds: Vec<(WaitKind, i64)>,
    /// Objects, longest first; a few.
    pub objects: Vec<String>,
}
