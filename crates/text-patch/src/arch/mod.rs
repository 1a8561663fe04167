//! Everything that knows the processor.

mod x86_64;
pub use x86_64::*;
