//! What runs inside the program: interception of calls between components and folding of their counts and times
//! (cross-flow analysis, Scaler, ASE '24, section 3).
//!
//! The way of a call: the caller's linkage slot holds the address of a *stub*; the stub counts down the flow's counter
//! and goes to the target. When the countdown ends, `transect_enter` (see `arch/x86_64/trampoline.s`) times the call
//! by a *paired call* through a *frame*. [`enter`] and [`exit`] are the slow halves of that, in Rust.
//!
//! Rules of this crate, for it runs inside other people's programs: no allocation, no panic, no lock that a signal
//! handler could meet, no libc call on the paths of calls; plain system calls elsewhere. A feature that can't work
//! here gives way and counts what was lost.
//!
//! What it is not for: linking into a program of your own. It is the inside of the agent (`crates/agent`), which must
//! be loaded once, before the program's own constructors run.
#![no_std]

#[allow(unsafe_code)]
pub mod active;
#[allow(unsafe_code)]
pub mod address_limit;
#[allow(unsafe_code)]
pub mod arch;
#[allow(unsafe_code)]
pub mod arena;
#[allow(unsafe_code)]
mod calibration;
mod confinement;
#[allow(unsafe_code)]
pub mod context;
mod cpu_time;
#[allow(unsafe_code)]
pub mod dlsym;
#[allow(unsafe_code)]
pub mod elf;
#[allow(unsafe_code)]
pub mod enter;
#[allow(unsafe_code)]
pub mod environment;
#[allow(unsafe_code)]
pub mod exit;
#[allow(unsafe_code)]
pub mod extent_map;
#[allow(unsafe_code)]
pub mod frame;
#[allow(unsafe_code)]
pub mod hold;
#[allow(unsafe_code)]
mod hold_cost;
#[allow(unsafe_code)]
pub mod hook;
#[allow(unsafe_code)]
pub mod loader;
#[allow(unsafe_code)]
pub mod lock;
#[allow(unsafe_code)]
mod nesting;
#[allow(unsafe_code)]
pub mod object;
pub mod period;
#[allow(unsafe_code)]
pub mod plan;
#[allow(unsafe_code)]
pub mod process;
#[allow(unsafe_code)]
pub mod published;
pub mod recorder;
#[allow(unsafe_code)]
pub mod slot;
#[allow(unsafe_code)]
pub mod spawn;
#[allow(unsafe_code)]
pub mod start;
#[allow(unsafe_code)]
mod state_pool;
#[allow(unsafe_code)]
pub mod static_component;
#[allow(unsafe_code)]
pub mod static_entry;
#[allow(unsafe_code)]
mod static_plan_file;
#[cfg(feature = "fuzzing")]
pub use static_plan_file::fuzz as fuzz_static_plan;
#[allow(unsafe_code)]
mod system_call;
#[allow(unsafe_code)]
mod tail;
#[allow(unsafe_code)]
mod taken;
#[allow(unsafe_code)]
pub mod thread;
#[allow(unsafe_code)]
pub mod wait;
