//! How often the published waiting protocol lets a CPU execute half of an old and half of a new instruction.

#[allow(unsafe_code)]
mod child;
mod curve;
#[allow(unsafe_code)]
mod executor;
mod protocol;

pub use child::run_child;
pub use curve::{Budget, Curve, Trial, WaitFailures, measure};
pub use protocol::Pause;
