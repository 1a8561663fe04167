//! The code under test, and the thread that executes it.
//!
//! Two forms of a site, `call x` and `jmp y`, that differ in every byte. What a CPU executes is told from where
//! it arrives (at one of four pads, for the front part of a displacement may be x's or y's and so may the rest) and by
//! the stack pointer (call or jump). Anything but x by call and y by jump is a *mixed* instruction.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use transect_text_patch::form;

use super::protocol::{Place, Words};
use crate::CalibrateError;
use crate::code_memory::CodeMemory;

/// The line end that sites straddle.
const LINE: usize = 4096 + 64;
/// Displacements of the two forms; no byte of one equals the other's in its place.
const X: u32 = 0x0110_2030;
const Y: u32 = 0x0214_2850;
/// All pads lie below.
const SIZE: usize = 48 << 20;
/// Number of the pad where trapped threads go on.
const TRAP: usize = 4;

/// Number of [`Outcomes`].
const OUTCOMES: usize = 2 * (TRAP + 1);
/// How often each thing was executed: index 2 × pad + (1 if the stack pointer says call).
pub(super) type Outcomes = [AtomicU64; OUTCOMES];

/// The code of one trial.
#[derive(Debug)]
pub(super) struct Code {
    memory: CodeMemory,
    site: usize,
    split: u8,
}

impl Code {
    pub(super) fn new(split: u8) -> Result<Self, CalibrateError> {
        let memory = CodeMemory::new(SIZE)?;
        let site = LINE - if split == 0 { 8 } else { usize::from(split) };
        let code = Self { memory, site, split };
        // One-byte no-ops lead to the site.
        code.memory.write(LINE - 64, &[0x90; 64]);
        // Parts of a displacement: bytes before the line's end are one part, the rest the other.
        let front_bytes = u32::from(split.saturating_sub(1)) * 8;
        let low = if split == 0 { 0 } else { (1u32 << front_bytes) - 1 };
        // Where a displacement has one part only, the mixed pads are those of the forms: these are written last.
        for (pad, (front, rest)) in [(X, X), (Y, Y), (X, Y), (Y, X)].into_iter().enumerate().rev() {
            let displacement = (front & low) | (rest & !low);
            code.put_pad(site + 5 + displacement as usize, pad);
        }
        code.put_pad(Self::TRAP_PAD, TRAP);
        let first = code.call_x();
        code.place_words().0.store(first.front, Ordering::Relaxed);
        code.place_words().1.store(first.tail, Ordering::Relaxed);
        Ok(code)
    }

    const TRAP_PAD: usize = 0;

    /// `mov eax, pad; jmp r11`
    fn put_pad(&self, offset: usize, pad: usize) {
        self.memory.write(offset, &[0xB8, pad as u8, 0, 0, 0, 0x41, 0xFF, 0xE3]);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `offset` is 8-aligned and within the writable mapping.
        unsafe { &*(self.memory.alias(offset) as *const AtomicU64) }
    }

    fn place_words(&self) -> (&AtomicU64, &AtomicU64) {
        (self.word(LINE - 8), self.word(LINE))
    }

    fn words(&self, opcode: u8, displacement: u32) -> Words {
        let mut bytes = [0x90u8; 16];
        let at = self.site - (LINE - 8);
        bytes[at] = opcode;
        bytes[at + 1..at + 5].copy_from_slice(&displacement.to_le_bytes());
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        Words { front: word(0), tail: word(8) }
    }

    /// The first form.
    pub(super) fn call_x(&self) -> Words {
        self.words(form::CALL, X)
    }

    /// The second form.
    pub(super) fn jump_y(&self) -> Words {
        self.words(form::JUMP, Y)
    }

    /// As the protocol sees it.
    pub(super) fn place(&self) -> Place<'_> {
        let (front, tail) = self.place_words();
        // SAFETY: within the writable mapping; bytes and words are only accessed atomically.
        let first = unsafe { &*(self.memory.alias(self.site) as *const AtomicU8) };
        Place { first, front, tail, straddles: self.split != 0 }
    }

    /// Address of the site, where an INT3 may be met.
    pub(super) fn site_address(&self) -> u64 {
        self.memory.address(self.site)
    }

    /// Where a thread goes on that met it.
    pub(super) fn trap_pad(&self) -> u64 {
        self.memory.address(Self::TRAP_PAD)
    }

    /// Executes the site `rounds` times. `cold`: the second line (for a site within a line, its own) is flushed from
    /// all caches each time before.
    pub(super) fn execute(&self, rounds: u64, cold: bool, outcomes: &Outcomes) {
        let line = self.memory.address(if self.split == 0 { LINE - 64 } else { LINE });
        let flush = if cold { line } else { 0 };
        let approach = self.memory.address(self.site - 4);
        // SAFETY: the code on the pads comes back to 3: with every register as it was but rax and rcx, whichever mixture
        // of the two forms it came by; r12 keeps the stack pointer, and nothing is popped that was not pushed. The
        // CPU writes one word below rsp (the call), where inline assembly without `nostack` keeps nothing.
        unsafe {
            core::arch::asm!(
                "mov r12, rsp",
                "lea r11, [rip + 3f]",
                "2:",
                "test r9, r9",
                "jz 4f",
                "clflush [r9]",
                "mfence",
                "4:",
                "jmp r10",
                "3:",
                "mov rcx, r12",
                "sub rcx, rsp",
                "mov rsp, r12",
                "shl eax, 4",
                "add rax, rcx",
                "lock inc qword ptr [r8 + rax]",
                "dec rdi",
                "jnz 2b",
                inout("rdi") rounds => _,
                in("r8") outcomes.as_ptr(),
                in("r9") flush,
                in("r10") approach,
                out("r11") _,
                out("r12") _,
                out("rax") _,
                out("rcx") _,
            );
        }
    }
}

/// How many of the outcomes were mixed instructions.
pub(super) fn mixed(outcomes: &Outcomes) -> u64 {
    let legitimate = [1, 2, 2 * TRAP]; // x by call, y by jump, trapped (the handler jumps)
    outcomes
        .iter()
        .enumerate()
        .filter(|(i, _)| !legitimate.contains(i))
        .map(|(_, count)| count.load(Ordering::Relaxed))
        .sum()
}

/// How often one of the two forms was executed.
pub(super) fn whole(outcomes: &Outcomes) -> u64 {
    outcomes[1].load(Ordering::Relaxed) + outcomes[2].load(Ordering::Relaxed)
}

/// How often the site was executed.
pub(super) fn executed(outcomes: &Outcomes) -> u64 {
    outcomes.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(code: &Code, words: Words) {
        code.place().tail.store(words.tail, Ordering::Relaxed);
        // The front last: where the site lies within one word, the "tail" word is not the site's.
        code.place().front.store(words.front, Ordering::Relaxed);
    }

    fn outcomes_of(code: &Code) -> (Outcomes, u64) {
        let outcomes: Outcomes = std::array::from_fn(|_| AtomicU64::new(0));
        code.execute(3, true, &outcomes);
        code.execute(2, false, &outcomes);
        let wrong = mixed(&outcomes);
        (outcomes, wrong)
    }

    #[test]
    fn whole_forms_are_told_from_each_other() {
        for split in 0..=4 {
            let code = Code::new(split).unwrap();
            let (outcomes, wrong) = outcomes_of(&code);
            assert_eq!((outcomes[1].load(Ordering::Relaxed), wrong), (5, 0), "call x, split {split}");
            write(&code, code.jump_y());
            let (outcomes, wrong) = outcomes_of(&code);
            assert_eq!((outcomes[2].load(Ordering::Relaxed), wrong), (5, 0), "jump y, split {split}");
        }
    }

    #[test]
    fn the_front_of_one_form_with_the_tail_of_the_other_is_seen_as_mixed() {
        for split in 1..=4 {
            let code = Code::new(split).unwrap();
            let (x, y) = (code.call_x(), code.jump_y());
            for (front, tail) in [(x.front, y.tail), (y.front, x.tail)] {
                write(&code, Words { front, tail });
                let (outcomes, wrong) = outcomes_of(&code);
                assert_eq!((executed(&outcomes), wrong), (5, 5), "split {split}");
            }
        }
    }
}
