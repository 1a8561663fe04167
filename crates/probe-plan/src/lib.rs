//! Where probes can be placed in an ELF object, and how.
//!
//! [`plan`] reads one object and answers with its functions, the [`Site`]s that can hold a probe, and what is refused
//! and why. It is analysis only: nothing is patched, no process is looked at, and addresses are virtual addresses of the
//! object, a run-time address less the address it was loaded at.
//!
//! Six [`Provider`]s propose sites:
//!
//! | provider | finds |
//! |---|---|
//! | [`PatchableEntry`] | the no-ops of `-fpatchable-function-entry` |
//! | [`Fentry`] | the no-op or call of `-mfentry` |
//! | [`Xray`] | LLVM's entry, exit and tail sleds |
//! | [`InstrumentFunctions`] | calls made by `-finstrument-functions` |
//! | [`Usdt`] | points of `.note.stapsdt` |
//! | [`Entry`] | every other function: the instructions under a jump are displaced ([`displace`]) |
//!
//! [`Region`] finds the sites of feature regions, when it is asked by name.
//!
//! What is proposed is then held against the control flow of the whole object: direct branches of all code, jump
//! tables, relocated pointers, landing pads. A window that anything leads into is refused, and so is a function whose
//! first instruction is the head of a loop.
//!
//! Functions come from symbol tables (the object's, its debug file's, its mini symbol table's) and from unwind tables,
//! which are left in stripped objects; there, a function is told from a cold part of another by how it is reached. The
//! variants that an indirect function's resolver chooses among carry its name.
//!
//! The rest chooses and describes: [`Selector`] matches functions by pattern, [`Lines`] tells source lines, and
//! [`plan_address`] plans a probe at any instruction.
//!
//! The caller's duties: to compare a site's bytes with those in memory before patching; to place displaced code within
//! ±2 GiB of the object; to observe exits only where [`Site::exit`] allows it; to keep the red zone where
//! [`Site::red_zone`] says so. What this crate can't see is code that computes an address inside of a window and jumps
//! there, as hand-written assembly could: the addresses it computes from are searched, the sums are not.
//!
//! ```no_run
//! use transect_binary_info::Object;
//! use transect_probe_plan::{PlanOptions, Selector, plan};
//!
//! let object = Object::open("/usr/lib/x86_64-linux-gnu/libz.so.1")?;
//! let selector = Selector::parse("deflate*")?;
//! let wanted = |function: &_| selector.matches_function(function);
//! let plan = plan(&object, &PlanOptions { wanted: Some(&wanted), ..PlanOptions::default() });
//! for site in &plan.sites {
//!     println!("{:#x} {}", site.vaddr, plan.functions[site.function as usize].name);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod address_section;
mod address_set;
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
mod linkage_names;
mod matcher;
mod opcode_class;
mod parallel;
mod patchable_entry;
mod plan;
mod point;
mod prologue;
mod provider;
mod region;
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
pub use lines::{Lines, SourceFrame, SourceLine};
pub use linkage_names::{LinkageNames, slot_of_stub};
pub use parallel::plan_on_one_thread;
pub use patchable_entry::PatchableEntry;
pub use plan::{PlanOptions, Wanted, plan, plan_in};
pub use point::{PointError, plan_address};
pub use provider::{Proposal, Provider};
pub use region::Region;
pub use selector::{SelectError, Selector, near_names};
pub use site::*;
pub use usdt::{Usdt, notes as usdt_notes};
pub use xray::Xray;
