//! Feature regions of an ELF object that `transect-cc` built: what its sections say of them, and which regions are open
//! at each of its instructions.
//!
//! - [`RegionTable`] reads the sections `transect_regions` and `transect_sites` (defined in
//!   `compiler-plugin/src/sections.h`): features, regions, and the sites at which regions begin and end.
//! - [`DecisionTable`] reads the section `transect_decisions` of a build that confirms its regions by running.
//! - [`RegionMap`] follows the control flow from each function's entry through the sites, and so knows the stack of open
//!   regions at every instruction. Objects without sites (`TRANSECT_SITES=inlined`) have their regions in the debug
//!   information, as inlined subroutines.
//! - [`Translator`] turns call stacks into region stacks: each frame's regions in its function, from the outermost frame
//!   to the innermost one.
//!
//! Where paths of control disagree about the open regions, or no path was found, the answer is that it can't be told;
//! [`RegionMap::doubts`] lists the places. Nothing is guessed.
//!
//! The caller's duties: addresses are virtual addresses of the object (run-time address less load bias); a frame that
//! waits for a callee to return is looked up by [`RegionMap::before_return`], since the code behind a call may belong to
//! another region.
#![forbid(unsafe_code)]

mod body;
mod data_flow;
mod decision_table;
mod error;
mod inline_chain;
mod inlined;
mod jump_target;
mod listing;
mod record_line;
mod region_map;
mod region_stack;
mod region_table;
mod returning;
mod tables;
mod translate;

pub use decision_table::{CountedDecision, DecisionTable};
pub use error::RegionError;
pub use listing::{ListedFile, ListedLine};
pub use region_map::{Doubt, DoubtKind, RegionMap};
pub use region_table::{Ignored, Region, RegionIndex, RegionTable, Site, SiteKind, SiteMode, Unit, Variable};
pub use tables::FeatureNumbers;
pub use translate::{Frame, RegionFrame, Translator};
