//! Code that the loader jumps to instead of the entry point: it sends its thread a signal that programs ignore, at which the
//! tracer holds the thread, and jumps to the entry point.
//!
//! Nothing of the program is changed: the loader takes the address of the entry point from the auxiliary vector on the stack
//! (`AT_ENTRY`), where the trampoline's is written. If the tracer dies before the thread comes there, the signal is
//! ignored and the program begins, which a breakpoint would not let it.

use std::collections::VecDeque;

use crate::address_space::Mapping;
use crate::call_site::{CallSite, SIZE};
use crate::error::AttachError;
use crate::memory::Memory;

/// What the thread sends itself: ignored unless there is a handler, and exec leaves none.
pub const SIGNAL: i32 = libc::SIGWINCH;
/// A key of the auxiliary vector: the program's entry point.
pub const AT_ENTRY: u64 = 9;
/// Where the thread stands behind its first system call, and behind the signal.
const BEHIND_CALL: usize = 7;
const BEHIND_SIGNAL: usize = 21;

/// A trampoline that is written, and where its address stands.
#[derive(Debug, Clone)]
pub struct Trampoline {
    at: u64,
    /// The value of `AT_ENTRY` on the stack.
    value: u64,
    entry: u64,
}

impl Trampoline {
    /// Writes one for a thread that has just executed a program with this entry point; `stack` is its stack pointer.
    ///
    /// # Errors
    /// [`AttachError::NoSystemCall`] if there is no room for it; if memory can't be read or written.
    pub fn lay(pid: i32, memory: &Memory, stack: u64, entry: u64) -> Result<Trampoline, AttachError> {
        let value = auxiliary_value(memory, stack, AT_ENTRY)?;
        let no_room = AttachError::NoSystemCall { pid };
        let at = CallSite::unused(memory, &Mapping::all(pid)?).ok_or(no_room)?;
        memory.write(at, &code(entry))?;
        memory.write(value, &at.to_le_bytes())?;
        Ok(Trampoline { at, value, entry })
    }

    /// Whether a thread that stands at `address` has made the first system call.
    pub fn is_behind_call(&self, address: u64) -> bool {
        address == self.at + BEHIND_CALL as u64
    }

    /// Whether a thread that stands at `address` has sent itself the signal.
    pub fn is_behind_signal(&self, address: u64) -> bool {
        address == self.at + BEHIND_SIGNAL as u64
    }

    /// Takes it away.
    ///
    /// # Errors
    /// If the memory can't be written.
    pub fn clear(&self, memory: &Memory) -> Result<(), AttachError> {
        memory.write(self.value, &self.entry.to_le_bytes())?;
        memory.write(self.at, &[0; SIZE])
    }
}

/// Changes rax, rcx, rsi, rdi and r11, which have no meaning at an entry point (System V ABI, AMD64, figure 3.9).
fn code(entry: u64) -> [u8; SIZE] {
    let mut code = vec![0xb8, libc::SYS_getpid as u8, 0, 0, 0]; // mov eax, getpid: the thread's number in its namespace
    code.extend([0x0f, 0x05]); // syscall
    debug_assert_eq!(code.len(), BEHIND_CALL);
    code.extend([0x89, 0xc7]); // mov edi, eax
    code.extend([0xbe, SIGNAL as u8, 0, 0, 0]); // mov esi, SIGNAL
    code.extend([0xb8, libc::SYS_tkill as u8, 0, 0, 0]); // mov eax, tkill
    code.extend([0x0f, 0x05]); // syscall
    debug_assert_eq!(code.len(), BEHIND_SIGNAL);
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code.extend(entry.to_le_bytes());
    let mut bytes = [0; SIZE];
    bytes[..code.len()].copy_from_slice(&code);
    bytes
}

/// Address of a value of the auxiliary vector, which lies on the stack of a new program behind its arguments and environment.
fn auxiliary_value(memory: &Memory, stack: u64, key: u64) -> Result<u64, AttachError> {
    let mut words = Words { memory, at: stack, read: VecDeque::new() };
    let arguments = words.next()?;
    words.at += 8 * (arguments + 1);
    words.read.clear();
    while words.next()? != 0 {}
    loop {
        match words.next()? {
            found if found == key => return Ok(words.at),
            // The end, which the kernel writes behind a program's entry point.
            0 => return Err(AttachError::Exited { pid: memory.pid() }),
            _ => words.next()?,
        };
    }
}

/// Words of a stack, one after the other.
struct Words<'m> {
    memory: &'m Memory,
    /// Address of the next one.
    at: u64,
    /// Those that were read ahead.
    read: VecDeque<u64>,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u64, AttachError> {
        if self.read.is_empty() {
            let mut bytes = [0; 1024];
            let length = self.memory.read_some(self.at, &mut bytes);
            self.read.extend(bytes[..length].as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)));
        }
        let word = self.read.pop_front().ok_or(AttachError::Exited { pid: self.memory.pid() })?;
        self.at += 8;
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_leads_to_the_entry_point() {
        let bytes = code(0x1122_3344_5566_7788);
        assert_eq!(bytes[BEHIND_CALL - 2..BEHIND_CALL], [0x0f, 0x05]);
        assert_eq!(bytes[BEHIND_SIGNAL - 2..BEHIND_SIGNAL], [0x0f, 0x05]);
        assert_eq!(bytes[BEHIND_SIGNAL..][..6], [0xff, 0x25, 0, 0, 0, 0]);
        assert_eq!(bytes[BEHIND_SIGNAL + 6..][..8], 0x1122_3344_5566_7788u64.to_le_bytes());
    }
}
