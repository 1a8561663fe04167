//! Keeps the kernel from replacing breakpoints by calls.
//!
//! Linux 6.18 replaces the breakpoint on a no-op of five bytes, once it was hit, by a call to a page that it maps into
//! the process. A forked child inherits the call but not the page, and crashes there. The kernel gives up on a site for
//! good where no such page can be mapped near it; so each site is hit first in a process of ours whose address space is
//! taken around it, before it is watched anywhere else.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// What a site is if it is no call.
pub(super) const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// How far a call reaches.
const REACH: usize = 1 << 31;
const BREAKPOINT: u8 = 0xcc;

/// A stopped process that has a part of a file mapped, and no room near it.
#[derive(Debug)]
pub(super) struct CrampedProcess {
    pid: Pid,
    /// Address of the file's offset 0.
    bias: u64,
}

/// Whether the file has a no-op there.
pub(super) fn is_nop(file: &File, offset: u64) -> bool {
    let mut bytes = [0; NOP.len()];
    file.read_exact_at(&mut bytes, offset).is_ok() && bytes == NOP
}

impl CrampedProcess {
    /// Starts it with these offsets of the file mapped.
    ///
    /// # Errors
    /// If the file may not be mapped as code, or no process can be had.
    pub fn start(file: &File, offsets: Range<u64>) -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let first = offsets.start / page * page;
        let length = (offsets.end - first).next_multiple_of(page) as usize;
        let whole = 2 * REACH + 4 * length;
        let private = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), private) }?;
        let middle = room.wrapping_byte_add(REACH + length);
        let code = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: it replaces pages inside of the mapping that was just made, which nobody uses.
        let mapped = unsafe { mmap(middle, length, code, private | MapFlags::FIXED, file.as_fd(), first) };
        // SAFETY: the child calls only what is safe after a fork in a process of many threads: it allocates nothing.
        let forked = mapped.map_err(io::Error::from).and_then(|_| unsafe { fork() }.map_err(io::Error::from));
        if let Ok(ForkResult::Child) = forked {
            let _ = ptrace::traceme();
            let _ = raise(Signal::SIGSTOP);
            // SAFETY: ends the process at once, without what the recorder has registered for its own end.
            unsafe { nix::libc::_exit(0) };
        }
        // SAFETY: made above, and only the child is to have it.
        let _ = unsafe { munmap(room, whole) };
        let ForkResult::Parent { child } = forked? else { return Err(io::ErrorKind::Other.into()) };
        let process = Self { pid: child, bias: (middle as u64).wrapping_sub(first) };
        match waitpid(child, None)? {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {
                // If we are killed it ends, too.
                ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL)?;
                Ok(process)
            }
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Hits the site at this offset, which is watched in this process; it remains a breakpoint from now on.
    ///
    /// # Errors
    /// If it does not.
    pub fn hit(&self, offset: u64) -> io::Result<()> {
        let address = self.bias.wrapping_add(offset);
        let mut registers = ptrace::getregs(self.pid)?;
        (registers.rip, registers.orig_rax) = (address, u64::MAX);
        ptrace::setregs(self.pid, registers)?;
        // The instruction after it may be executed, too: any signal that comes of that is not delivered.
        ptrace::step(self.pid, None)?;
        match waitpid(self.pid, None)? {
            WaitStatus::Stopped(..) => {}
            other => return Err(io::Error::other(format!("{other:?}"))),
        }
        let word = ptrace::read(self.pid, address as ptrace::AddressType)?;
        if word.to_le_bytes().first() == Some(&BREAKPOINT) {
            return Ok(());
        }
        Err(io::Error::other("the kernel replaces the breakpoint at a no-op, which would end forked children"))
    }
}

impl Drop for CrampedProcess {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}
