//! libtransect: probes for C, C++ and Rust programs.
//!
//! [`probe`] is the interface for Rust programs, with an example; what `include/transect.h` declares for C is in [`ffi`].
//! Beneath both lie:
//!
//! - [`discovery`] and [`lookup`] find sites, by pattern, name or address, and give them dense ids ([`registry`]);
//! - [`install`] writes their jumps in batches, while other threads run;
//! - [`toggle`] switches them: wait-free, in signal handlers too;
//! - [`handler`] says what they call.
//!
//! The library lives in somebody else's program: it prints nothing (but the report that `TRANSECT_PROBES` asks for),
//! ends nothing, and creates no threads.

#[allow(unsafe_code)]
mod arch;
#[allow(unsafe_code)]
mod arena;
#[allow(unsafe_code)]
mod code_region;
pub mod discovery;
#[allow(unsafe_code)]
mod empty_call;
mod error;
#[allow(unsafe_code)]
pub mod ffi;
#[allow(unsafe_code)]
mod fork;
#[allow(unsafe_code)]
pub mod handler;
#[allow(unsafe_code)]
pub mod install;
pub mod instrument_functions;
#[allow(unsafe_code)]
mod loaded_object;
#[allow(unsafe_code)]
mod loader_event;
pub mod lookup;
mod maps;
#[allow(unsafe_code)]
mod own_code;
#[allow(unsafe_code)]
mod own_probes;
pub mod pattern;
mod place;
#[allow(unsafe_code)]
mod preload;
pub mod probe;
pub mod registry;
mod session;
mod site_info;
#[allow(unsafe_code)]
pub mod slot;
mod status;
mod times;
#[allow(unsafe_code)]
pub mod toggle;

pub use error::Error;
pub use site_info::{ObjectInfo, SiteInfo};
pub use slot::Slot;
pub use status::Status;
