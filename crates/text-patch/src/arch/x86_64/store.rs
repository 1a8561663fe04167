//! Loads and stores of code, each one instruction. In assembly, since widths mix on the same bytes, for which the
//! language's atomics have no rule and the CPU has: a store within an aligned 8-byte word is seen whole (Intel:
//! within a cache line; AMD: within an aligned 8-byte word), by instruction fetch too.

use core::arch::asm;

macro_rules! access {
    ($load:ident, $store:ident, $type:ty, $class:ident, $load_code:literal, $store_code:literal) => {
        /// Loads in one instruction.
        ///
        /// # Safety
        /// `at` is readable for the width.
        #[inline(always)]
        pub unsafe fn $load(at: u64) -> $type {
            let value: $type;
            // SAFETY: the caller's; one load, flags kept.
            unsafe { asm!($load_code, out($class) value, in(reg) at, options(nostack, readonly, preserves_flags)) };
            value
        }

        /// Stores in one instruction.
        ///
        /// # Safety
        /// `at` is writable for the width, within one aligned 8-byte word.
        #[inline(always)]
        pub unsafe fn $store(at: u64, value: $type) {
            // SAFETY: the caller's; one store, flags kept.
            unsafe { asm!($store_code, in(reg) at, in($class) value, options(nostack, preserves_flags)) };
        }
    };
}

access!(load_1, store_1, u8, reg_byte, "mov {0}, byte ptr [{1}]", "mov byte ptr [{0}], {1}");
access!(load_2, store_2, u16, reg, "movzx {0:e}, word ptr [{1}]", "mov word ptr [{0}], {1:x}");
access!(load_4, store_4, u32, reg, "mov {0:e}, dword ptr [{1}]", "mov dword ptr [{0}], {1:e}");
access!(load_8, store_8, u64, reg, "mov {0}, qword ptr [{1}]", "mov qword ptr [{0}], {1}");

/// Stores four bytes that nobody reads or executes meanwhile, at any place.
///
/// # Safety
/// `at` is writable for four bytes.
#[inline(always)]
pub unsafe fn store_4_anywhere(at: u64, value: u32) {
    // SAFETY: the caller's; one store, flags kept.
    unsafe { asm!("mov dword ptr [{0}], {1:e}", in(reg) at, in(reg) value, options(nostack, preserves_flags)) };
}

/// Replaces an aligned word if it still holds `expected`; else what it holds.
///
/// # Safety
/// `at` is 8-aligned (a locked access across a line stops all CPUs) and writable.
#[inline(always)]
pub unsafe fn compare_exchange_8(at: u64, expected: u64, new: u64) -> Result<(), u64> {
    let found: u64;
    // SAFETY: the caller's; rax is named, the flags are clobbered.
    unsafe {
        asm!("lock cmpxchg qword ptr [{at}], {new}", at = in(reg) at, new = in(reg) new,
            inlateout("rax") expected => found, options(nostack));
    }
    if found == expected { Ok(()) } else { Err(found) }
}
