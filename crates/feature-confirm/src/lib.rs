//! Regions confirmed by running. The analysis of `transect-cc` says which features a region depends on, and says too much; a
//! second build of the program (`TRANSECT_SITES=confirm`) carries labels of the features as it runs and notes which of them
//! reach the decisions that regions begin with.
//!
//! - [`Counts`] reads what a program has noted.
//! - [`ConfirmedProgram::of`] joins it with the program's tables: a [`Verdict`](transect_profile_model::Verdict) on each pair of region and feature.
//! - [`Confirmation`] is the file in which runs add up, and gives the verdicts on the regions of any build of the same
//!   sources.
#![forbid(unsafe_code)]

mod confirmation;
mod counts;
mod error;
mod program;
mod region_key;

pub use confirmation::{Confirmation, VERSION};
pub use counts::{Counts, LABELS};
pub use error::ConfirmError;
pub use program::{ConfirmedProgram, ConfirmedRegion};
