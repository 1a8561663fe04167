//! The program's side of the rings of feature-region events ([`transect_event_abi::region_arena`]): everything but the
//! event itself, which is a few instructions of assembly in the runtime and in the probe agent.
//!
//! It runs inside of the program, at any place of it and in signal handlers: no allocation, no lock, no panic, no libc.
#![no_std]

#[allow(unsafe_code)]
mod arena;
#[allow(unsafe_code)]
pub mod syscall;

pub use arena::{Arena, Owner, Room};
