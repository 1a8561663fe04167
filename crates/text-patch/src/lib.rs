//! Patching of code that other threads execute: probe sites that any thread switches by one store ([`CallSite`]),
//! words ([`word`]) and whole batches of windows ([`batch`]), without stopping anybody.
//!
//! This crate patches the process that it runs in. It needs neither libc nor allocation, so it works within an injected
//! image as well as in a program. All of it is unsafe in nature: callers vouch that what they write is code that does
//! what should be done, and that windows hold no jump targets; what can be checked is checked, and refused with a typed
//! reason ([`Refusal`]) that says what to do next.
//!
//! What it is not for: other processes (stop their threads by ptrace and write), code without an owner of its
//! instruction boundaries, and changes that must be seen by all threads at once: a thread may execute the old form for
//! some hundred ticks after a toggle; [`serialize::serialize_all`] ends that.
//!
//! After "Living on the Edge: Rapid-Toggling Probes with Cross-Modification on x86" (PLDI '16). Its waiting protocol is
//! kept to be measured ([`word::Pacing::Wait`]), since it isn't safe.
#![no_std]

#[allow(unsafe_code)]
mod alias;
#[allow(unsafe_code)]
pub mod arch;
#[allow(unsafe_code)]
pub mod batch;
#[allow(unsafe_code)]
pub mod emulate;
#[allow(unsafe_code)]
pub mod fault;
#[allow(unsafe_code)]
pub mod fork;
pub mod form;
pub mod maps;
#[allow(unsafe_code)]
pub mod measure;
pub mod page;
mod refusal;
pub mod serialize;
pub mod tasks;
#[allow(unsafe_code)]
mod toggle;
#[allow(unsafe_code)]
pub mod trap;
mod window;
#[allow(unsafe_code)]
pub mod word;
#[allow(unsafe_code)]
pub mod writable;

pub use refusal::Refusal;
pub use toggle::{CallSite, SiteState, StoreKind, toggle_word};
pub use window::{WINDOW_CAPACITY, Window};
