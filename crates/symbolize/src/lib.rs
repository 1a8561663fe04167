//! Names of code: which functions and lines an address belongs to, and their completion in a profile that was recorded where
//! symbols or debug information were missing.
//!
//! - [`named_code`] puts a symbol and what debug information says into frames, as recordings and completions show them.
//! - [`complete`] looks for the files of each component by its build-id ([`SymbolPlaces`]) and puts functions, lines and inlined
//!   calls in the place of the addresses that the profile kept ([`CodeAddress`](transect_profile_model::CodeAddress)).
//!
//! A file is used only if it is of the build that was recorded: others would give wrong names.
#![forbid(unsafe_code)]

mod complete;
mod component_symbols;
mod error;
mod function_name;
mod named_code;
mod outcome;
mod stack_begin;
mod stacks;
mod symbol_places;

pub use complete::complete;
pub use error::SymbolizeError;
pub use named_code::{CodeFrame, NamedCode, function_at, named_code};
pub use outcome::{Completed, Completion, Missing, NamedCount};
pub use stack_begin::{is_beginning, makes_threads};
pub use symbol_places::SymbolPlaces;
