//! Why a patch is refused, and what to do about it.

use core::fmt;

/// A patch that was not made. The text is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Other bytes than expected stand there: the code was changed by somebody else, or the plan is of another file.
    ForeignBytes {
        /// First address that differs.
        address: u64,
        /// Expected byte.
        expected: u8,
        /// The byte that stands there; 0xCC is a debugger's breakpoint.
        found: u8,
    },
    /// Fewer bytes than a jump needs.
    TooShort {
        /// The window.
        address: u64,
        /// Its length.
        length: u8,
    },
    /// A jump leads into the window.
    JumpTargetInside {
        /// The window.
        address: u64,
    },
    /// Target and site are more than ±2 GiB apart.
    OutOfReach {
        /// The site.
        address: u64,
        /// What it should lead to.
        target: u64,
    },
    /// The process returns through shadow stacks (CET), which an emulated call or a moved return address violates.
    ShadowStack {
        /// The window.
        address: u64,
    },
    /// Two windows share bytes.
    Overlap {
        /// The first one.
        address: u64,
        /// The other.
        other: u64,
    },
    /// Another thread is patching there, or a batch is at work.
    Contended {
        /// The window.
        address: u64,
    },
    /// A thread blocks a signal that the protocol needs: it would die at INT3, or can't be moved.
    SignalBlocked {
        /// Kernel's thread id.
        tid: u32,
        /// Signal number.
        signal: u8,
    },
    /// A thread did not answer the signal in time.
    NoAnswer {
        /// Kernel's thread id.
        tid: u32,
    },
    /// The address is not in executable memory.
    NotExecutable {
        /// The window.
        address: u64,
    },
    /// The differing bytes can't be switched by one store: they lie in two 8-byte words.
    Straddles {
        /// The site.
        address: u64,
    },
    /// Neither form of the instruction is one this crate knows.
    UnknownForm {
        /// The site.
        address: u64,
    },
    /// A thread that meets the window while it is being written has nowhere to go: the instruction can't be emulated
    /// and the window names no other place.
    NotEmulatable {
        /// The window.
        address: u64,
    },
    /// The kernel forbids to write to code (W^X policy, seccomp, SELinux, `proc_mem.force_override`).
    NotWritable {
        /// The range's beginning.
        address: u64,
        /// The kernel's error number.
        errno: u16,
    },
    /// Neither membarrier nor signals can serialize the threads.
    NoSerialization {
        /// The kernel's error number.
        errno: u16,
    },
    /// A debugger is attached, which takes every INT3 for itself.
    Traced {
        /// The debugger's process.
        pid: u32,
    },
    /// The memory was unmapped, protected or replaced since its page was prepared ([`crate::page`]).
    Unmapped {
        /// The word.
        address: u64,
    },
    /// This process is a fork's child that shares the alias with its parent.
    Forked {
        /// The site.
        address: u64,
    },
    /// A system call that the protocol needs has failed.
    System {
        /// Which.
        call: &'static str,
        /// The kernel's error number.
        errno: u16,
    },
    /// The window's description contradicts itself (no start at 0, a start beyond the end, a move missing).
    Malformed {
        /// The window.
        address: u64,
    },
}

impl Refusal {
    /// The address it is about, if about one.
    pub fn address(&self) -> Option<u64> {
        match *self {
            Self::ForeignBytes { address, .. }
            | Self::TooShort { address, .. }
            | Self::JumpTargetInside { address }
            | Self::OutOfReach { address, .. }
            | Self::ShadowStack { address }
            | Self::Overlap { address, .. }
            | Self::Contended { address }
            | Self::NotExecutable { address }
            | Self::Straddles { address }
            | Self::UnknownForm { address }
            | Self::NotEmulatable { address }
            | Self::NotWritable { address, .. }
            | Self::Forked { address }
            | Self::Unmapped { address }
            | Self::Malformed { address } => Some(address),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ForeignBytes { address, found: 0xCC, .. } => write!(
                f,
                "a breakpoint (INT3) stands at {address:#x}: delete it in the debugger, or leave this site out"
            ),
            Self::ForeignBytes { address, expected, found } => write!(
                f,
                "byte {found:#04x} at {address:#x} where {expected:#04x} should be: another tool has changed the code, \
                 or the file was replaced since it was loaded; restart the program, or leave this site out"
            ),
            Self::TooShort { address, length } => write!(
                f,
                "{length} bytes at {address:#x} have no room for a jump of 5: recompile with \
                 -fpatchable-function-entry=5, or leave this site out"
            ),
            Self::JumpTargetInside { address } => write!(
                f,
                "a jump leads into the window at {address:#x}: choose another site of the function, or recompile it \
                 with -fpatchable-function-entry=5"
            ),
            Self::OutOfReach { address, target } => write!(
                f,
                "{target:#x} can't be reached from {address:#x} by a jump of ±2 GiB: place the trampoline nearer"
            ),
            Self::ShadowStack { address } => write!(
                f,
                "the process uses shadow stacks, which a probe at {address:#x} would violate: restart it with \
                 GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK"
            ),
            Self::Overlap { address, other } => {
                write!(f, "the windows at {address:#x} and {other:#x} share bytes: leave one of them out")
            }
            Self::Contended { address } => {
                write!(f, "another thread is patching at {address:#x}: try again")
            }
            Self::SignalBlocked { tid, signal } => write!(
                f,
                "thread {tid} blocks signal {signal}: try again if it does so for a moment (thread creation), else \
                 have a controlling process install (transect probe -p), or allow it if that thread never runs this code"
            ),
            Self::NoAnswer { tid } => write!(
                f,
                "thread {tid} has not answered a signal in time: try again, or have a controlling process install \
                 (transect probe -p)"
            ),
            Self::NotExecutable { address } => {
                write!(f, "{address:#x} is not in executable memory: the object was unloaded, or it is data")
            }
            Self::Straddles { address } => write!(
                f,
                "the two forms at {address:#x} differ in two 8-byte words: give the off form a resident displacement \
                 (EB 03, or a call of a stub that returns)"
            ),
            Self::UnknownForm { address } => write!(
                f,
                "the forms at {address:#x} are not single instructions known to be switchable (call, jump, no-op, \
                 short jump, return): patch it as a window instead"
            ),
            Self::NotEmulatable { address } => write!(
                f,
                "the instruction at {address:#x} can't be emulated: name a relocated copy for threads that meet it"
            ),
            Self::NotWritable { address, errno } => write!(
                f,
                "the kernel forbids to write to the code at {address:#x} (error {errno}): allow executable memory files \
                 or /proc/self/mem in the policy (SELinux execmem, MDWE, proc_mem.force_override)"
            ),
            Self::NoSerialization { errno } => write!(
                f,
                "other threads can't be serialized (membarrier: error {errno}): allow membarrier in the system-call \
                 filter, or allow signals"
            ),
            Self::Traced { pid } => write!(
                f,
                "process {pid} debugs this one and would stop at every INT3: detach it, or allow stopping by signal"
            ),
            Self::Unmapped { address } => write!(
                f,
                "the program has unmapped, protected or replaced the memory at {address:#x} since it was prepared: \
                 prepare it again"
            ),
            Self::Forked { address } => write!(
                f,
                "this child of a fork shares the code at {address:#x} with its parent: call after_fork() in it first"
            ),
            Self::System { call, errno } => write!(f, "{call} failed with error {errno}: see errno(3)"),
            Self::Malformed { address } => {
                write!(f, "the window at {address:#x} contradicts itself: its starts, moves and lengths must agree")
            }
        }
    }
}

impl core::error::Error for Refusal {}
