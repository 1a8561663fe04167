//! How often the waiting protocol fails: a word across a line, patched to and fro while threads execute it.
//!
//! The word is `jmp A` or `call B` with displacements that differ in every byte, so that each mixture of them, and each
//! of the two opcodes with the other's target, is found out.

use super::field::Counters;
use super::region::{Cursor, Region};
use crate::Refusal;
use crate::form::{CALL, JUMP};
use crate::word::{Pacing, WordPatch, patch_paced};

const SITE: u64 = 4096;
const ENTRY: u64 = 60 << 20;
const FAILED: u64 = ENTRY + 512;
const LEAVE: u64 = ENTRY + 1024;
const COLD: u64 = ENTRY + 1536;
const JUMP_FORM: [u8; 8] = [JUMP, 0x10, 0x20, 0x30, 0x00, 0, 0, 0];
const CALL_FORM: [u8; 8] = [CALL, 0x50, 0xC1, 0xCC, 0x01, 0, 0, 0];

/// One word of which `split` bytes (1 to 4) lie before a cache line's end.
pub struct WaitTrial {
    region: Region,
    address: u64,
}

// SAFETY: memory of its own; word patches are meant for many threads.
unsafe impl Send for WaitTrial {}
// SAFETY: as above.
unsafe impl Sync for WaitTrial {}

impl WaitTrial {
    /// Makes the code.
    ///
    /// # Errors
    /// [`Refusal::System`], [`Refusal::Malformed`] for another split.
    pub fn new(split: u64) -> Result<Self, Refusal> {
        let region = Region::new(64 << 20, false)?;
        let base = region.base;
        let address = base + SITE - split;
        if !(1..=4).contains(&split) {
            return Err(Refusal::Malformed { address });
        }
        let target = |bytes: &[u8]| {
            let displacement = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            address + 5 + displacement as u64
        };
        let mut sound = true;
        for mixture in 1..15u32 {
            let mut bytes = JUMP_FORM;
            for (i, byte) in bytes.iter_mut().enumerate().skip(1).take(4) {
                if mixture >> (i - 1) & 1 != 0 {
                    *byte = CALL_FORM[i];
                }
            }
            let mut stub = Cursor { region: &region, at: target(&bytes), sound };
            stub.transfer(JUMP, base + FAILED);
            sound = stub.sound;
        }
        let mut code = Cursor { region: &region, at: base + ENTRY, sound };
        // push rbx; push r12; push r13; push rbp; push r14; mov rbx, rdi; mov r14, rsi; mov r12, rsp
        code.emit(&[
            0x53, 0x41, 0x54, 0x41, 0x55, 0x55, 0x41, 0x56, 0x48, 0x89, 0xFB, 0x49, 0x89, 0xF6, 0x49, 0x89, 0xE4,
        ]);
        // lea r13, [rsp - 8]; mov ebp, 64; xor eax, eax; jmp r14
        code.emit(&[0x4C, 0x8D, 0x6C, 0x24, 0xF8, 0xBD, 64, 0, 0, 0, 0x31, 0xC0, 0x41, 0xFF, 0xE6]);
        code.at = address;
        code.emit(&JUMP_FORM[..5]);
        // dec ebp; jz leave; jmp r14
        code.emit(&[0xFF, 0xCD, 0x0F, 0x84]);
        let leave = ((base + LEAVE).wrapping_sub(code.at + 4) as i64 as i32).to_le_bytes();
        code.emit(&leave);
        code.emit(&[0x41, 0xFF, 0xE6]);
        // Cold: clflush [address]; clflush [address + 4]; jmp address
        code.at = base + COLD;
        for place in [address, address + 4] {
            code.emit(&[0x0F, 0xAE, 0x3D]);
            let line = (place.wrapping_sub(code.at + 4) as i64 as i32).to_le_bytes();
            code.emit(&line);
        }
        code.transfer(JUMP, address);
        // A: cmp rsp, r12; jne failed; inc qword [rbx]; jmp behind the word
        code.at = target(&JUMP_FORM);
        code.emit(&[0x4C, 0x39, 0xE4, 0x0F, 0x85]);
        let failed = ((base + FAILED).wrapping_sub(code.at + 4) as i64 as i32).to_le_bytes();
        code.emit(&failed);
        code.emit(&[0x48, 0xFF, 0x03]);
        code.transfer(JUMP, address + 5);
        // B: cmp rsp, r13; jne failed; inc qword [rbx + 8]; ret
        code.at = target(&CALL_FORM);
        code.emit(&[0x4C, 0x39, 0xEC, 0x0F, 0x85]);
        let failed = ((base + FAILED).wrapping_sub(code.at + 4) as i64 as i32).to_le_bytes();
        code.emit(&failed);
        code.emit(&[0x48, 0xFF, 0x43, 0x08, 0xC3]);
        // inc qword [rbx + 16]; mov rsp, r12; leave: pop r14; pop rbp; pop r13; pop r12; pop rbx; ret
        code.at = base + FAILED;
        code.emit(&[0x48, 0xFF, 0x43, 0x10, 0x4C, 0x89, 0xE4]);
        code.transfer(JUMP, base + LEAVE);
        code.at = base + LEAVE;
        code.emit(&[0x41, 0x5E, 0x5D, 0x41, 0x5D, 0x41, 0x5C, 0x5B, 0xC3]);
        if code.sound { Ok(Self { region, address }) } else { Err(Refusal::System { call: "placing code", errno: 17 }) }
    }

    /// Executes the word 64 times, or up to a mixed instruction, and counts in `counters`. If `cold`, the line of the
    /// word's tail is taken out of the caches each time before: whoever fetches the word has its head already when
    /// the tail arrives.
    #[inline]
    pub fn pass(&self, cold: bool, counters: &mut Counters) {
        let head = if cold { self.region.base + COLD } else { self.address };
        // SAFETY: the code made by `new`: a C function that preserves what it must.
        unsafe {
            let code: extern "C" fn(*mut Counters, u64) = core::mem::transmute(self.region.base + ENTRY);
            code(counters, head);
        }
    }

    /// Patches the word `count` times, to and fro. An even count leaves the first form. One thread at a time.
    ///
    /// # Errors
    /// As [`crate::word::patch`].
    pub fn toggle(&self, pacing: Pacing, count: u64) -> Result<(), Refusal> {
        for i in 0..count {
            let (old, new) = if i % 2 == 0 { (JUMP_FORM, CALL_FORM) } else { (CALL_FORM, JUMP_FORM) };
            let address = self.address;
            let patch = WordPatch { address, alias: address, length: 5, old, new, moved: 0 };
            // SAFETY: memory of ours, one instruction; mixed ones are what is looked for.
            if !unsafe { patch_paced(&patch, pacing)? } {
                return Err(Refusal::Contended { address });
            }
        }
        Ok(())
    }
}
