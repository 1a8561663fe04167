//! Rows of the criticality view.

use serde::Serialize;
use transect_profile_model::{Origin, WaitKind};

/// Which code runs, or waits, while the others wait. Times are ns; *elapsed* time is `busy_ns + idle_ns`, and the
/// criticality of all paths, with `unattributed_ns`, adds up to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalityView {
    /// Nothing was seen of the scheduler: numbers are the agent's own knowledge of waiting APIs.
    pub estimate: bool,
    /// Each process counted as an application of its own.
    pub per_process: bool,
    /// Processors that the program was allowed to use.
    pub cpus: i64,
    /// Time with at least one active thread.
    pub busy_ns: i64,
    /// Time in which all threads waited.
    pub idle_ns: i64,
    /// `busy_ns + idle_ns`: what shares refer to.
    pub elapsed_ns: i64,
    /// Sum of the paths' corrected criticality.
    pub corrected_ns: i64,
    /// First instant observed, since the recording's start.
    pub start_ns: i64,
    /// Last instant observed.
    pub end_ns: i64,
    /// Criticality that no sample or stack covers; part of `busy_ns`.
    pub unattributed_ns: i64,
    /// Criticality gained in loops that wait for another thread; part of `busy_ns`.
    pub spin_ns: i64,
    /// Largest difference between counted and real number of active threads.
    pub drift: i64,
    /// Times that a thread stopped being active.
    pub slices: i64,
    /// Of them, with low parallelism.
    pub critical_slices: i64,
    /// Mean number of active threads while at least one was; `None` if none ever was.
    pub parallelism_mean: Option<f64>,
    /// Threads, most critical first.
    pub threads: Vec<CriticalThreadRow>,
    /// Thread groups, most critical first.
    pub groups: Vec<CriticalGroupRow>,
    /// Call paths, running and waiting, most critical first.
    pub paths: Vec<CriticalPathRow>,
    /// Functions, most critical first.
    pub functions: Vec<CriticalFunctionRow>,
    /// Time at each degree of parallelism, lowest first.
    pub parallelism: Vec<ParallelismRow>,
    /// Parallelism over time, in at most 200 steps; empty without waits and slices.
    pub over_time: Vec<OverTimeRow>,
    /// Waits, most critical first.
    pub waits: Vec<CriticalWaitRow>,
    /// Who waits for whom.
    pub graph: WaitGraph,
    /// What a speed-up of a path would save.
    pub what_if: Vec<WhatIfRow>,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalThreadRow {
    /// Process id.
    pub process: i32,
    /// Thread id.
    pub tid: i32,
    /// Name at its end.
    pub name: String,
    /// Thread group.
    pub group: String,
    /// Criticality.
    pub criticality_ns: i64,
    /// Criticality with spinning threads counted as waiting.
    pub corrected_ns: i64,
    /// Time on a processor.
    pub running_ns: i64,
    /// Time active but without a processor.
    pub runnable_ns: i64,
    /// Time blocked.
    pub blocked_ns: i64,
    /// Of the criticality, what no sample or stack covers.
    pub unattributed_ns: i64,
    /// First instant observed, since the recording's start.
    pub start_ns: i64,
    /// Last instant observed.
    pub end_ns: i64,
}

/// One thread group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalGroupRow {
    /// Its name.
    pub group: String,
    /// Number of threads.
    pub threads: i64,
    /// Sum of criticality.
    pub criticality_ns: i64,
    /// Sum of the corrected criticality.
    pub corrected_ns: i64,
    /// Sum of times on a processor.
    pub running_ns: i64,
    /// Sum of times active but without a processor.
    pub runnable_ns: i64,
    /// Sum of times blocked.
    pub blocked_ns: i64,
    /// Criticality of its most critical thread.
    pub max_criticality_ns: i64,
}

/// Whether a path was critical because it ran or because all waited for what it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// It ran.
    #[default]
    Running,
    /// It waited, and its wait ended a time in which all threads waited.
    Waiting,
}

/// One call path.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalPathRow {
    /// Functions, root first.
    pub stack: Vec<String>,
    /// Component of each function (display name); empty if unknown, `[kernel]` for the kernel.
    pub components: Vec<String>,
    /// Whether the stack reaches `main` or the start of a thread.
    pub complete: bool,
    /// Running or waiting.
    pub state: PathState,
    /// Criticality.
    pub criticality_ns: i64,
    /// The same with spinning threads counted as waiting.
    pub corrected_ns: i64,
    /// Of the criticality, what was gained spinning.
    pub spin_ns: i64,
    /// Samples, or waits.
    pub samples: i64,
    /// Lines that were hit, most samples first.
    pub lines: Vec<LineRow>,
    /// What a waiting path waited for.
    pub kind: Option<WaitKind>,
    /// Thread group, if all its threads are of one; else empty.
    pub group: String,
    /// The frame that a reader would call the place: the innermost function outside of libc and its kind.
    pub place: String,
    /// Of the criticality, what was gained while fewer threads were active than there are processors.
    pub low_parallelism_ns: i64,
    /// Of the criticality, what was gained in the kernel.
    pub kernel_ns: i64,
    /// What a waiting path waited for.
    pub object: String,
    /// Active time of a running path at each degree of parallelism.
    pub parallelism: Vec<ParallelismRow>,
}

/// One function, over all its paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CriticalFunctionRow {
    /// Its name.
    pub function: String,
    /// Component that holds it (display name).
    pub component: String,
    /// Criticality in its own code.
    pub own_ns: i64,
    /// Criticality of the paths whose place it is.
    pub place_ns: i64,
    /// Criticality in it and in what it called.
    pub inclusive_ns: i64,
    /// Of `inclusive_ns`, what was gained at low parallelism.
    pub low_parallelism_ns: i64,
    /// Time in which all threads waited, charged to waits in it and below it.
    pub waiting_ns: i64,
    /// Of `inclusive_ns`, what was gained spinning.
    pub spin_ns: i64,
    /// Samples in it and below it.
    pub samples: i64,
}

/// Parallelism in one step of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OverTimeRow {
    /// Start of the step, since the recording's start.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// Mean number of active threads.
    pub mean: f64,
    /// Time in which all threads waited.
    pub idle_ns: i64,
}

/// One line of code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineRow {
    /// Function.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: i32,
    /// Samples.
    pub samples: i64,
    /// Criticality gained there.
    pub criticality_ns: i64,
    /// Where the weight was found.
    pub origin: Origin,
}

/// Time at one degree of parallelism, all applications together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ParallelismRow {
    /// Active threads; 0 is idle time.
    pub n: i32,
    /// Time.
    pub ns: i64,
}

/// A thread that a wait depended on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartyRow {
    /// Thread id.
    pub tid: i32,
    /// Its name.
    pub thread: String,
    /// Function that it was in.
    pub function: String,
    /// Its stack, root first.
    pub stack: Vec<String>,
}

/// What a thread and a function contributed to a wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartyShare {
    /// Name of the thread.
    pub thread: String,
    /// Function that it was in.
    pub function: String,
    /// Time waited for it there.
    pub ns: i64,
}

/// Waits of one kind, for one object, at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CriticalWaitRow {
    /// What for.
    pub kind: WaitKind,
    /// File, peer, address with symbol; empty if there is none.
    pub object: String,
    /// Thread group that waited.
    pub group: String,
    /// Who held it when the wait began.
    pub holder: Option<PartyRow>,
    /// Who ended the wait.
    pub waker: Option<PartyRow>,
    /// Waits.
    pub count: i64,
    /// Time waited, summed over threads.
    pub ns: i64,
    /// Time in which all threads waited that these waits ended.
    pub idle_ns: i64,
    /// `idle_ns`, plus the criticality that holders, or else wakers, gained meanwhile at low parallelism.
    pub critical_ns: i64,
    /// The waiter's stack, root first.
    pub stack: Vec<String>,
    /// Threads that waited.
    pub threads: i64,
    /// Of `critical_ns`, what holders, or else wakers, gained.
    pub holder_gain_ns: i64,
    /// The holders waited for longest.
    pub holders: Vec<PartyShare>,
    /// Of spin-waits: who worked most meanwhile, an estimate.
    pub meanwhile: Option<PartyRow>,
}

/// Who waits for whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitGraph {
    /// Thread groups, and what is waited for outside of the program.
    pub nodes: Vec<WaitNode>,
    /// From who waits to what is waited for, longest first.
    pub edges: Vec<WaitEdge>,
    /// Sets of nodes that wait for each other, by number, and for nothing else.
    pub knots: Vec<Vec<usize>>,
}

/// What a node of the wait-for graph is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum NodeKind {
    Thread,
    #[default]
    Group,
    Disk,
    Net,
    Timer,
    Memory,
    Cpu,
    Other,
}

/// One node of the wait-for graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: NodeKind,
    /// Time that it waited.
    pub wait_ns: i64,
    /// Time that it was active.
    pub self_ns: i64,
    /// The knot it is part of, by number.
    pub knot: Option<usize>,
    /// Threads of the group.
    pub threads: i64,
    /// Time that others waited for it, directly or through others, while it did not wait itself.
    pub blamed_ns: i64,
}

/// One edge of the wait-for graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitEdge {
    /// Who waits, by number.
    pub from: usize,
    /// For what.
    pub to: usize,
    /// Time waited directly.
    pub ns: i64,
    /// The same, less what is passed on to what `to` itself waited for, plus what is passed on to it.
    pub cascaded_ns: i64,
    /// Waits.
    pub count: i64,
    /// Time by kind, longest first.
    pub kinds: Vec<(WaitKind, i64)>,
    /// The objects waited for longest.
    pub objects: Vec<String>,
}

/// What is made faster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhatIfScope {
    /// The function's own code.
    #[default]
    Own,
    /// The function with all it calls.
    Inclusive,
    /// A wait.
    Wait,
}

/// What one speed-up of one path would save.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhatIfRow {
    /// The path: function and its callers, or what was waited for.
    pub path: String,
    /// How many times faster; `inf` if it took no time at all.
    #[serde(serialize_with = "speedup")]
    pub speedup: f64,
    /// Least saving, as a share of the whole run, 0–1.
    pub saving_low: f64,
    /// Largest saving.
    pub saving_high: f64,
    /// Least saving, ns.
    pub saving_low_ns: i64,
    /// Largest saving, ns.
    pub saving_high_ns: i64,
    /// Best estimate, between the bounds, as a share of the whole run.
    pub saving: f64,
    /// Best estimate, ns.
    pub saving_ns: i64,
    /// What is made faster.
    pub scope: WhatIfScope,
    /// Kind of a wait.
    pub kind: Option<WaitKind>,
    /// Object of a wait.
    pub object: String,
    /// A call path that leads there, root first.
    pub stack: Vec<String>,
}

/// JSON has no infinity.
fn speedup<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.serialize_str("inf") }
}
