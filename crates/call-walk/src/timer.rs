//! Timing of a few functions of the running program or kernel for a moment: the walk's request and the answer.

use std::time::Duration;

use crate::Function;

/// Most functions of the program that can be timed at once, their caller among them.
pub const MOST_USER: usize = 5;
/// The same of the kernel.
pub const MOST_KERNEL: usize = 4;

/// Time these, please. All are functions of the program, or all are of the kernel (a system call or a fault only as
/// `parent`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The thread group, as numbered in [`crate::Search::evaluate`]: its process is the one whose functions these are.
    pub group: usize,
    /// The function whose callees are compared.
    pub parent: Function,
    /// What is timed inside it; at most one less than the probes allowed at once.
    pub callees: Vec<Callee>,
    /// How long.
    pub window: Duration,
}

/// A function of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callee {
    /// The function.
    pub function: Function,
    /// It is counted only while its thread is inside this one, called from it, and in no other that counts within the
    /// same: an earlier row of `callees`, or `None` for the request's `parent`. So a request can go down a chain.
    pub within: Option<usize>,
}

/// What one function's calls took in a window. A call that was open at an edge counts with its part inside; a function
/// that calls itself counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timed {
    /// Calls that ended in the window or were open at its end.
    pub calls: u64,
    /// Wall time, ns, less what timing it costs (`calls` × the cost as calibrated).
    pub wall_ns: f64,
    /// Of it on a CPU, ns; `None` where that was not told apart.
    pub on_ns: Option<f64>,
    /// Of it runnable, ns.
    pub runnable_ns: Option<f64>,
    /// Cost of timing that was taken off, ns.
    pub cost_ns: f64,
}

/// Why a function was not timed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UntimedReason {
    /// The kernel or the code allows no probe there.
    #[error("no probe can be there: {0}")]
    Refused(String),
    /// Its calls are too short: timing would distort them.
    #[error("its calls are too short to be timed")]
    TooShort,
    /// Its timer has no room for it beside the others; alone it may be timed.
    #[error("too many at once")]
    TooMany,
    /// Not now: a thread can't be stopped at the moment.
    #[error("{0}")]
    Later(String),
    /// The process, or the timer's way to it, is gone.
    #[error("{0}")]
    Gone(String),
}

/// A function that was not timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untimed {
    /// Which.
    pub function: Function,
    /// Why.
    pub reason: UntimedReason,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timing {
    /// How long the window was, ns.
    pub lasted_ns: f64,
    /// The parent, `None` if it could not be timed: then nothing was.
    pub parent: Option<Timed>,
    /// The callees, in the request's order; `None` for those in `untimed`.
    pub callees: Vec<Option<Timed>>,
    /// What was not timed.
    pub untimed: Vec<Untimed>,
    /// Most probes that were live at once.
    pub probes: u64,
    /// The longest time that the program was held, ns.
    pub longest_stop_ns: u64,
}

/// Times functions of a process and its threads: jumps in the program, probes in the kernel.
///
/// Between [`FunctionTimer::begin`] and [`FunctionTimer::end`] probes are live, afterwards none. Dropping the timer takes
/// everything away; what it leaves if its process is killed is for the timer to see to.
pub trait FunctionTimer {
    /// Begins to time. Gives the functions that can't be; the window is over when [`FunctionTimer::end`] is called,
    /// nothing here sleeps.
    ///
    /// # Errors
    /// If nothing can be timed at all.
    fn begin(&mut self, request: &Request) -> Result<Vec<Untimed>, UntimedReason>;

    /// Ends the window and takes the probes away.
    ///
    /// # Errors
    /// If what was counted can't be read.
    fn end(&mut self) -> Result<Timing, UntimedReason>;
}
