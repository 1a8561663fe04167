use serde::{Deserialize, Serialize};

/// [`Loss::place`] of addresses in code that was made at run time: it lies in no file that could name it.
pub const CODE_WITHOUT_FILE: &str = "code without a file";

/// Something the recording knows it did not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What was lost.
    pub what: LossKind,
    /// Where: a component, a thread, a process or a file.
    pub place: String,
    /// How many.
    pub count: i64,
    /// Why, in words.
    pub reason: String,
}

/// Kinds of loss (the contract's `loss.what`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Linkage slots left as they were.
    UnhookedSlots,
    /// Calls that should have been timed and were only counted.
    UntimedCalls,
    /// Events that are in all counts and times, but were not kept one by one.
    SummedEvents,
    /// Trace events overwritten or not written.
    DroppedEvents,
    /// Stacks cut short.
    TruncatedStacks,
    /// Functions and sites that could not be probed.
    SkippedFunctions,
    /// Addresses without a name.
    UnresolvedNames,
    /// Child processes that ran without the agent.
    UnprofiledChildren,
    /// Programs that a measured process began to execute: their first calls, or all, are missing.
    ReplacedPrograms,
    /// Programs that ran without the privileges of their files: the kernel gives none to what an ordinary user traces.
    UnprivilegedPrograms,
    /// Threads or processes for which no memory was left.
    UnrecordedThreads,
    /// Milliseconds in which a virtual machine's CPUs had work and the host gave them to others.
    StealTime,
    /// Milliseconds in which threads wanted a CPU and had none, where it is not known in which calls.
    QueuedTime,
    /// Milliseconds of the recording before calls were counted.
    UncountedTime,
    /// Collectors of the default set that this machine or program does not permit.
    CollectorsLeftOut,
}

impl LossKind {
    /// The words in JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnhookedSlots => "unhooked slots",
            Self::UntimedCalls => "untimed calls",
            Self::SummedEvents => "summed events",
            Self::DroppedEvents => "dropped events",
            Self::TruncatedStacks => "truncated stacks",
            Self::SkippedFunctions => "skipped functions",
            Self::UnresolvedNames => "unresolved names",
            Self::UnprofiledChildren => "unprofiled children",
            Self::ReplacedPrograms => "replaced programs",
            Self::UnprivilegedPrograms => "unprivileged programs",
            Self::UnrecordedThreads => "unrecorded threads",
            Self::StealTime => "milliseconds of steal time",
            Self::QueuedTime => "milliseconds without a CPU",
            Self::UncountedTime => "milliseconds without counted calls",
            Self::CollectorsLeftOut => "collectors left out",
        }
    }

    /// The words behind a number: `1 skipped function`, `2 skipped functions`.
    pub fn counted(self, number: i64) -> &'static str {
        match self {
            _ if number != 1 => self.as_str(),
            Self::UnhookedSlots => "unhooked slot",
            Self::UntimedCalls => "untimed call",
            Self::SummedEvents => "summed event",
            Self::DroppedEvents => "dropped event",
            Self::TruncatedStacks => "truncated stack",
            Self::SkippedFunctions => "skipped function",
            Self::UnresolvedNames => "unresolved name",
            Self::UnprofiledChildren => "unprofiled child",
            Self::ReplacedPrograms => "replaced program",
            Self::UnprivilegedPrograms => "unprivileged program",
            Self::UnrecordedThreads => "unrecorded thread",
            Self::StealTime => "millisecond of steal time",
            Self::QueuedTime => "millisecond without a CPU",
            Self::UncountedTime => "millisecond without counted calls",
            Self::CollectorsLeftOut => "collector left out",
        }
    }

    /// Inverse of [`LossKind::as_str`].
    pub fn parse(words: &str) -> Option<Self> {
        [
            Self::UnhookedSlots,
            Self::UntimedCalls,
            Self::SummedEvents,
            Self::DroppedEvents,
            Self::TruncatedStacks,
            Self::SkippedFunctions,
            Self::UnresolvedNames,
            Self::UnprofiledChildren,
            Self::ReplacedPrograms,
            Self::UnprivilegedPrograms,
            Self::UnrecordedThreads,
            Self::StealTime,
            Self::QueuedTime,
            Self::UncountedTime,
            Self::CollectorsLeftOut,
        ]
        .into_iter()
        .find(|k| k.as_str() == words)
    }
}
