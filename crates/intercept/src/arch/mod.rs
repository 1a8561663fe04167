//! Everything that knows the CPU.

mod x86_64;
pub use x86_64::*;
