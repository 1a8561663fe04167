//! Where probes can be placed in an ELF object, and how.
#![forbid(unsafe_code)]

mod site;

pub use site::*;
