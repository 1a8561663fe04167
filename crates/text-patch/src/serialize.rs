//! Serialization: after it, no thread of the process executes instructions fetched before.

use crate::Refusal;
use crate::arch::syscall;

const REGISTER: u32 = 1 << 6;
const COMMAND: u32 = 1 << 5;

/// Has every thread of this process serialize its instruction stream
/// (`membarrier(PRIVATE_EXPEDITED_SYNC_CORE)`, Linux 4.16). Some 2 to 10 µs; async-signal-safe.
///
/// # Errors
/// [`Refusal::NoSerialization`] where the kernel or a system-call filter refuses it.
pub fn serialize_all() -> Result<(), Refusal> {
    match syscall::membarrier(COMMAND) {
        Ok(_) => return Ok(()),
        Err(syscall::EPERM) => {} // not registered yet
        Err(errno) => return Err(Refusal::NoSerialization { errno: errno.0 }),
    }
    syscall::membarrier(REGISTER)
        .and_then(|_| syscall::membarrier(COMMAND))
        .map(|_| ())
        .map_err(|errno| Refusal::NoSerialization { errno: errno.0 })
}
