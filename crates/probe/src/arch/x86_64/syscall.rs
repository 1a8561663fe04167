//! The few system calls that handlers make, without libc.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

unsafe fn call(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; callers answer for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Fresh private memory of zeros, not reserved; negative errno on failure.
pub fn map_private(bytes: u64) -> i64 {
    const READ_WRITE: u64 = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: u64 = 0x4022;
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    unsafe { call(9, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, u64::MAX, 0) }
}

/// Whether a page is mapped.
pub fn is_mapped(page: u64) -> bool {
    let mut resident = 0u8;
    // SAFETY: the kernel writes one byte, for one page.
    unsafe { call(27, page & !4095, 4096, &raw mut resident as u64, 0, 0, 0) == 0 }
}

/// Sleeps while the word has this value, at most `nanoseconds`.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = [0u64, nanoseconds];
    // SAFETY: the word is valid for the call, and the kernel reads 16 bytes of `time`.
    unsafe { call(202, word.as_ptr() as u64, 0, u64::from(value), time.as_ptr() as u64, 0, 0) };
}

/// Wakes everybody who sleeps on the word.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call.
    unsafe { call(202, word.as_ptr() as u64, 1, i32::MAX as u64, 0, 0, 0) };
}
