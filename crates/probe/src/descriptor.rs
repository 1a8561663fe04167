//! What a trampoline and its handlers know of their site.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// In [`Descriptor::flags`]: a user's entry handler is followed by the exit handler.
pub const WANTS_EXIT: u32 = 1;

/// Data of one site, 64 bytes before its trampoline's first instruction. The trampoline calls through
/// [`Descriptor::enter`] and [`Descriptor::exit`], so that handlers are swapped by one aligned store of data.
///
/// `enter` must come first: handlers find the descriptor by the displacement of the call.
#[repr(C, align(64))]
pub struct Descriptor {
    /// Address of the entry handler.
    pub enter: AtomicU64,
    /// Address of the exit handler.
    pub exit: AtomicU64,
    /// Address of the site's `SiteRecord`.
    pub record: AtomicU64,
    /// Address of the site's `SiteCounters` in shard 0.
    pub counters: AtomicU64,
    /// Address of the site's histogram; of a region site what `crate::Handler::RegionAndFlows` passes on.
    pub histogram: AtomicU64,
    /// Dense probe id.
    pub id: AtomicU32,
    /// [`WANTS_EXIT`].
    pub flags: AtomicU32,
    /// A user's entry handler, for the tiers that call one.
    pub user_enter: AtomicU64,
    /// A user's exit handler; of a function timed by its callers the address of its `CallerRules`.
    pub user_exit: AtomicU64,
}

const _: () = assert!(size_of::<Descriptor>() == 64);
const _: () = assert!(core::mem::offset_of!(Descriptor, enter) == 0);

/// Integer registers at a probe as a user's handler sees them. What it writes is what the program goes on with, but
/// for `probe`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "register names")]
pub struct Registers {
    pub rbp: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    /// An address in the trampoline.
    pub probe: u64,
    /// The function's return address, at entries and exits.
    pub return_address: u64,
}

const _: () = assert!(size_of::<Registers>() == 96);

/// What a handler of the full tier gets as its third argument: registers that the C convention preserves, then, 64
/// bytes on, the XSAVE area in its standard form. `rflags` and `rsp` are for reading only.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "register names")]
pub struct FullContext {
    pub rflags: u64,
    pub rbx: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rsp: u64,
    pub reserved: u64,
}

const _: () = assert!(size_of::<FullContext>() == 64);
