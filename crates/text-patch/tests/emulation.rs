//! Emulated instructions do what the CPU does: for every form, compared with its execution.
#![allow(unsafe_code)]

use std::arch::asm;

use transect_text_patch::arch::signal::Registers;
use transect_text_patch::emulate::{Effect, effect, no_op_length};

/// Executable memory for one snippet.
fn snippet(code: &[u8]) -> u64 {
    // SAFETY: a new mapping, written within its length.
    unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(base, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(code.as_ptr(), base.cast(), code.len());
        base as u64
    }
}

/// All branches under all combinations of the flags that they read.
#[test]
fn branches_go_where_the_cpu_goes() {
    for condition in 0..16u8 {
        // jcc +3; xor eax, eax; ret; mov al, 1; ret — rax is 2 before
        let short = snippet(&[0x70 + condition, 3, 0x31, 0xC0, 0xC3, 0xB0, 1, 0xC3]);
        let near = [0x0F, 0x80 + condition, 3, 0, 0, 0];
        for bits in 0..32u64 {
            let flags = 2
                | (bits & 1)
                | (bits >> 1 & 1) << 2
                | (bits >> 2 & 1) << 6
                | (bits >> 3 & 1) << 7
                | (bits >> 4 & 1) << 11;
            let taken: u64;
            // SAFETY: sets arithmetic flags only, and calls the snippet, which changes rax and flags.
            unsafe {
                asm!("push {flags}", "popfq", "call {code}", flags = in(reg) flags, code = in(reg) short,
                    inout("rax") 2u64 => taken);
            }
            for (bytes, length, target) in [(&[0x70 + condition, 3][..], 2, 0x1005), (&near[..], 6, 0x1009)] {
                let mut registers = Registers { flags, rip: 0x1001, ..Registers::default() };
                // SAFETY: branches touch no memory.
                unsafe { effect(bytes, 0x1000).unwrap().act(&mut registers) };
                let expected = if taken & 0xFF == 1 { target } else { 0x1000 + length };
                assert_eq!(registers.rip, expected, "condition {condition:x}, flags {flags:#x}");
            }
        }
    }
}

#[test]
fn calls_and_returns_use_the_stack_as_the_cpu_does() {
    let mut stack = [0u64; 8];
    let top = &raw mut stack[4] as u64;
    let mut registers = Registers { rsp: top, rip: 0x1001, ..Registers::default() };
    // SAFETY: the stack is ours.
    unsafe {
        effect(&[0xE8, 0x10, 0, 0, 0], 0x1000).unwrap().act(&mut registers);
        assert_eq!((registers.rip, registers.rsp, stack[3]), (0x1015, top - 8, 0x1005));
        effect(&[0xC3], 0x1015).unwrap().act(&mut registers);
    }
    assert_eq!((registers.rip, registers.rsp), (0x1005, top));
    assert_eq!(effect(&[0xE9, 0xFB, 0xFF, 0xFF, 0xFF], 0x1000), Some(Effect::Go(0x1000)));
    assert_eq!(effect(&[0xEB, 0xFE], 0x1000), Some(Effect::Go(0x1000)));
    assert_eq!(effect(&[0xF3, 0x0F, 0x1E, 0xFA], 0x1000), Some(Effect::Go(0x1004)));
    assert_eq!(effect(&[0xE8, 0x10], 0x1000), None);
    assert_eq!(effect(&[0x53], 0x1000), None);
}

/// The lengths of no-ops, as the CPU finds them: executed one after the other up to a `ret` behind each.
#[test]
fn no_ops_have_the_length_that_the_cpu_gives_them() {
    let mut candidates: Vec<Vec<u8>> = vec![vec![0x90], vec![0x66, 0x90], vec![0x66, 0x66, 0x2E, 0x3E, 0x90]];
    for modrm in 0..=0x07u8 {
        for mode in [0x00, 0x40, 0x80, 0xC0] {
            for sib in [0x00, 0x05, 0x24, 0x25] {
                for prefix in [&[][..], &[0x66], &[0x66, 0x2E]] {
                    candidates.push([prefix, &[0x0F, 0x1F, mode | modrm, sib, 0, 0, 0, 0, 0, 0]].concat());
                }
            }
        }
    }
    for bytes in candidates {
        let length = no_op_length(&bytes).unwrap_or_else(|| panic!("{bytes:02x?}"));
        // The no-op cut to that length, then: mov al, 1; ret. A wrong length executes something else.
        let code = snippet(&[&bytes[..length], &[0xB0, 1, 0xC3]].concat());
        let result: u64;
        // SAFETY: the snippet changes rax only.
        unsafe { asm!("call {code}", code = in(reg) code, inout("rax") 0u64 => result) };
        assert_eq!(result, 1, "{bytes:02x?}, length {length}");
    }
    assert_eq!(no_op_length(&[0x0F, 0x1F]), None);
    assert_eq!(no_op_length(&[0x0F, 0x1F, 0x44, 0]), None);
    assert_eq!(no_op_length(&[0x0F, 0x0B]), None);
}
