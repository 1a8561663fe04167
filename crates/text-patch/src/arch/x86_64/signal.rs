//! Signal frames as the kernel lays them out.

/// SIGTRAP.
pub const SIGTRAP: u8 = 5;
/// SIGURG: ignored by default, and passed on silently by debuggers.
pub const SIGURG: u8 = 23;

/// Default disposition.
pub const SIG_DFL: usize = 0;
/// Ignored.
pub const SIG_IGN: usize = 1;

/// The handler takes three arguments.
pub const SA_SIGINFO: u64 = 4;
/// The action has a restorer.
pub const SA_RESTORER: u64 = 0x0400_0000;
/// Runs on the alternate stack, if there is one.
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// Interrupted calls are restarted.
pub const SA_RESTART: u64 = 0x1000_0000;
/// The signal is not blocked in its handler.
pub const SA_NODEFER: u64 = 0x4000_0000;
/// Back to the default at entry.
pub const SA_RESETHAND: u64 = 0x8000_0000;

/// `si_code` of an exception that the kernel reports without further detail, INT3 among them.
pub const SI_KERNEL: i32 = 0x80;

/// `struct kernel_sigaction`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Action {
    /// Address, [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: usize,
    /// `SA_` flags.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: usize,
    /// Signals blocked meanwhile.
    pub mask: u64,
}

/// Head of `siginfo_t`.
#[repr(C)]
pub struct SignalInfo {
    /// Signal number.
    pub signal: i32,
    /// Error number.
    pub errno: i32,
    /// Who sent it.
    pub code: i32,
}

/// General registers in a signal frame (`gregset_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    /// r8 to r15.
    pub r8_r15: [u64; 8],
    /// rdi.
    pub rdi: u64,
    /// rsi.
    pub rsi: u64,
    /// rbp.
    pub rbp: u64,
    /// rbx.
    pub rbx: u64,
    /// rdx.
    pub rdx: u64,
    /// rax.
    pub rax: u64,
    /// rcx.
    pub rcx: u64,
    /// rsp.
    pub rsp: u64,
    /// rip.
    pub rip: u64,
    /// rflags.
    pub flags: u64,
    /// cs, gs, fs, ss; 16 bits each.
    pub segments: u64,
}

/// `ucontext_t` up to the registers.
#[repr(C)]
pub struct UserContext {
    /// Flags.
    pub flags: u64,
    /// Next context.
    pub link: u64,
    /// Alternate stack: address, flags, size.
    pub stack: [u64; 3],
    /// Registers of the interrupted code.
    pub registers: Registers,
    /// err, trapno, oldmask, cr2.
    pub fault: [u64; 4],
    /// FPU state.
    pub fpu: u64,
    /// Reserved.
    pub reserved: [u64; 8],
    /// Signals blocked in the interrupted code.
    pub mask: u64,
}

const _: () = assert!(core::mem::offset_of!(UserContext, registers) == 40);
const _: () = assert!(core::mem::offset_of!(Registers, rip) == 128);
const _: () = assert!(core::mem::offset_of!(UserContext, mask) == 296);

unsafe extern "C" {
    fn transect_text_patch_restore();
}

/// Address of the code that handlers return to.
pub fn restorer() -> usize {
    transect_text_patch_restore as *const () as usize
}

/// A signal handler.
pub type Handler = extern "C" fn(i32, *mut SignalInfo, *mut UserContext);

/// Calls an application's handler.
///
/// # Safety
/// `action.handler` is a handler's address, the others are what the kernel has passed.
pub unsafe fn call_handler(action: &Action, signal: i32, info: *mut SignalInfo, context: *mut UserContext) {
    // SAFETY: the caller's. A handler of one argument ignores the others.
    unsafe {
        let handler: Handler = core::mem::transmute(action.handler);
        handler(signal, info, context);
    }
}
