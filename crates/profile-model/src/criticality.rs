use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ComponentId, ProcessId};

/// Row number in [`SchedTables::tasks`].
pub type TaskId = u32;
/// Row number in [`SchedTables::frames`].
pub type FrameId = u32;
/// Row number in [`SchedTables::stacks`].
pub type StackId = u32;

/// The tables of the scheduler collector; empty without it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedTables {
    /// Threads as the scheduler saw them.
    pub tasks: Vec<Task>,
    /// Time at each degree of parallelism.
    pub parallelism: Vec<Parallelism>,
    /// Places in code that stacks refer to.
    pub frames: Vec<StackFrame>,
    /// Call stacks that samples and waits refer to.
    pub stacks: Vec<CallStack>,
    /// Instructions at which their frames were met, sorted; left out by readers that need none, and unknown to older profiles.
    pub instructions: Vec<StackInstruction>,
    /// Where stacks were at in functions without name or line, by stack and depth: what names can be completed by later.
    /// Without it ([`SchedTables::forget_addresses`]) stacks that differ in nothing else are one.
    pub addresses: Vec<CodeAddress>,
    /// Samples weighted by criticality.
    pub samples: Vec<SchedSample>,
    /// When the timer sampled what; thinned out evenly where there are too many.
    pub moments: Vec<TimedSample>,
    /// Times that threads were not active, in order of their end.
    pub waits: Vec<SchedWait>,
    /// Times that threads were active, in order of their end; left out by readers that need no timeline.
    pub slices: Vec<Slice>,
}

/// Facts about a recording of scheduler events as a whole ("GAPP: A Fast Profiler for Detecting Serialization
/// Bottlenecks in Parallel Linux Applications", ICPE '20, made exact: every change of the number *n* of active threads
/// advances the clock, so the criticality of all threads adds up to `busy_ns`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedSession {
    /// Recorded without privileges: by samples of the user's own, or, where `sample_hz` is 0, from the agent's times of
    /// waiting APIs alone.
    pub estimate: bool,
    /// Whether all processes count as one application or each process as one of its own.
    pub per_process: bool,
    /// CPUs that the program was allowed to use: *P*. Parallelism below it is low.
    pub cpus: i64,
    /// Samples a second and CPU.
    pub sample_hz: i64,
    /// Stacks were taken at the end of slices that left fewer active threads than this.
    pub min_parallelism: i64,
    /// Frames kept of a stack.
    pub stack_depth: i64,
    /// Time with at least one active thread, ns, summed over applications.
    pub busy_ns: i64,
    /// Time in which all threads waited, ns, summed over applications.
    pub idle_ns: i64,
    /// Criticality of threads that no sample or stack covers, ns; part of `busy_ns`.
    pub unattributed_ns: i64,
    /// Largest difference found between counted and real number of active threads in the audits (one a second), and
    /// not mended by the next event of the thread.
    pub drift: i64,
    /// Times that a thread stopped being active.
    pub slices: i64,
    /// Of them, with parallelism below `min_parallelism`.
    pub critical_slices: i64,
    /// First and last instant observed, since the recording's start, ns.
    pub start_ns: i64,
    /// See `start_ns`.
    pub end_ns: i64,
}

/// [`Task::nice`] of a real-time thread: it goes before all others.
pub const REAL_TIME: i32 = -100;

/// One thread as the scheduler saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Process it belongs to.
    pub process: ProcessId,
    /// Thread id as the program's own pid namespace numbers it.
    pub tid: i32,
    /// Name at its end (`comm`).
    pub name: String,
    /// Thread group: `main` for main threads, else the name without trailing numbers.
    pub group: String,
    /// The thread that made it, `None` if it was there when the recording began.
    pub parent: Option<TaskId>,
    /// First instant observed, since the recording's start, ns.
    pub start_ns: i64,
    /// Last instant observed, ns.
    pub end_ns: i64,
    /// Criticality: the time it was active, each instant divided by the number of active threads, ns. Exact.
    pub criticality_ns: i64,
    /// Time on a CPU, ns.
    pub running_ns: i64,
    /// Time active but without a CPU, ns.
    pub runnable_ns: i64,
    /// Time blocked, ns.
    pub blocked_ns: i64,
    /// Of `criticality_ns`, what no sample or stack covers, ns.
    pub unattributed_ns: i64,
    /// CPUs that it was allowed to use in the end, as the kernel lists them (`0-3,8`); empty if unknown.
    pub allowed_cpus: String,
    /// Its nice value in the end, or [`REAL_TIME`].
    pub nice: i32,
}

/// Time at one degree of parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// The application: the process it is counted for, `None` if all processes are one.
    pub process: Option<ProcessId>,
    /// Active threads; 0 is idle time.
    pub n: i32,
    /// Time, ns.
    pub ns: i64,
}

/// Where a frame's code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// In the program.
    User,
    /// In the kernel.
    Kernel,
}

/// One place in code: a function and a line of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// Name, demangled, without `.isra`, `.part`, `.cold`, `.constprop`; `0x7f…` if unknown.
    pub function: String,
    /// The component that holds it, `None` for the kernel and for code without a file (a JIT's).
    pub component: Option<ComponentId>,
    /// Source file, empty if unknown.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: i32,
    /// Inlined into the frame before it.
    pub inlined: bool,
    /// User or kernel.
    pub space: Space,
}

/// A call stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallStack {
    /// Frames, root first, kernel frames last.
    pub frames: Vec<FrameId>,
    /// Whether it reaches `main` or the start of a thread; else it was cut off or unwinding stopped.
    pub complete: bool,
    /// Frames whose function the one before called by a linkage table, as flows are: one bit each, the root's lowest. Of deeper
    /// ones it is not known.
    pub linked: u128,
}

impl CallStack {
    /// The frame was called by a linkage table, or by what dlsym gave; see [`CallStack::linked`].
    pub fn link(&mut self, depth: usize) {
        self.linked |= u32::try_from(depth).ok().and_then(|depth| 1_u128.checked_shl(depth)).unwrap_or(0);
    }

    /// See [`CallStack::linked`].
    pub fn is_linked(&self, depth: usize) -> bool {
        depth < 128 && self.linked >> depth & 1 != 0
    }
}

/// One instruction at which a frame of a stack was met. Stacks are told apart by functions and lines, so that a frame may have
/// been at several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackInstruction {
    /// The stack.
    pub stack: StackId,
    /// Place of the frame in it, 0 for the root. Frames inlined into that one follow it, and are at the same instruction.
    pub depth: u32,
    /// In the frame's component, as its file numbers addresses: where the instruction begins, or, of a call that has not
    /// returned, its last byte.
    pub address: u64,
    /// Samples of the timer.
    pub samples: i64,
    /// Time on a CPU that they stand for, ns.
    pub running_ns: i64,
    /// Time that threads waited there, ns.
    pub blocked_ns: i64,
}

/// The place in code that a frame of a stack stands for, where the recording found no name or no line for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeAddress {
    /// The stack.
    pub stack: StackId,
    /// Position of the frame in [`CallStack::frames`].
    pub depth: u32,
    /// Virtual address in the frame's component, as its ELF file numbers them; of a call, an address in the call instruction.
    pub address: i64,
}

/// Where the weight of a [`SchedSample`] was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A timer's sample of a running thread.
    Sample,
    /// The stack at the end of a slice, or with which a thread that was mostly queued left its CPU.
    StackTop,
}

/// Samples of one thread at one stack and one degree of parallelism. The weight of a sample is the criticality that the
/// thread gained since its last one, so over all samples plus [`Task::unattributed_ns`] weights add up to criticality.
/// Rows without samples of [`Origin::Sample`] are of threads too short to be met by many: others of their kind stand for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedSample {
    /// The thread.
    pub task: TaskId,
    /// Its stack.
    pub stack: StackId,
    /// Active threads at that moment.
    pub n: i32,
    /// Where the weight was found.
    pub origin: Origin,
    /// Samples.
    pub samples: i64,
    /// Criticality gained, ns.
    pub criticality_ns: i64,
    /// Active time since the last sample, ns.
    pub active_ns: i64,
    /// The sampled instruction is in a loop that waits for another thread: small, with a pause or without a store.
    pub spin: bool,
}

/// One sample of the timer by its time: what [`SchedSample`] sums up. Tells which stretches of a thread a path runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedSample {
    /// Since the recording's start, ns.
    pub time_ns: i64,
    /// The thread.
    pub task: TaskId,
    /// Its stack.
    pub stack: StackId,
    /// Time between the timer's samples then, ns: as long it stands for time on a CPU.
    pub period_ns: i64,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum WaitKind {
    Mutex,
    Rwlock,
    Condition,
    Barrier,
    Semaphore,
    Join,
    Futex,
    Spin,
    Sleep,
    FileRead,
    FileWrite,
    FileSync,
    Socket,
    Pipe,
    Poll,
    Child,
    PageFault,
    RunQueue,
    KernelLock,
    Signal,
    Other,
}

impl WaitKind {
    /// All kinds.
    pub const ALL: [Self; 21] = [
        Self::Mutex,
        Self::Rwlock,
        Self::Condition,
        Self::Barrier,
        Self::Semaphore,
        Self::Join,
        Self::Futex,
        Self::Spin,
        Self::Sleep,
        Self::FileRead,
        Self::FileWrite,
        Self::FileSync,
        Self::Socket,
        Self::Pipe,
        Self::Poll,
        Self::Child,
        Self::PageFault,
        Self::RunQueue,
        Self::KernelLock,
        Self::Signal,
        Self::Other,
    ];

    /// Waits for a disk, which a file asked for.
    pub fn is_of_files(self) -> bool {
        matches!(self, Self::FileRead | Self::FileWrite | Self::FileSync)
    }

    /// The word in tables, JSON and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
            Self::Condition => "condition",
            Self::Barrier => "barrier",
            Self::Semaphore => "semaphore",
            Self::Join => "join",
            Self::Futex => "futex",
            Self::Spin => "spin",
            Self::Sleep => "sleep",
            Self::FileRead => "file-read",
            Self::FileWrite => "file-write",
            Self::FileSync => "file-sync",
            Self::Socket => "socket",
            Self::Pipe => "pipe",
            Self::Poll => "poll",
            Self::Child => "child",
            Self::PageFault => "page-fault",
            Self::RunQueue => "run-queue",
            Self::KernelLock => "kernel-lock",
            Self::Signal => "signal",
            Self::Other => "other",
        }
    }

    /// Inverse of [`WaitKind::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A thread that a wait depends on, and what it ran then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OtherThread {
    /// The thread.
    pub task: TaskId,
    /// Its stack: of a holder when the wait began (or at its first event or sample after that), of a waker at the wake.
    pub stack: Option<StackId>,
}

/// Times that a thread was not active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedWait {
    /// The thread that waited.
    pub task: TaskId,
    /// What for.
    pub kind: WaitKind,
    /// File name, peer, address with symbol; empty if there is none. Shared: rows are many, objects are few.
    pub object: Arc<str>,
    /// The waiter's stack when it blocked; `None` where parallelism was not low or the stack was lost.
    pub stack: Option<StackId>,
    /// Who held the lock when the wait began.
    pub holder: Option<OtherThread>,
    /// Who ended it; `None` if an interrupt did.
    pub waker: Option<OtherThread>,
    /// Waits in this row. More than one where waits came faster than they can be kept one by one: `begin_ns` and
    /// `end_ns` are then the first and the last instant, and the rest are sums.
    pub count: i64,
    /// When it began, since the recording's start, ns.
    pub begin_ns: i64,
    /// When the thread was active again, ns.
    pub end_ns: i64,
    /// Time waited, ns: `end_ns - begin_ns` for a single wait.
    pub ns: i64,
    /// Time in which no thread was active that this wait ended, ns. Adds up to `idle_ns` over all waits.
    pub idle_ns: i64,
    /// Criticality that its holder, or else its waker, gained during the wait while fewer threads were active than
    /// there are CPUs, ns.
    pub holder_gain_ns: i64,
}

/// The object of a wait for events, or for a semaphore, that nothing ended but its own time limit.
pub const TIME_LIMIT: &str = "a time limit";

impl SchedWait {
    /// Whether it is no single wait but what came too fast to be kept one by one: see [`SchedWait::count`].
    pub fn is_sum(&self) -> bool {
        self.end_ns > self.begin_ns && (self.count > 1 || self.ns != self.end_ns - self.begin_ns)
    }
}

/// One stretch of time in which a thread was active: the timeline. The time between two of them is a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The thread.
    pub task: TaskId,
    /// Start since the recording's start, ns.
    pub start_ns: i64,
    /// Its length, ns.
    pub active_ns: i64,
    /// Of it without a CPU, ns.
    pub runnable_ns: i64,
    /// Criticality gained in it, ns.
    pub criticality_ns: i64,
    /// The wait that followed, row number in [`SchedTables::waits`]; -1 if none or merged.
    pub wait: i32,
}
