//! Which code runs and what threads wait for, as far as a user without privileges sees it of its own processes.
//!
//! ```text
//! source      the kernel's events where kernel.perf_event_paranoid is 2 or less: samples of user code with a copy of the
//!             stack, switches, births, mappings; else stopped_samples: threads that run are stopped for a moment
//! look        a thread that waits: its system call and where it made it, by /proc; nothing is stopped
//! kernel_stops  beside events, which see nothing of time in the kernel: threads that spend some there are stopped
//! → call_walk   the calls, by the unwind tables of the code (process_code) and the flow agent's frames (agent_frames)
//! → gathered    threads, the clock of active threads (activity), and each thread's samples and waits (thread)
//! stop_skid   stops that came late, and were met in the next system call
//! → sched::Collection   as if the kernel's programs had told it
//! ```
//!
//! The clock of active threads is as exact as switches are told: all of them by events, those between two rounds by stops.
//! A thread that was woken and has no CPU yet counts as waiting. Who holds a lock and who wakes is not known.

mod activity;
mod agent_frames;
mod alone;
pub(crate) mod call_walk;
mod gathered;
mod jitter;
mod kernel_stops;
mod look;
pub(crate) mod process_code;
mod recording;
pub(crate) mod source;
mod stop_skid;
pub(crate) mod stopped_samples;
mod thread;
pub(crate) mod thread_times;
mod waits_for;
mod with_calls;

pub use alone::record;
use recording::UserSamples;
pub(crate) use with_calls::SamplesWithCalls;
