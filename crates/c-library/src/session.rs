//! The library's start.

use transect_text_patch::batch::{BatchPolicy, Method};
use transect_text_patch::writable::Access;

use crate::error::Error;
use crate::{arena, fork, registry, times};

/// What a program may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How code is written, and what trampolines stand in.
    pub access: Access,
    /// How threads are kept out of half-written windows.
    pub method: Method,
    /// Signal that moves or stops threads.
    pub signal: u8,
    /// Longest wait for a thread's answer, nanoseconds.
    pub patience: u64,
    /// Install although threads block that signal.
    pub allow_blocked: bool,
}

impl Default for Options {
    fn default() -> Self {
        let policy = BatchPolicy::default();
        Self {
            access: policy.access,
            method: policy.method,
            signal: policy.signal,
            patience: policy.patience,
            allow_blocked: policy.allow_blocked,
        }
    }
}

/// Begins, or changes the options for what comes.
///
/// # Errors
/// [`Error::Memory`].
pub fn init(options: &Options) -> Result<(), Error> {
    let mut library = registry::lock();
    library.policy = BatchPolicy {
        access: options.access,
        method: options.method,
        signal: options.signal,
        patience: options.patience,
        allow_blocked: options.allow_blocked,
    };
    if library.initialized {
        return Ok(());
    }
    arena::map()?;
    times::begin();
    fork::register();
    transect_probe_plan::plan_on_one_thread();
    library.initialized = true;
    Ok(())
}
