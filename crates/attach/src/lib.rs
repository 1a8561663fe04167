//! Stopping another process, loading the probe agent into it, writing its text.
//!
//! The life of an attachment:
//!
//! 1. [`Target::open`] looks at the process and refuses, with the reason and what to do, what can't be attached to.
//!    Nothing has been touched then.
//! 2. [`Target::stop_one`] holds one thread for the time of a few [`Stop::call`]s: system calls made by the process in
//!    our name. [`Arena::create`] maps the probe arena with them, [`Image::map`] makes room for the agent.
//! 3. [`Target::write_windows`] replaces code, all threads held for less than a millisecond at a time.
//! 4. Dropping a [`Stop`] lets go of every thread: between stops the process is not traced, so debuggers, signals and
//!    job control see nothing of us.
//!
//! [`Launch`] starts a program and hands it over at its first instruction.
//!
//! # Duties of the caller
//! All of it must be used from one thread: the kernel binds a tracer to the thread that began. Another thread that
//! waits for "any" child meanwhile would be given our stops; and [`Launch::next`] reaps children of its own thread.
//!
//! # What it is not for
//! Programs other than 64-bit x86-64 Linux ones; stopping a process for long.

mod address_limit;
mod address_space;
#[allow(unsafe_code)]
mod arena;
mod call_site;
mod check;
#[allow(unsafe_code)]
mod child_signal;
mod claim;
mod clock_right;
mod descriptor;
#[allow(unsafe_code)]
mod error;
mod file_privileges;
mod image;
#[allow(unsafe_code)]
mod inherited;
mod interrupted_call;
#[allow(unsafe_code)]
mod launch;
mod memory;
mod priority;
mod process;
#[allow(unsafe_code)]
mod ptrace;
mod remote_call;
mod seccomp;
mod seizing;
mod shared_file;
mod signal_frame;
mod stop;
mod target;
mod thread_move;
mod vfork;
mod window_writer;

pub use address_limit::{AddressRoom, GivenLimit};
pub use address_space::{FileIdentity, Mapping, Reach};
pub use arena::{Arena, CodeRegion};
pub use claim::{Claim, Right};
pub use error::AttachError;
pub use image::{Image, LoadedImage};
pub use inherited::{restore as restore_inherited, was_closed};
pub use launch::{Launch, LaunchEvent};
pub use memory::Memory;
pub use process::{read_text, runs};
pub use ptrace::take_end;
pub use shared_file::{SharedFile, seal_size};
pub use stop::{HeldRegisters, Stop, StopTimes};
pub use target::{Ending, Target, finish_left};
pub use window_writer::{Unwritten, Written};
