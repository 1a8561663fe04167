//! Reading and writing another process' memory through `/proc/PID/mem`.
//!
//! Writes go through page protection: a page of text becomes the process' private copy, as with a debugger.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::AttachError;

/// An open `/proc/PID/mem`.
#[derive(Debug)]
pub struct Memory {
    file: File,
    pid: i32,
}

impl Memory {
    /// Opens it.
    ///
    /// # Errors
    /// If the kernel does not let us ([`AttachError::System`] with its reason).
    pub fn open(pid: i32) -> Result<Memory, AttachError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(AttachError::system(pid, "open the memory"))?;
        Ok(Memory { file, pid })
    }

    /// Whose it is.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Fills `bytes` from `address` on.
    ///
    /// # Errors
    /// If something there is not mapped or not readable.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), AttachError> {
        self.file.read_exact_at(bytes, address).map_err(|e| self.failure("read the memory", e))
    }

    /// Reads as much as is mapped, up to the length of `bytes`; gives how much that was.
    pub fn read_some(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], address + done as u64) {
                Ok(more) if more > 0 => done += more,
                _ => break,
            }
        }
        done
    }

    /// Eight bytes as an integer.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn read_u64(&self, address: u64) -> Result<u64, AttachError> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores `bytes` from `address` on, whatever the protection.
    ///
    /// # Errors
    /// If something there is not mapped, or is a shared mapping without write permission.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), AttachError> {
        self.file.write_all_at(bytes, address).map_err(|e| self.failure("write the memory", e))
    }

    /// Whether the process has ended or runs another program since this was opened.
    pub fn is_gone(&self) -> bool {
        // Where nothing is mapped, as at 0, reading fails; memory that is gone reads as empty.
        matches!(self.file.read_at(&mut [0], 0), Ok(0))
    }

    /// A process that has ended or replaced its program reads as empty: that is told from a bad address.
    fn failure(&self, what: &'static str, error: io::Error) -> AttachError {
        let gone = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero);
        if gone { AttachError::Exited { pid: self.pid } } else { AttachError::system(self.pid, what)(error) }
    }
}
