//! Collectors that run in the kernel as BPF programs and hand their records to user space.

pub mod privilege;
#[allow(unsafe_code)]
pub mod record;
mod skeleton;
