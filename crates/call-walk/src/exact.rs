//! What is known exactly of a thread group's time: samples and waits only say how it divides.

use std::collections::{BTreeMap, HashMap};

use crate::{Split, Stratum};

/// Exact totals of one thread group since the walk began to look at it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExactTotals {
    /// By the caller's number of the thread, the one given to [`crate::CallTree::observe`].
    pub threads: HashMap<u32, ThreadTotals>,
}

/// Exact totals of one thread (or of several counted as one), calls and waits that are still open included up to now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadTotals {
    /// Its life while it was observed; `None` if not known: then what was seen outside system calls stands as it is.
    pub whole: Option<Split>,
    /// The metric's own total where it is neither wall nor CPU time (page faults); `None` if not known.
    pub weight: Option<f64>,
    /// Its system calls by number. One that is missing is divided by samples, together with the user part.
    pub system_calls: BTreeMap<u32, SystemCallTotals>,
    /// Runnable time that followed waits, those without a stack included, by whose exact time holds the wait, ns. Empty:
    /// not known, and estimated from the waits seen.
    pub woken_ns: BTreeMap<Stratum, f64>,
}

/// Exact totals of one system call of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SystemCallTotals {
    /// Times entered.
    pub calls: u64,
    /// Time from entry to exit.
    pub split: Split,
}
