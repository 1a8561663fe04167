use serde::{Deserialize, Serialize};

use crate::{ComponentId, Metric, ProcessId, Space};

/// Row number in [`WalkTables::groups`].
pub type WalkGroupId = u32;
/// Row number in [`WalkTables::nodes`].
pub type WalkNodeId = u32;

/// The function under which a walk shows time in the agent that counts calls, while the loader starts it or tells it of objects.
pub const RECORDING_OVERHEAD: &str = "[recording overhead]";

/// The function under which a walk shows time in which a thread could have gone on there, but had no CPU.
pub const WAITING_FOR_CPU: &str = "[waiting for a CPU]";

/// The tables of a walk ("CrossWalk": the search for the function that finally holds the time, down the joined call
/// graph of program and kernel); empty without one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WalkTables {
    /// Thread groups that were looked at.
    pub groups: Vec<WalkGroup>,
    /// The joined call tree of each group; a node comes after its parent.
    pub nodes: Vec<WalkNode>,
    /// What the search found, the largest share first.
    pub chains: Vec<WalkChain>,
    /// What the search did, in order of time.
    pub steps: Vec<WalkStep>,
    /// Times in system calls, exact.
    pub system_calls: Vec<WalkSystemCall>,
}

/// Facts about a walk as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WalkSession {
    /// What shares are shares of.
    pub metric: Metric,
    /// A function is followed if at least this share of its group's time is in it, 0.0–1.0.
    pub threshold: f64,
    /// Length of one step of the search, ns.
    pub window_ns: i64,
    /// Probes allowed at once.
    pub max_probes: i64,
    /// How functions of the kernel were timed.
    pub kernel_timing: KernelTiming,
    /// How functions of the program were timed; `None` if they were not: the sampled shares stand.
    pub user_timing: Option<UserTiming>,
    /// Threads counted by their criticality: the walk follows what delays the whole program.
    pub critical: bool,
    /// Samples a second and CPU, at first: where enough is known, they come less often.
    pub sample_hz: i64,
    /// From the walk's start to the first chain that was whole, ns; `None` if it ended before.
    pub found_after_ns: Option<i64>,
    /// Observed time: from `start_ns` to `end_ns` since the recording's start.
    pub start_ns: i64,
    /// See `start_ns`.
    pub end_ns: i64,
    /// Since the recording's start: system calls were counted until then, and came so fast that counting them all would have
    /// cost too much; `None`: they were counted to the end, or not at all.
    #[serde(default)]
    pub system_calls_until_ns: Option<i64>,
    /// Most probes that were live at once.
    pub probes_live: i64,
    /// Probes that were inserted over the whole walk.
    pub probes_inserted: i64,
    /// The longest time that the program was held, ns.
    pub longest_stop_ns: i64,
}

/// How functions of the kernel are timed, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelTiming {
    /// One program at entry and return of many functions (Linux 6.10).
    KprobeSession,
    /// Trampolines at entry and exit (Linux 5.5).
    Fentry,
    /// Two programs at entries and returns of many functions (Linux 5.18, `CONFIG_FPROBE`).
    KprobeMulti,
    /// A kprobe and a kretprobe for each function.
    Kprobe,
    /// None: samples, adjusted to the exact times of system calls and numbers of faults.
    Sampling,
}

impl KernelTiming {
    /// All, best first.
    pub const ALL: [Self; 5] = [Self::KprobeSession, Self::Fentry, Self::KprobeMulti, Self::Kprobe, Self::Sampling];

    /// The word for it in options and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KprobeSession => "kprobe-session",
            Self::Fentry => "fentry",
            Self::KprobeMulti => "kprobe-multi",
            Self::Kprobe => "kprobe",
            Self::Sampling => "sampling",
        }
    }

    /// Inverse of [`KernelTiming::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timing| timing.as_str() == word)
    }
}

/// How functions of the program are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserTiming {
    /// Jumps written into the running program.
    Probes,
    /// Kernel uprobes, where jumps can't be written.
    Uprobes,
}

/// Threads of one name in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkGroup {
    /// Their process.
    pub process: ProcessId,
    /// `main`, or the threads' name without trailing numbers.
    pub thread_group: String,
    /// Threads observed.
    pub threads: i64,
    /// The whole of which shares are taken, in the metric's unit: with [`Metric::Wall`] the threads' lifetime while
    /// they were observed, ns.
    pub total: i64,
    /// Of their lifetime, on a CPU, ns.
    pub on_ns: i64,
    /// Runnable: wanted a CPU and had none, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
}

/// One function as it was reached by one call path: a node of the joined call tree. Times include what it calls; all
/// are adjusted to what is known exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkNode {
    /// Whose tree.
    pub group: WalkGroupId,
    /// The caller; `None` at a root.
    pub parent: Option<WalkNodeId>,
    /// Name, demangled, without `.isra`, `.part`, `.cold`, `.constprop`. A system call has its bare name (`openat`), a
    /// fault is `asm_exc_page_fault`.
    pub function: String,
    /// The component that holds it, `None` for the kernel and for code without a file.
    pub component: Option<ComponentId>,
    /// User or kernel.
    pub space: Space,
    /// Inlined into its caller.
    pub inlined: bool,
    /// Where in its source most of its time is (in itself, or in calling the next function); empty if unknown.
    pub file: String,
    /// See `file`; 0 if unknown.
    pub line: i32,
    /// Virtual address in the component's ELF file at which most of its time is, as in [`crate::CodeAddress`]; only where no
    /// line is known.
    pub address: Option<i64>,
    /// Its part of [`WalkGroup::total`].
    pub total: i64,
    /// Time on a CPU, ns.
    pub on_ns: i64,
    /// Runnable: wanted a CPU and had none, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
    /// Samples and waits seen in it.
    pub samples: i64,
}

/// How a share was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareMethod {
    /// Every call was timed.
    Exact,
    /// From samples and waits.
    Sampled,
    /// From the exact times of system calls.
    SyscallExact,
}

impl ShareMethod {
    /// The word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Sampled => "sampled",
            Self::SyscallExact => "syscall-exact",
        }
    }

    /// Inverse of [`ShareMethod::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Exact, Self::Sampled, Self::SyscallExact].into_iter().find(|method| method.as_str() == word)
    }
}

/// Why a chain goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalkEnd {
    /// The last function holds the time itself.
    Function,
    /// It ends in waiting.
    Waiting,
    /// The last function's callees share the time; none of them is above the threshold.
    Spread,
    /// Nothing is above the threshold, not even the root: the program idled or ended too soon.
    NothingAboveThreshold,
}

impl WalkEnd {
    /// The word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Waiting => "waiting",
            Self::Spread => "spread",
            Self::NothingAboveThreshold => "nothing-above-threshold",
        }
    }

    /// Inverse of [`WalkEnd::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Function, Self::Waiting, Self::Spread, Self::NothingAboveThreshold]
            .into_iter()
            .find(|end| end.as_str() == word)
    }
}

/// A way from a root down to where the search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkChain {
    /// Whose.
    pub group: WalkGroupId,
    /// Share of the group's total that the last frame holds, 0.0–1.0.
    pub share: f64,
    /// Why it ends there.
    pub ends: WalkEnd,
    /// What it waits for, in words: kind and object (`poll: pipe to helper (412)`); empty if it doesn't wait.
    pub waiting_for: String,
    /// Who ends the waiting, or in which other task work is done for it: thread name and function; empty if unknown.
    pub woken_by: String,
    /// Its frames, root first.
    pub frames: Vec<WalkFrame>,
}

/// One frame of a chain: the edge from its caller to it.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkFrame {
    /// The function.
    pub node: WalkNodeId,
    /// Share of the group's total, 0.0–1.0.
    pub share: f64,
    /// 95 % interval of it.
    pub share_low: f64,
    /// See `share_low`.
    pub share_high: f64,
    /// How it was measured.
    pub method: ShareMethod,
    /// The sampled share where the two differ by more than three standard deviations although it was timed twice.
    pub disputed: Option<f64>,
    /// Who mostly ended the waits in it (thread name and function); empty if it doesn't wait or nobody is known.
    pub woken_by: String,
}

/// One step of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkStep {
    /// When it ended, since the recording's start, ns.
    pub time_ns: i64,
    /// Whose tree.
    pub group: WalkGroupId,
    /// The function whose callees were looked at.
    pub parent: WalkNodeId,
    /// The callee.
    pub node: WalkNodeId,
    /// Its share, 0.0–1.0.
    pub share: f64,
    /// How it was measured.
    pub method: ShareMethod,
    /// It is followed further.
    pub followed: bool,
    /// Why it was not timed though it could have been followed (too short for a probe, no probe can be there, …).
    pub note: String,
}

/// Time of one thread group in one system call, exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkSystemCall {
    /// Whose.
    pub group: WalkGroupId,
    /// Its name.
    pub name: String,
    /// Times entered.
    pub calls: i64,
    /// On a CPU, ns.
    pub on_ns: i64,
    /// Runnable: wanted a CPU and had none, ns.
    pub runnable_ns: i64,
    /// Blocked, ns.
    pub blocked_ns: i64,
}
