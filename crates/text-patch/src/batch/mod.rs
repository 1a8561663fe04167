//! Batches: first installation, replacement and restoring of many windows while other threads run.

use crate::writable::Access;
use crate::{Refusal, Window};

/// How threads are kept from executing windows that are half written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// [`Method::Trap`] unless a debugger is attached or a thread blocks SIGTRAP, then [`Method::Stop`].
    #[default]
    Auto,
    /// INT3 and serialization: no thread stops.
    Trap,
    /// All other threads wait in a signal handler meanwhile.
    Stop,
}

/// What a batch may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolicy {
    /// How code is written.
    pub access: Access,
    /// How threads are kept out.
    pub method: Method,
    /// Go on although threads block SIGTRAP or `signal`: the caller knows that they don't run this code.
    pub allow_blocked: bool,
    /// Signal that moves or stops threads. Its disposition is put back afterwards.
    pub signal: u8,
    /// How long to wait for a thread's answer, nanoseconds.
    pub patience: u64,
}

impl Default for BatchPolicy {
    fn default() -> Self {
        Self {
            access: Access::Auto,
            method: Method::Auto,
            allow_blocked: false,
            signal: crate::arch::signal::SIGURG,
            patience: 1_000_000_000,
        }
    }
}

/// What a batch has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchReport {
    /// Windows written.
    pub written: usize,
    /// Windows that had their new bytes already.
    pub already: usize,
    /// Threads whose program counter was moved out of a window.
    pub moved: usize,
    /// Threads that were sent a signal.
    pub signalled: usize,
    /// Threads that met INT3 and were led around it.
    pub trapped: usize,
    /// The method used.
    pub method: Method,
    /// Ticks from the first store to the last serialization.
    pub ticks: u64,
}

/// Examines windows as a batch would, without changing anything: `refused` is called with the index of each one that a
/// batch would refuse. Sorts them by address.
///
/// # Safety
/// The windows are in mapped memory.
pub fn examine(_windows: &mut [Window], _refused: &mut dyn FnMut(usize, Refusal)) {}

/// Replaces `old` by `new` in all windows (sorted by address in passing), or in none if one is refused.
///
/// # Errors
/// The first refusal.
pub fn apply(windows: &mut [Window], policy: &BatchPolicy) -> Result<BatchReport, Refusal> {
    let _ = (windows, policy);
    Err(Refusal::System { call: "batch", errno: 38 })
}
