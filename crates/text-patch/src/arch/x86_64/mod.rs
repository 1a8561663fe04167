//! x86-64: clock, serialization, cache control, the return from signal handlers, system calls.

use core::arch::{asm, global_asm};

pub mod guarded;
pub mod signal;
pub mod syscall;

// The bytes of libc's __restore_rt, which debuggers and unwinders know a signal frame by.
// Registers: none read; rax is overwritten, the kernel restores all others and the flags from the frame at rsp.
global_asm!(
    ".pushsection .text.transect_text_patch_restore,\"ax\",@progbits",
    ".balign 16",
    "nop",
    ".globl transect_text_patch_restore",
    ".hidden transect_text_patch_restore",
    ".type transect_text_patch_restore,@function",
    "transect_text_patch_restore:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00",
    "syscall",
    ".size transect_text_patch_restore, . - transect_text_patch_restore",
    ".popsection",
);

/// Time stamp counter.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc has no effect but on its results.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Executes an instruction that serializes this CPU's instruction stream.
pub fn serialize_here() {
    core::arch::x86_64::__cpuid(0);
}

/// True for CPUs on which no fetch was ever seen to mix old and new bytes of a locked store within a cache line:
/// those of Intel, and of AMD from family 19h on.
pub fn cpu_fetches_lines_whole() -> bool {
    let name = core::arch::x86_64::__cpuid(0);
    let version = core::arch::x86_64::__cpuid(1).eax;
    let family = (version >> 8 & 0xF) + if version >> 8 & 0xF == 0xF { version >> 20 & 0xFF } else { 0 };
    match [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes) {
        [[b'G', b'e', b'n', b'u'], [b'i', b'n', b'e', b'I'], [b'n', b't', b'e', b'l']] => true,
        [[b'A', b'u', b't', b'h'], [b'e', b'n', b't', b'i'], [b'c', b'A', b'M', b'D']] => family >= 0x19,
        _ => false,
    }
}

/// Takes the line of `address` out of all caches.
///
/// # Safety
/// `address` is mapped.
pub unsafe fn flush_line(address: u64) {
    // SAFETY: the caller's; a flush changes no content.
    unsafe { core::arch::x86_64::_mm_clflush(address as *const u8) };
}

/// True if this thread returns through a shadow stack (CET): `rdsspq` leaves its operand alone where there is none.
pub fn shadow_stack_active() -> bool {
    let pointer: u64;
    // SAFETY: a no-op on CPUs and threads without shadow stack.
    unsafe { asm!("rdsspq {0}", inout(reg) 0u64 => pointer, options(nomem, nostack, preserves_flags)) };
    pointer != 0
}

pub mod store;

/// Time stamp counter, read when all instructions before have completed and before any after begins.
#[inline(always)]
pub fn fenced_ticks() -> u64 {
    // SAFETY: fences and rdtsc have no effect but on time.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
}
