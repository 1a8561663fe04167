//! The C interface, as `include/transect.h` declares it; that file is its documentation.

mod handlers;
mod last_error;
mod layout;
mod patching;
mod session;
mod sites;
mod toggling;

pub use layout::*;
