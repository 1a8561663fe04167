//! The way of a new program image from exec to its entry point.

use std::fs;

use crate::error::AttachError;
use crate::memory::Memory;
use crate::process::Status;
use crate::ptrace;

const AT_ENTRY: u64 = 9;
const BREAKPOINT: [u8; 1] = [0xcc];
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// Not a system call: skips the one that is about to be made.
const NO_CALL: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `execve` has not returned yet.
    Exec,
    /// `CC` stands at the entry point.
    Breakpoint,
    /// `0F 05` stands at the entry point.
    SystemCall,
    /// That system call has been entered.
    InSystemCall,
}

/// Where a new image is on its way.
#[derive(Debug, Clone)]
pub struct Entry {
    address: u64,
    stage: Stage,
    original: [u8; 2],
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
                Ok(Entry { address, stage: Stage::Exec, original: [0; 2], inherited: false })
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
        matches!(self.stage, Stage::SystemCall | Stage::InSystemCall)
    }

    /// At the entry or exit of a system call.
    pub fn system_call(&mut self, tid: i32) -> Result<Reached, AttachError> {
        let mut registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        match self.stage {
            Stage::Exec if registers.rip == self.address => Ok(Reached::Arrived),
            Stage::Exec => {
                self.lay_trap(tid)?;
                Ok(Reached::OnTheWay)
            }
            Stage::Breakpoint => Ok(Reached::NotOurs),
            Stage::SystemCall if registers.rip == self.address + 2 => {
                self.take_trap(tid)?;
                registers.orig_rax = NO_CALL;
                let skipped = ptrace::set_registers(tid, &registers);
                skipped.map_err(AttachError::system(tid, "write the registers"))?;
                self.stage = Stage::InSystemCall;
                Ok(Reached::OnTheWay)
            }
            Stage::SystemCall => Ok(Reached::OnTheWay),
            Stage::InSystemCall => self.arrive(tid),
        }
    }

    /// At the delivery of a SIGTRAP.
    pub fn breakpoint(&mut self, tid: i32) -> Result<Reached, AttachError> {
        let registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        if self.stage != Stage::Breakpoint || registers.rip != self.address + 1 {
            return Ok(Reached::NotOurs);
        }
        self.take_trap(tid)?;
        self.arrive(tid)
    }

    fn arrive(&mut self, tid: i32) -> Result<Reached, AttachError> {
        let mut registers = ptrace::registers(tid).map_err(AttachError::system(tid, "read the registers"))?;
        registers.rip = self.address;
        registers.orig_rax = NO_CALL;
        ptrace::set_registers(tid, &registers).map_err(AttachError::system(tid, "write the registers"))?;
        Ok(Reached::Arrived)
    }

    fn lay_trap(&mut self, tid: i32) -> Result<(), AttachError> {
        let status = Status::read(tid).map_err(AttachError::system(tid, "read the status"))?;
        let memory = Memory::open(tid)?;
        memory.read(self.address, &mut self.original)?;
        let trap = 1 << (libc::SIGTRAP - 1);
        if (status.blocked | status.ignored) & trap == 0 {
            self.stage = Stage::Breakpoint;
            memory.write(self.address, &BREAKPOINT)
        } else {
            self.stage = Stage::SystemCall;
            memory.write(self.address, &SYSTEM_CALL)
        }
    }

    fn take_trap(&self, tid: i32) -> Result<(), AttachError> {
        let length = if self.stage == Stage::Breakpoint { BREAKPOINT.len() } else { SYSTEM_CALL.len() };
        Memory::open(tid)?.write(self.address, &self.original[..length])
    }
}
