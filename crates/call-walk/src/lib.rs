//! The walk: the search for the function that finally holds the time, down the joined call graph of program and kernel
//! ("CrossWalk"), as pure state.
//!
//! Stacks go into one [`CallTree`] for each thread group and are adjusted to what is known exactly
//! ([`CallTree::post_stratify`]). [`Search::evaluate`] turns the trees and what was timed into shares,
//! [`Search::next_request`] says which few functions to time next, [`Search::timed`] takes the answer,
//! [`Search::chains`] gives what was found. Functions are timed by whoever implements [`FunctionTimer`].
//!
//! Nothing here reads a process, names an address or waits.
#![forbid(unsafe_code)]

mod calls;
mod chains;
mod evidence;
mod exact;
mod needs;
mod observation;
mod post_stratify;
mod search;
mod shares;
mod strata;
mod tally;
mod timer;
mod tree;

pub use chains::{Chain, ChainFrame};
pub use exact::{ExactTotals, SystemCallTotals, ThreadTotals};
pub use observation::{Observation, Split, State, Stratum, Unit};
pub use search::{Search, Settings, Step};
pub use shares::Share;
pub use tally::Tally;
pub use timer::{Callee, FunctionTimer, MOST_KERNEL, MOST_USER, Request, Timed, Timing, Untimed, UntimedReason};
pub use tree::{CallTree, Frame, Function, Node, NodeId};
