//! Calls between components of processes that run already: counted from when each is attached to, until it is let go.
//!
//! The agent of launched programs is loaded by the loader before anything else runs; here an image of stubs alone
//! (`crates/flow-agent`) is mapped by hand, and all else is done from outside:
//!
//! 1. The process is claimed: one recorder counts it at a time. What is mapped is looked at and planned while it runs; what
//!    forbids counting is found before anything is touched.
//! 2. The arena, the table of threads and the image are mapped, by system calls of a held thread.
//! 3. A guard is started, which puts everything back if this process is killed.
//! 4. In one stop of all threads, the slots that code only calls through get their stubs.
//! 5. While it runs, it is looked now and then for objects and slots that have come, and threads that have gone.
//! 6. In one stop all slots get their targets back, and if no thread stands in a stub, everything is unmapped.
//!
//! Calls are counted, not timed: a timed call has a return address of ours on the stack, which unwinders of a program whose loader
//! does not know the image can't pass.

mod counted;
mod leaving;
mod lifetimes;
mod objects;
mod places;
mod references;
mod session;
mod slots;
mod threads;

pub(crate) use lifetimes::join as join_lifetimes;
pub(crate) use session::start;
pub use session::{AttachedFlowOutcome, AttachedFlowSettings, record};
