//! What an instruction does to a thread that met INT3 in its place: for those that a window's first byte can be.

use crate::arch::signal::Registers;
use crate::arch::store;
use crate::form::{CALL, JUMP, RETURN, SHORT_JUMP};

/// The effect of one instruction at a known address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Goes on at an address.
    Go(u64),
    /// Calls a target.
    Call {
        /// Where it goes on.
        target: u64,
        /// What it pushes.
        back: u64,
    },
    /// Returns.
    Return,
    /// Goes to `target` if the condition (the low four bits of the opcode) holds, else to `next`.
    Branch {
        /// Condition.
        condition: u8,
        /// Where it goes if it holds.
        target: u64,
        /// Where it goes if not.
        next: u64,
    },
}

fn rel32(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i32::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?, *bytes.get(at + 2)?, *bytes.get(at + 3)?]).into())
}

/// The effect of the instruction at the head of `bytes`, which stands at `address`; `None` if it is none of a call, a
/// jump, a branch, a return or a no-op.
pub fn effect(bytes: &[u8], address: u64) -> Option<Effect> {
    let to = |length: u64, displacement: i64| address.wrapping_add(length).wrapping_add(displacement as u64);
    let byte = |i: usize| bytes.get(i).copied();
    match byte(0)? {
        CALL => Some(Effect::Call { target: to(5, rel32(bytes, 1)?), back: address.wrapping_add(5) }),
        JUMP => Some(Effect::Go(to(5, rel32(bytes, 1)?))),
        SHORT_JUMP => Some(Effect::Go(to(2, i64::from(byte(1)? as i8)))),
        RETURN => Some(Effect::Return),
        0xF3 if byte(1)? == 0xC3 => Some(Effect::Return),
        0xF3 if byte(1)? == 0x0F && byte(2)? == 0x1E && byte(3)? == 0xFA => Some(Effect::Go(to(4, 0))), // endbr64
        opcode @ 0x70..=0x7F => {
            Some(Effect::Branch { condition: opcode & 15, target: to(2, i64::from(byte(1)? as i8)), next: to(2, 0) })
        }
        0x0F if matches!(byte(1)?, 0x80..=0x8F) => {
            Some(Effect::Branch { condition: byte(1)? & 15, target: to(6, rel32(bytes, 2)?), next: to(6, 0) })
        }
        _ => {
            let length = no_op_length(bytes)?;
            Some(Effect::Go(to(length as u64, 0)))
        }
    }
}

/// Length of the no-op at the head of `bytes`: `[66|2E|3E]* 90`, or `[66|2E|3E]* 0F 1F /r`.
pub fn no_op_length(bytes: &[u8]) -> Option<usize> {
    let mut i = 0;
    while matches!(bytes.get(i)?, 0x66 | 0x2E | 0x3E) {
        i += 1;
    }
    match *bytes.get(i)? {
        0x90 => Some(i + 1),
        0x0F if *bytes.get(i + 1)? == 0x1F => {
            let modrm = *bytes.get(i + 2)?;
            let (mode, low) = (modrm >> 6, modrm & 7);
            let mut length = i + 3;
            if mode == 3 {
                return Some(length);
            }
            let mut base = low;
            if low == 4 {
                base = bytes.get(i + 3)? & 7;
                length += 1;
            }
            length += match mode {
                1 => 1,
                2 => 4,
                _ if base == 5 => 4,
                _ => 0,
            };
            (length <= bytes.len()).then_some(length)
        }
        _ => None,
    }
}

impl Effect {
    /// True if a shadow stack would notice.
    pub fn uses_return_address(self) -> bool {
        matches!(self, Self::Call { .. } | Self::Return)
    }

    /// Does it to a thread's registers and stack.
    ///
    /// # Safety
    /// The registers are those of a thread stopped at the instruction, whose stack pointer is valid.
    pub unsafe fn act(self, registers: &mut Registers) {
        match self {
            Self::Go(target) => registers.rip = target,
            Self::Call { target, back } => {
                registers.rsp = registers.rsp.wrapping_sub(8);
                // SAFETY: the call itself would store there; the signal frame lies below the red zone.
                unsafe { store::store_8(registers.rsp, back) };
                registers.rip = target;
            }
            Self::Return => {
                // SAFETY: the return itself would load there.
                registers.rip = unsafe { store::load_8(registers.rsp) };
                registers.rsp = registers.rsp.wrapping_add(8);
            }
            Self::Branch { condition, target, next } => {
                registers.rip = if holds(condition, registers.flags) { target } else { next };
            }
        }
    }
}

/// Whether a condition code holds under these flags.
fn holds(condition: u8, flags: u64) -> bool {
    let flag = |bit: u32| flags >> bit & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    let base = match condition >> 1 {
        0 => overflow,
        1 => carry,
        2 => zero,
        3 => carry || zero,
        4 => sign,
        5 => parity,
        6 => sign != overflow,
        _ => zero || sign != overflow,
    };
    base != (condition & 1 != 0)
}
