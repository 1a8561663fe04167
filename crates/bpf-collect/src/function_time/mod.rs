//! Exact timing of functions of the kernel, in the threads that a [`crate::SchedCollector`] follows.
//!
//! Four kinds of probes can do it; which one is chosen when the timer is made, by trying. Where the kernel allows none
//! there is no timer, and shares stay sampled.

mod kernel_functions;
mod kernel_text;
mod link;
mod programs;
mod refusal;
mod timer;
mod trial;
pub(crate) mod types;

pub use kernel_functions::KernelFunctions;
pub use kernel_text::{Calls, KernelText};
pub use refusal::{lockdown, try_kinds};
pub use timer::{KernelFunctionTimer, RefusedTiming};

pub(crate) use programs::SharedMaps;
