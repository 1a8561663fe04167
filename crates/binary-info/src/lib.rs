//! What Transect knows about ELF objects: names of addresses, how code uses its linkage slots, what can be launched.
//!
//! - [`Object`] maps one x86-64 ELF file and answers questions about it lazily: opening a library of 100 MB touches
//!   a few of its pages.
//! - [`plan`] finds out, by disassembly, which linkage slots are only ever called (and may be hooked) and which are
//!   also read as function pointers; [`PlanCache`] keeps the answer by build-id and file.
//! - [`launch`] says before a launch whether a command can be profiled, and what to do if not.
//! - [`demangle`] turns raw symbol names into what people write.
//! - [`Disassembler`] writes down the instructions of a function, with the names of what they call.
//!
//! The caller's duty: a file must not be truncated while it is mapped (the kernel answers reads beyond its new end
//! with SIGBUS). Replacing a file by rename, as package managers do, is harmless. Files of other users are read into
//! memory instead, so that these can't end the reader. Only plain files are opened ([`open_plain`]).

mod archive;
mod cache;
mod cache_folder;
mod call_target;
mod code;
mod debug_file;
mod debuginfod;
mod demangle;
mod disassembly;
mod dynamic;
mod error;
mod file_map;
mod frame_entry;
mod frame_rule;
mod function_name;
mod function_references;
mod function_sources;
mod function_symbols;
mod go_table;
mod identity;
mod image;
mod landing_pad;
pub mod launch;
mod linkage;
mod object_file;
mod plain_file;
pub mod plan;
mod scan;
mod symbols;
mod transfers;

pub use archive::{ArchiveMember, MemberFunction, archive_members};
pub use cache::PlanCache;
pub use cache_folder::CacheFolder;
pub use debug_file::{debug_file_in, debug_file_of};
pub use debuginfod::{Fetched, fetch_debug_file};
pub use demangle::{demangle, readable_name, unnamed_function, without_suffix};
pub use disassembly::{Disassembled, Disassembler, Syntax};
pub use dynamic::{DynamicSymbol, LibcKind};
pub use error::BinaryError;
pub use frame_entry::{FrameEntry, FrameStart};
pub use frame_rule::{FRAME_REGISTERS, FrameBase, FrameRule, SavedRegister};
pub use function_name::FunctionName;
pub use function_references::{FunctionReference, ReferenceKind};
pub use function_sources::FunctionSources;
pub use function_symbols::FunctionSymbol;
pub use go_table::{GoFrame, GoFunction, GoPlace, GoTable};
pub use identity::{ElfClass, Identity, ObjectType};
pub use image::{RelativeRelocation, Section};
pub use landing_pad::LandingPad;
pub use launch::{LaunchError, LaunchTarget, inspect_held_launch, inspect_launch};
pub use linkage::{LinkageSlot, RelocationTable};
pub use object_file::Object;
pub use plain_file::{LastLink, open_plain, read_plain};
pub use plan::Plan;
pub use symbols::{Symbol, SymbolKind};
pub use transfers::{Transfer, TransferSite};
