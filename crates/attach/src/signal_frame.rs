//! Threads in signal handlers: where they go on afterwards stands on their stacks.
//!
//! The kernel builds, from the handler's stack pointer upwards: the address of the code that ends the handler
//! (`sa_restorer`: `mov rax, 15; syscall`), then `ucontext`, which holds the registers of the interrupted code. So a
//! word on the stack that is the address of such code marks a frame, and the interrupted code's next instruction stands
//! at a fixed distance from it.

use crate::error::AttachError;
use crate::process::Status;
use crate::stop::Stop;
use crate::target::Target;

/// `mov rax, 15; syscall`, as all C libraries and Go write it.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// From the frame's begin to the saved instruction pointer: return address, uc_flags, uc_link, uc_stack (24), and 16
/// registers before it.
const SAVED_RIP: usize = 8 + 8 + 8 + 24 + 16 * 8;
/// Bytes of stack looked through in all threads of a stop together.
const LOOKED_THROUGH: usize = 512 << 10;

/// Interrupted code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    /// Where its next instruction's address is saved.
    pub at: u64,
    /// That address.
    pub next: u64,
}

impl Target {
    /// Holds all threads, and finds where those in signal handlers go on after them ([`Stop::interrupted`]).
    ///
    /// # Errors
    /// As for [`Target::stop_all`].
    pub fn stop_all_with_handlers(&self) -> Result<Stop<'_>, AttachError> {
        let returns = self.signal_returns();
        let mut stop = self.stop_all()?;
        stop.find_interrupted(&returns);
        Ok(stop)
    }

    /// Addresses of the code that ends signal handlers; empty if the process handles no signal.
    pub(crate) fn signal_returns(&self) -> Vec<u64> {
        if Status::read(self.task()).is_ok_and(|s| s.caught == 0) {
            return Vec::new();
        }
        self.signal_returns.get_or_init(|| self.find_signal_returns()).clone()
    }

    fn find_signal_returns(&self) -> Vec<u64> {
        let mut found = Vec::new();
        let Ok(mappings) = self.mappings() else { return found };
        let program = std::fs::read_link(format!("/proc/{}/exe", self.task())).unwrap_or_default();
        for mapping in mappings.iter().filter(|m| m.executable && m.readable && m.inode != 0) {
            let name = mapping.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let holds = ["libc.", "libc-", "libpthread", "ld-musl"].iter().any(|prefix| name.starts_with(prefix));
            if !holds && mapping.path != program {
                continue;
            }
            let mut at = mapping.start;
            while at < mapping.end {
                let size = (mapping.end - at).min(1 << 20);
                let mut text = vec![0; size as usize];
                if self.memory().read(at, &mut text).is_err() {
                    break;
                }
                let places = memchr::memmem::find_iter(&text, &SIGNAL_RETURN).map(|offset| at + offset as u64);
                found.extend(places);
                // Overlapping, for one that lies across.
                at += if at + size < mapping.end { size - SIGNAL_RETURN.len() as u64 } else { size };
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Stop<'_> {
    /// Fills in where threads in signal handlers go on.
    pub(crate) fn find_interrupted(&mut self, returns: &[u64]) {
        if returns.is_empty() {
            return;
        }
        let each = (LOOKED_THROUGH / self.threads.len().max(1)).clamp(4 << 10, 64 << 10);
        let mut stack = vec![0; each];
        for thread in &mut self.threads {
            let from = thread.registers.rsp & !7;
            let read = self.target.memory().read_some(from, &mut stack);
            thread.interrupted = frames(&stack[..read & !7], from, returns);
        }
    }
}

fn frames(stack: &[u8], from: u64, returns: &[u64]) -> Vec<Interrupted> {
    let mut found = Vec::new();
    // All threads stand while this runs: the bytes of an address are looked for as text is.
    for mark in returns {
        for at in memchr::memmem::find_iter(stack, &mark.to_le_bytes()).filter(|at| at % 8 == 0) {
            let saved = at + SAVED_RIP;
            if let Some(bytes) = stack.get(saved..saved + 8) {
                let next = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                found.push(Interrupted { at: from + saved as u64, next });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_at_its_mark() {
        let mut stack = vec![0; 4096];
        stack[512..520].copy_from_slice(&0x7000u64.to_le_bytes());
        stack[512 + SAVED_RIP..][..8].copy_from_slice(&0x1234u64.to_le_bytes());
        let found = frames(&stack, 0x10_0000, &[0x7000]);
        assert_eq!(found, [Interrupted { at: 0x10_0000 + 512 + SAVED_RIP as u64, next: 0x1234 }]);
        assert!(frames(&stack[..600], 0x10_0000, &[0x7000]).is_empty(), "cut off");
    }
}
