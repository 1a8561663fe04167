//! Where probes can be placed in an ELF object, and how.
#![forbid(unsafe_code)]

mod address_section;
mod callee;
mod control_flow;
mod convention;
mod cxx_name;
mod displace;
mod entry;
mod fentry;
mod function_table;
mod instrument_functions;
mod jump_table;
mod lines;
mod parallel;
mod patchable_entry;
mod plan;
mod point;
mod prologue;
mod provider;
mod resolver;
mod selector;
mod site;
mod sled;
mod usdt;
mod xray;

pub use cxx_name::{without_arguments, without_parameters};
pub use displace::{DisplacedWindow, JUMP, displace};
pub use entry::Entry;
pub use fentry::Fentry;
pub use function_table::FunctionTable;
pub use instrument_functions::InstrumentFunctions;
pub use lines::{Lines, SourceLine};
pub use parallel::plan_on_one_thread;
pub use patchable_entry::PatchableEntry;
pub use plan::{PlanOptions, Wanted, plan};
pub use point::{PointError, plan_address};
pub use provider::{Proposal, Provider};
pub use selector::{SelectError, Selector, near_names};
pub use site::*;
pub use usdt::Usdt;
pub use xray::Xray;
