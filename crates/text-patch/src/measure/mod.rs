//! Measuring this machine: code of our own, executed by threads of the caller, that shows every mixed instruction.
//!
//! These are for calibration, benchmarks and tests; probes don't need them.

mod cost;
mod field;
mod region;
mod wait;

pub use cost::{InstallCost, ToggleCost, install_cost, membarrier_ticks, toggle_cost, toggle_cost_of};
pub use field::{Counters, Field, SPLITS};
pub use wait::WaitTrial;
