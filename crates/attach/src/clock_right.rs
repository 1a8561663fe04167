//! Whether threads may read the time stamp counter: one that has given that up (`PR_SET_TSC`) is ended by the first handler
//! that does. The kernel tells it to the thread alone.

use crate::error::AttachError;
use crate::process::{state, threads};
use crate::ptrace;
use crate::seccomp;
use crate::target::{Target, USER_CODE_64};

/// Threads that are asked at most: each is held for some ten microseconds.
const MOST_THREADS: usize = 64;
const PR_GET_TSC: u64 = 25;
const PR_TSC_SIGSEGV: u32 = 2;

impl Target {
    /// Whether any of its threads may not. `scratch` is the address of eight bytes of zero in it that nobody uses, and that
    /// are zero again.
    ///
    /// # Errors
    /// [`AttachError::Exited`] if it ends. What can't be asked is taken to have the right.
    pub fn forbids_clock(&self, scratch: u64) -> Result<bool, AttachError> {
        // Who sleeps uninterruptibly can't be held.
        let found = threads(self.pid()).into_iter().filter(|&tid| matches!(state(tid), 'R' | 'S' | 'T' | 't'));
        for tid in found.take(MOST_THREADS) {
            match self.thread_forbids_clock(tid, scratch) {
                Ok(true) => return Ok(true),
                Err(error) if error.is_gone() && !self.is_alive() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    fn thread_forbids_clock(&self, tid: i32, scratch: u64) -> Result<bool, AttachError> {
        let mut stop = self.stop_outside_sequences(tid)?;
        let thread = stop.threads.first().ok_or(AttachError::Exited { pid: self.pid() })?;
        if thread.registers.cs != USER_CODE_64 || ptrace::dispatches_system_calls(tid) {
            return Ok(false);
        }
        seccomp::allow(self.pid(), tid, thread.options())?;
        stop.call("prctl", libc::SYS_prctl, [PR_GET_TSC, scratch, 0, 0, 0, 0])?;
        let mut word = [0; 4];
        self.memory().read(scratch, &mut word)?;
        self.memory().write(scratch, &[0; 4])?;
        Ok(u32::from_le_bytes(word) == PR_TSC_SIGSEGV)
    }
}
