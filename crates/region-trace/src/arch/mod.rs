//! What is written in assembly.

#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use x86_64::agent;
