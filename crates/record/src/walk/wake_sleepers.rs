//! Threads that sleep since before the walk began have not shown where.

use std::time::Duration;

use transect_attach::{AttachError, Target};

/// Holds all threads of a process for a moment: those that sleep go back to sleep, and show their stacks on the way. System
/// calls that are interrupted go on. Gives how long the threads were held.
///
/// # Errors
/// If the process can't be traced by this user, or has ended.
pub(super) fn wake_sleepers(pid: i32) -> Result<Duration, AttachError> {
    let target = Target::open(pid)?;
    drop(target.stop_all()?);
    Ok(Duration::from_nanos(target.stop_times().longest_ns))
}
