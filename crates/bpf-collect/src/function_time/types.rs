//! What the function timer's programs share with user space, generated from `bpf/function_time.h`.
#![allow(unsafe_code, missing_docs, clippy::all, dead_code)]

include!(concat!(env!("OUT_DIR"), "/function_time.skel.rs"));

pub(crate) use self::types::{bss, code_range, timed_function, timed_sums, timed_thread};

/// The compiled programs.
pub(crate) const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/function_time.o"));
