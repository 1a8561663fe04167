//! Views that are cuts: each is a query, and a way to read its rows.

mod annotate;
mod by_stack;
mod call_tree;
mod hot;
mod instruction;
mod system_call;
mod timeline;

use std::str::FromStr;

use serde::Serialize;
use transect_profile_model::Profile;

pub use annotate::{AnnotateView, LineTimes};
pub use call_tree::{CallNode, CallTree};
pub use hot::{HotRow, HotView};
pub use instruction::{
    AddressTimes, Disassembly, FunctionAddress, FunctionAddresses, InstructionTimes, function_addresses,
};
pub use system_call::SystemCallRow;
pub use timeline::{ThreadLane, TimelineView};

use super::stretch::State;
use super::{CutError, CutMeasure, CutQuery};
use crate::SelectionError;

/// Which view of cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutViewKind {
    /// Functions by their self and total time.
    Hot,
    /// The tree of calls.
    Tree,
    /// Lines of one function.
    Annotate,
    /// Time of each system call.
    SystemCalls,
    /// What each thread did when.
    Timeline,
}

impl CutViewKind {
    /// Every view of cuts.
    pub const ALL: [Self; 5] = [Self::Hot, Self::Tree, Self::Annotate, Self::SystemCalls, Self::Timeline];

    /// The word given to `--view`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Tree => "tree",
            Self::Annotate => "annotate",
            Self::SystemCalls => "system-calls",
            Self::Timeline => "timeline",
        }
    }

    /// What it sums up without `--measure`.
    pub fn default_measure(self) -> CutMeasure {
        if self.has_measure() { CutMeasure::OnCpu } else { CutMeasure::Time }
    }

    /// Whether `--measure` chooses what it sums up; else it tells states apart.
    pub fn has_measure(self) -> bool {
        matches!(self, Self::Hot | Self::Tree)
    }
}

impl FromStr for CutViewKind {
    type Err = SelectionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        crate::selection::parse_word("view", &Self::ALL, Self::as_str, word)
    }
}

/// A view of cuts that is ready to be rendered.
#[derive(Debug, Clone, PartialEq)]
pub enum CutReading {
    /// See [`CutViewKind::Hot`].
    Hot(HotView),
    /// See [`CutViewKind::Tree`].
    Tree(CallTree),
    /// See [`CutViewKind::Annotate`].
    Annotate(AnnotateView),
    /// See [`CutViewKind::SystemCalls`].
    SystemCalls(Vec<SystemCallRow>),
    /// See [`CutViewKind::Timeline`].
    Timeline(TimelineView),
}

/// Time by state, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StateTimes {
    /// On a CPU.
    pub on_cpu_ns: i64,
    /// Able to run, without a CPU.
    pub runnable_ns: i64,
    /// Blocked.
    pub blocked_ns: i64,
}

impl StateTimes {
    /// All of it.
    pub fn total(&self) -> i64 {
        self.on_cpu_ns + self.runnable_ns + self.blocked_ns
    }

    /// Adds what a cut by state says.
    fn add_named(&mut self, state: &str, ns: i64) {
        State::ALL.into_iter().filter(|known| known.as_str() == state).for_each(|state| self.add(state, ns));
    }

    fn add(&mut self, state: State, ns: i64) {
        match state {
            State::Running => self.on_cpu_ns += ns,
            State::Runnable => self.runnable_ns += ns,
            State::Blocked => self.blocked_ns += ns,
        }
    }
}

/// Computes a view. `query.by` is the view's own. `function`: whose lines are wanted, of [`CutViewKind::Annotate`].
///
/// # Errors
/// [`CutError`] where the profile does not hold what the view needs.
pub fn view(
    profile: &Profile,
    kind: CutViewKind,
    query: &CutQuery,
    function: Option<&str>,
) -> Result<CutReading, CutError> {
    let of_time = || CutQuery { measure: CutMeasure::Time, ..query.clone() };
    Ok(match kind {
        CutViewKind::Hot => CutReading::Hot(hot::hot(profile, query)?),
        CutViewKind::Tree => CutReading::Tree(call_tree::call_tree(profile, query)?),
        CutViewKind::Annotate => {
            CutReading::Annotate(annotate::annotate(profile, &of_time(), function.ok_or(CutError::NoFunction)?)?)
        }
        CutViewKind::SystemCalls => CutReading::SystemCalls(system_call::system_calls(profile, &of_time())?),
        CutViewKind::Timeline => CutReading::Timeline(timeline::timeline(profile, &of_time())?),
    })
}
