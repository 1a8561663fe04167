//! The way of a new program image from exec to its entry point.

use std::fs;

use super::trampoline::{self, AT_ENTRY, Trampoline};
use crate::error::AttachError;
use crate::memory::Memory;
use crate::process::Status;
use crate::ptrace;

/// Not in a system call: nothing to restart.
const NO_CALL: u64 = u64::MAX;

#[derive(Debug, Clone)]
enum Stage {
    /// `execve` has not returned yet.
    Exec,
    /// The loader runs, and goes to the trampoline.
    Loader {
        trampoline: Trampoline,
        /// From system call to system call, of which the trampoline's first is seen: its signal is blocked, or a filter of system
        /// calls may not let it through.
        stepping: bool,
    },
}

/// Where a new image is on its way.
#[derive(Debug, Clone)]
pub struct Entry {
    address: u64,
    stage: Stage,
    /// The way of a parent at the time of a fork.
    inherited: bool,
}

/// What a stop was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Something of the program's own.
    NotOurs,
    /// A step of the way.
    OnTheWay,
    /// The thread stands at the entry point, everything is as the program expects it.
    Arrived,
}

impl Entry {
    /// For a thread at its exec event.
    pub fn begin(tid: i32) -> Result<Entry, AttachError> {
        let registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        let auxiliary =
            fs::read(format!("/proc/{tid}/auxv")).map_err(AttachError::system(tid, "read the auxiliary vector"))?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let address = auxiliary.chunks_exact(16).find(|pair| word(&pair[..8]) == AT_ENTRY).map(|pair| word(&pair[8..]));
        match address {
            Some(address) if registers.cs == crate::target::USER_CODE_64 => {
                Ok(Entry { address, stage: Stage::Exec, inherited: false })
            }
            _ => Err(AttachError::ForeignMachine { pid: tid, found: "a 32-bit program".to_owned() }),
        }
    }

    /// The same for a fork's child.
    pub fn inherited(self) -> Entry {
        Entry { inherited: true, ..self }
    }

    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// True if the thread must be run from system call to system call.
    pub fn is_stepping(&self) -> bool {
        matches!(self.stage, Stage::Loader { stepping: true, .. })
    }

    /// At the entry or exit of a system call.
    pub fn system_call(&mut self, tid: i32) -> Result<Reached, AttachError> {
        let registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        match &self.stage {
            Stage::Exec if registers.rip == self.address => Ok(Reached::Arrived),
            Stage::Exec => {
                let status = Status::read(tid).map_err(AttachError::system(tid, "read the status"))?;
                let blocked = status.blocked & 1 << (trampoline::SIGNAL - 1) != 0;
                let trampoline = Trampoline::lay(tid, &Memory::open(tid)?, registers.rsp, self.address)?;
                self.stage = Stage::Loader { trampoline, stepping: blocked || status.seccomp != 0 };
                Ok(Reached::OnTheWay)
            }
            // At its entry rax is an error, at its exit the thread's number.
            Stage::Loader { trampoline, .. } if trampoline.is_behind_call(registers.rip) => {
                if (registers.rax as i64) < 0 {
                    return Ok(Reached::OnTheWay);
                }
                self.arrive(tid)
            }
            Stage::Loader { stepping: true, .. } => Ok(Reached::OnTheWay),
            Stage::Loader { .. } => Ok(Reached::NotOurs),
        }
    }

    /// At the delivery of [`trampoline::SIGNAL`].
    pub fn signal(&mut self, tid: i32) -> Result<Reached, AttachError> {
        let Stage::Loader { trampoline, .. } = &self.stage else { return Ok(Reached::NotOurs) };
        let registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        if trampoline.is_behind_signal(registers.rip) { self.arrive(tid) } else { Ok(Reached::NotOurs) }
    }

    fn arrive(&mut self, tid: i32) -> Result<Reached, AttachError> {
        if let Stage::Loader { trampoline, .. } = &self.stage {
            trampoline.clear(&Memory::open(tid)?)?;
        }
        let mut registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        registers.rip = self.address;
        registers.orig_rax = NO_CALL;
        ptrace::set_registers(tid, &registers).map_err(AttachError::system(tid, "write the registers"))?;
        Ok(Reached::Arrived)
    }
}
