//! A stopped child process in which code runs instruction by instruction, on memory that the test shares with it.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;

/// Bytes of each of the two arenas that code under test reads and writes: data, and stack.
pub const ARENA: usize = 32 << 10;
/// Bytes for relocated code.
pub const CODE: usize = 64 << 10;

/// Bytes before and after them all that are not accessible, so that wild accesses fault alike.
const GUARD: usize = (2 << 30) + (16 << 20);

/// Integer registers as ptrace has them, and the vector ones.
#[derive(Clone)]
pub struct State {
    pub integer: libc::user_regs_struct,
    pub vector: libc::user_fpregs_struct,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Control left the range.
    Left,
    /// A signal (faults), at the address in `rip`.
    Signal(i32),
    /// Too many steps.
    Running,
}

/// The child and the memory shared with it: image, code, data and stack, adjacent.
pub struct Sandbox {
    child: libc::pid_t,
    base: *mut u8,
    image: usize,
    size: usize,
    /// Steps made.
    pub steps: u64,
}

impl Sandbox {
    /// Starts a child with `image` bytes for the original code.
    pub fn start(image: usize) -> io::Result<Self> {
        let image = image.next_multiple_of(4096);
        let size = image + CODE + 2 * ARENA;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping of its own; nothing else is in its place.
        let room = unsafe { libc::mmap(std::ptr::null_mut(), size + 2 * GUARD, libc::PROT_NONE, flags, -1, 0) };
        if room == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = room.cast::<u8>().wrapping_add(GUARD).cast();
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: the middle of the mapping just made.
        if unsafe { libc::mprotect(base, size, all) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the child makes three system calls and stops; it allocates nothing and takes no lock.
        let child = unsafe { libc::fork() };
        match child {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: plain system calls in the child; it never runs on by itself.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    libc::raise(libc::SIGSTOP);
                    libc::_exit(1)
                }
            }
            _ => {}
        }
        let sandbox = Self { child, base: base.cast(), image, size, steps: 0 };
        sandbox.wait()?;
        Ok(sandbox)
    }

    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this size and lives as long as `self`; the child is stopped whenever we touch it.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.size) }
    }

    /// Address of the image.
    pub fn image_at(&self) -> u64 {
        self.base as u64
    }

    /// Address of the place for relocated code.
    pub fn code_at(&self) -> u64 {
        self.image_at() + self.image as u64
    }

    /// Address of the data arena.
    pub fn data_at(&self) -> u64 {
        self.code_at() + CODE as u64
    }

    /// Address of the stack arena.
    pub fn stack_at(&self) -> u64 {
        self.data_at() + ARENA as u64
    }

    pub fn image(&mut self) -> &mut [u8] {
        let size = self.image;
        &mut self.memory()[..size]
    }

    pub fn code(&mut self) -> &mut [u8] {
        let start = self.image;
        &mut self.memory()[start..start + CODE]
    }

    /// Data and stack.
    pub fn arenas(&mut self) -> &mut [u8] {
        let start = self.image + CODE;
        &mut self.memory()[start..]
    }

    /// Registers as they are.
    pub fn state(&self) -> io::Result<State> {
        // SAFETY: plain data that ptrace overwrites as a whole.
        let mut state: State = unsafe { std::mem::zeroed() };
        self.ptrace(libc::PTRACE_GETREGS, &raw mut state.integer as usize)?;
        self.ptrace(libc::PTRACE_GETFPREGS, &raw mut state.vector as usize)?;
        Ok(state)
    }

    /// Runs from `state` until control leaves `range`; the registers then.
    pub fn run(&mut self, state: &State, range: Range<u64>, limit: usize) -> io::Result<(State, End)> {
        let mut integer = state.integer;
        // No system call is to be restarted.
        integer.orig_rax = u64::MAX;
        self.ptrace(libc::PTRACE_SETREGS, &raw const integer as usize)?;
        self.ptrace(libc::PTRACE_SETFPREGS, &raw const state.vector as usize)?;
        let mut end = End::Running;
        for _ in 0..limit {
            self.ptrace(libc::PTRACE_SINGLESTEP, 0)?;
            self.steps += 1;
            let signal = self.wait()?;
            if signal != libc::SIGTRAP {
                end = End::Signal(signal);
                break;
            }
            self.ptrace(libc::PTRACE_GETREGS, &raw mut integer as usize)?;
            if !range.contains(&integer.rip) {
                end = End::Left;
                break;
            }
        }
        Ok((self.state()?, end))
    }

    /// Waits for the child to stop; the signal.
    fn wait(&self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: waits for our own child.
        if unsafe { libc::waitpid(self.child, &raw mut status, libc::__WALL) } != self.child {
            return Err(io::Error::last_os_error());
        }
        if libc::WIFSTOPPED(status) {
            return Ok(libc::WSTOPSIG(status));
        }
        Err(io::Error::other(format!("the child ended: status {status:#x}")))
    }

    fn ptrace(&self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: `data` is 0 or points to a structure of the request's type, alive over the call.
        match unsafe { libc::ptrace(request, self.child, 0, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // SAFETY: our own child and our own mapping, which nothing borrows any more.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), libc::__WALL);
            libc::munmap(self.base.wrapping_sub(GUARD).cast(), self.size + 2 * GUARD);
        }
    }
}
