//! What runs at a probe: trampolines, handlers, shadow frames.
//!
//! A *site* is a place in a function, mostly its entry, where a jump of five bytes leads to the site's *trampoline*
//! ([`trampoline`]). Its first word is a no-op or a jump: that word switches the probe, by one aligned store, whoever
//! executes it at the time (rapid toggling: "Living on the Edge", PLDI '16). A trampoline that is switched on calls a
//! *handler* ([`arch::x86_64::Handler`]) through the site's [`Descriptor`]; a handler may ask for a *paired call* of
//! the function, whose return then leads to the exit handler ([`frame`]).
//!
//! The same code serves programs that link `libtransect` and processes into which the probe agent was loaded. Rules:
//! no allocation, no lock, no panic, no libc.
//!
//! Duties of a user of this crate: descriptors, trampolines and [`frame::Globals`] must be complete before a jump to
//! them is installed, and stay mapped for as long as a thread may be inside; sites whose exit can't be observed
//! ([`trampoline::Call::Plain`]) must not get timing handlers; the [`unwind::UNWINDERS`] of the process must carry
//! [`unwind::restore`] before any timing handler is switched on. What it is not for: finding sites, and writing text.
#![no_std]

#[allow(unsafe_code)]
pub mod arch;
pub mod descriptor;
#[allow(unsafe_code)]
pub mod frame;
#[allow(unsafe_code)]
pub mod loader;
#[allow(unsafe_code)]
pub mod region;
#[allow(unsafe_code)]
pub mod scope;
pub mod trampoline;
#[allow(unsafe_code)]
pub mod unwind;

pub use arch::x86_64::Handler;
pub use descriptor::Descriptor;
