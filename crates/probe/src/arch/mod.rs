//! What depends on the processor.

#[cfg(target_arch = "x86_64")]
pub mod x86_64;
