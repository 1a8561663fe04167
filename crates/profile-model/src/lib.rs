//! The tables of a profile, as plain data.
//!
//! Everything between recording and reporting passes through [`Profile`]: `record` fills it, `profile-store` writes
//! and reads it as a folder of Parquet tables, `analyze` turns it into views. Times are signed nanoseconds
//! (Parquet INT64, no unsigned types), as everywhere in Transect.
#![forbid(unsafe_code)]

mod criticality;
mod feature;
mod flow;
mod latency;
mod loss;
mod meta;
mod metric;
mod overhead;
mod stack_merge;
mod thread;
mod wait;
mod walk;

pub use criticality::{
    CallStack, CodeAddress, FrameId, Origin, OtherThread, Parallelism, REAL_TIME, SchedSample, SchedSession,
    SchedTables, SchedWait, Slice, Space, StackFrame, StackId, StackInstruction, TIME_LIMIT, Task, TaskId, TimedSample,
    WaitKind,
};
pub use feature::{
    Dependence, Feature, FeatureId, FeatureRegion, FeatureSession, FeatureTables, FeatureVariable, HOT_LOOP,
    ImplicitFlow, RegionContext, RegionId, RegionKind, RegionMethod, RegionNode, RegionNodeId, RegionSlice, Verdict,
};
pub use flow::{ApiClass, Component, Flow, TraceEvent, bare_name};
pub use latency::{Latency, LatencyBucket, LatencyId, LatencySampling, LatencySession, LatencySlice};
pub use loss::{CODE_WITHOUT_FILE, Loss, LossKind};
pub use meta::{Clock, Machine, MemoryKills, Meta, Timing};
pub use metric::Metric;
pub use overhead::Overhead;
pub use stack_merge::LocatedStack;
pub use thread::{Process, Thread};
pub use wait::{Lock, Wait};
pub use walk::{
    KernelTiming, RECORDING_OVERHEAD, ShareMethod, UserTiming, WAITING_FOR_CPU, WalkChain, WalkEnd, WalkFrame,
    WalkGroup, WalkGroupId, WalkNode, WalkNodeId, WalkSession, WalkStep, WalkSystemCall, WalkTables,
};

/// Version of the table layout; raised whenever a reader of the older one would misread the newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// Index of a row in [`Profile::components`].
pub type ComponentId = u32;
/// Index of a row in [`Profile::processes`].
pub type ProcessId = u32;
/// Index of a row in [`Profile::threads`].
pub type ThreadId = u32;

/// One recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Facts about the recording as a whole.
    pub meta: Meta,
    /// ELF objects seen in any process, unique by path and build-id.
    pub components: Vec<Component>,
    /// Processes, the launched one first.
    pub processes: Vec<Process>,
    /// Threads of all processes.
    pub threads: Vec<Thread>,
    /// Call counts and times per (thread, context, calling component, API).
    pub flows: Vec<Flow>,
    /// Waiting inside blocking APIs per (thread, API, object, caller).
    pub waits: Vec<Wait>,
    /// Locks per (process, object, call path).
    pub locks: Vec<Lock>,
    /// Sequence of the APIs chosen with `--trace`, in order of time.
    pub trace: Vec<TraceEvent>,
    /// Sampled durations per (process, function).
    pub latency: Vec<Latency>,
    /// The same over time.
    pub latency_slices: Vec<LatencySlice>,
    /// What the scheduler's events tell.
    pub sched: SchedTables,
    /// What a walk found.
    pub walk: WalkTables,
    /// Time per feature.
    pub feature: FeatureTables,
    /// Everything that the recording knows it did not see.
    pub loss: Vec<Loss>,
}

impl Profile {
    /// A profile without rows.
    pub fn new(meta: Meta) -> Self {
        Self {
            meta,
            components: Vec::new(),
            processes: Vec::new(),
            threads: Vec::new(),
            flows: Vec::new(),
            waits: Vec::new(),
            locks: Vec::new(),
            trace: Vec::new(),
            latency: Vec::new(),
            latency_slices: Vec::new(),
            sched: SchedTables::default(),
            walk: WalkTables::default(),
            feature: FeatureTables::default(),
            loss: Vec::new(),
        }
    }
}
