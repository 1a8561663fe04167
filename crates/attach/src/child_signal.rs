//! Waiting for news of traced threads with a time limit, which wait(2) does not have.

use std::ptr::null_mut;
use std::time::Duration;

/// SIGCHLD, blocked in this thread so that its arrival can be waited for with a time limit.
#[derive(Debug)]
pub struct ChildSignal {
    before: libc::sigset_t,
    set: libc::sigset_t,
}

impl ChildSignal {
    /// Blocks it until the result is dropped.
    pub fn block() -> ChildSignal {
        // SAFETY: signal sets are plain bits, initialized by sigemptyset; all pointers are to locals.
        unsafe {
            let mut signals = ChildSignal { before: std::mem::zeroed(), set: std::mem::zeroed() };
            libc::sigemptyset(&raw mut signals.set);
            libc::sigaddset(&raw mut signals.set, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals.set, &raw mut signals.before);
            signals
        }
    }

    /// Waits for one, less than a second; false if there was none. Another thread of ours may take the signal away: callers look
    /// again after short times.
    pub fn wait(&self, timeout: Duration) -> bool {
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // SAFETY: both are ours and initialized.
        unsafe { libc::sigtimedwait(&raw const self.set, null_mut(), &raw const time) == libc::SIGCHLD }
    }

    /// Makes the mask what it was (for a fork's child).
    pub fn restore(&self) {
        // SAFETY: `before` was filled in by `block`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}

impl Drop for ChildSignal {
    fn drop(&mut self) {
        self.restore();
    }
}
