//! The stubs between probes and handlers written in C: [`handler_stub.s`](../../../src/arch/x86_64/handler_stub.s).

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::handler::Binding;

global_asm!(
    include_str!("handler_stub.s"),
    include_str!("compiler_hooks.s"),
    met = sym crate::instrument_functions::met,
    bindings = sym BINDINGS,
    upper_mode = sym UPPER_MODE,
    upper_size = sym UPPER_SIZE,
    upper_mask = sym UPPER_MASK,
    B_ENTER = const offset_of!(Binding, enter),
    B_EXIT = const offset_of!(Binding, exit),
    B_DATA = const offset_of!(Binding, data),
    B_UPPERS = const offset_of!(Binding, keeps_uppers),
    B_TIER = const offset_of!(Binding, tier),
);

static BINDINGS: AtomicU64 = AtomicU64::new(0);
static UPPER_MODE: AtomicU32 = AtomicU32::new(0);
static UPPER_SIZE: AtomicU64 = AtomicU64::new(0);
static UPPER_MASK: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn transect_stub_enter();
    fn transect_stub_exit();
    fn transect_stub_guard() -> *mut u8;
}

unsafe extern "C" {
    fn transect_hook_enter();
    fn transect_hook_exit();
}

/// `__cyg_profile_func_enter`, which programs compiled with `-finstrument-functions` call.
///
/// # Safety
/// Called by such programs alone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __cyg_profile_func_enter(_function: *const u8, _call_site: *const u8) {
    core::arch::naked_asm!("jmp {}", sym transect_hook_enter)
}

/// `__cyg_profile_func_exit`.
///
/// # Safety
/// As `__cyg_profile_func_enter`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __cyg_profile_func_exit(_function: *const u8, _call_site: *const u8) {
    core::arch::naked_asm!("jmp {}", sym transect_hook_exit)
}

/// Addresses of both hooks.
pub fn hooks() -> [u64; 2] {
    [__cyg_profile_func_enter as *const () as u64, __cyg_profile_func_exit as *const () as u64]
}

/// Where the call or jump at `address` leads, through a linkage stub (PLT) or slot (GOT) if it uses one; 0 if it is
/// neither.
pub fn callee(address: u64) -> u64 {
    // SAFETY: `address` is a planned site in a loaded object; linkage stubs and slots that code refers to are mapped.
    unsafe {
        let target = branch_target(address);
        match branch_target_of_stub(target) {
            0 => target,
            resolved => resolved,
        }
    }
}

unsafe fn displacement(at: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { i64::from((at as *const i32).read_unaligned()) as u64 }
}

unsafe fn branch_target(at: u64) -> u64 {
    // SAFETY: the caller's: an instruction stands there.
    unsafe {
        match ((at as *const u8).read(), ((at + 1) as *const u8).read()) {
            (0xE8 | 0xE9, _) => (at + 5).wrapping_add(displacement(at + 1)),
            (0x67, 0xE8 | 0xE9) => (at + 6).wrapping_add(displacement(at + 2)),
            (0xFF, 0x15 | 0x25) => ((at + 6).wrapping_add(displacement(at + 2)) as *const u64).read(),
            _ => 0,
        }
    }
}

/// `[endbr64] [bnd] jmp *slot(%rip)`.
unsafe fn branch_target_of_stub(mut at: u64) -> u64 {
    if at == 0 {
        return 0;
    }
    // SAFETY: a branch of the program leads there.
    unsafe {
        if (at as *const [u8; 4]).read() == [0xF3, 0x0F, 0x1E, 0xFA] {
            at += 4;
        }
        if (at as *const u8).read() == 0xF2 {
            at += 1;
        }
        if (at as *const [u8; 2]).read() == [0xFF, 0x25] { branch_target(at) } else { 0 }
    }
}

/// Value of every descriptor's `user_enter`.
pub fn stub_enter() -> u64 {
    transect_stub_enter as *const () as u64
}

/// Value of every descriptor's `user_exit`.
pub fn stub_exit() -> u64 {
    transect_stub_exit as *const () as u64
}

/// Tells the stubs where the bindings are, and which upper halves of vector registers the CPU has.
pub fn set_bindings(address: u64) {
    // Upper halves of ymm0-15 and zmm0-15, which may hold arguments. Mask registers and zmm16-31 hold none, no call
    // preserves them, and libc leaves them in use for good: saving them would cost 350 ticks each time.
    const UPPERS: u64 = 1 << 2 | 1 << 6;
    // SAFETY: CPUID always exists on x86-64; XGETBV is executed only where OSXSAVE says that it exists.
    unsafe {
        if core::arch::x86_64::__cpuid(1).ecx & (1 << 27) != 0 {
            let (low, _high): (u32, u32);
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack));
            let mask = u64::from(low) & UPPERS;
            let mut size = 576;
            for component in 2..8 {
                if mask >> component & 1 == 1 {
                    let leaf = core::arch::x86_64::__cpuid_count(0xd, component);
                    size = size.max(leaf.ebx + leaf.eax);
                }
            }
            UPPER_MASK.store(mask as u32, Ordering::Relaxed);
            UPPER_SIZE.store(u64::from(size).next_multiple_of(64), Ordering::Relaxed);
            let knows_use = core::arch::x86_64::__cpuid_count(0xd, 1).eax & (1 << 2) != 0;
            let mode = match (mask, knows_use) {
                (0, _) => 0,
                (_, true) => 1,
                (_, false) => 2,
            };
            UPPER_MODE.store(mode, Ordering::Relaxed);
        }
    }
    BINDINGS.store(address, Ordering::Release);
}

/// While it lives, probes that this thread meets call no handler of the user's.
pub struct HandlersOff {
    before: u8,
    flag: *mut u8,
}

impl HandlersOff {
    /// Begins.
    pub fn new() -> Self {
        // SAFETY: the stub returns the address of this thread's byte.
        unsafe {
            let flag = transect_stub_guard();
            let before = flag.read_volatile();
            flag.write_volatile(1);
            Self { before, flag }
        }
    }
}

impl Drop for HandlersOff {
    fn drop(&mut self) {
        // SAFETY: the same thread (the type is not Send: it holds a raw pointer), so its thread-local byte exists.
        unsafe { self.flag.write_volatile(self.before) };
    }
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: exists on x86-64.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// True while this thread is in a handler, or in the library's own work.
pub fn handlers_are_off() -> bool {
    // SAFETY: the stub returns the address of this thread's byte.
    unsafe { transect_stub_guard().read_volatile() != 0 }
}
