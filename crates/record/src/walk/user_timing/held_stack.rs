//! The calls on a held thread's stack, by the objects' unwind tables.

use std::collections::HashMap;
use std::ops::Range;

use transect_attach::{HeldRegisters, Memory};
use transect_binary_info::{FRAME_REGISTERS, FrameBase, FrameRule, SavedRegister};

use crate::probe_session::LoadedObject;

/// Bytes of a stack that are read.
const MOST: u64 = 1 << 20;
/// Calls followed.
const DEEPEST: usize = 4096;
const RSP: usize = 7;
/// `mov rax, 15; syscall`: a signal handler returns to it.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Behind a signal handler's return address: flags, link and stack of the context, then the registers of the
/// interrupted code, as `sigcontext` has them: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
const SIGNAL_REGISTERS: u64 = 40;
const SIGNAL_ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7];

/// One call on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall {
    /// The instruction that it is in; behind the innermost call, the call instruction's last byte.
    pub at: u64,
    /// Where its return address is.
    pub slot: u64,
    /// What is there: the true return address.
    pub returns_to: u64,
}

/// A thread's calls, innermost first.
#[derive(Debug, Clone, Default)]
pub struct OpenCalls {
    /// As far as they could be followed.
    pub calls: Vec<OpenCall>,
    /// The outermost was reached.
    pub whole: bool,
}

/// A copy of the used part of a stack.
pub struct HeldStack<'a> {
    memory: &'a Memory,
    low: u64,
    bytes: Vec<u8>,
    /// The copy reaches up to the stack's end.
    pub whole: bool,
}

impl<'a> HeldStack<'a> {
    /// Copies what is above the stack pointer, up to `end`, the end of its mapping.
    pub fn copy(memory: &'a Memory, stack_pointer: u64, end: u64) -> HeldStack<'a> {
        let low = stack_pointer & !7;
        let size = end.saturating_sub(low).min(MOST);
        let mut bytes = vec![0; size as usize];
        let whole = memory.read(low, &mut bytes).is_ok() && low + size >= end;
        HeldStack { memory, low, bytes, whole }
    }

    /// True if a word of it, from `above` on, lies in one of the ranges.
    pub fn mentions(&self, ranges: &[Range<u64>], above: u64) -> bool {
        let skip = above.saturating_sub(self.low) as usize & !7;
        let words = self.bytes.get(skip..).unwrap_or_default().chunks_exact(8);
        words
            .map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()))
            .any(|w| ranges.iter().any(|r| r.contains(&w)))
    }

    fn word(&self, at: u64) -> Option<u64> {
        let offset = at.wrapping_sub(self.low) as usize;
        match self.bytes.get(offset..offset.checked_add(8)?) {
            Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
            None => self.memory.read_u64(at).ok(),
        }
    }
}

/// Rows by address, kept from window to window.
#[derive(Debug, Default)]
pub struct FrameRules(HashMap<u64, Option<FrameRule>>);

impl FrameRules {
    fn of(&mut self, objects: &[LoadedObject], at: u64) -> Option<FrameRule> {
        *self.0.entry(at).or_insert_with(|| {
            let object = objects.iter().find(|o| o.code.iter().any(|code| (code.low..code.high).contains(&at)))?;
            // `true_return` recognizes our own return sites.
            object.object.frame_rule(at.wrapping_sub(object.bias)).filter(|rule| rule.kept.is_none())
        })
    }

    /// Objects have gone or come.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Follows the calls of a thread. `true_return` gives what a slot held before one of our return sites was put there.
    pub fn calls(
        &mut self,
        objects: &[LoadedObject],
        registers: &HeldRegisters,
        stack: &HeldStack<'_>,
        true_return: &dyn Fn(u64, u64) -> Option<u64>,
    ) -> OpenCalls {
        let mut found = OpenCalls::default();
        let mut values: [Option<u64>; FRAME_REGISTERS] = registers.general.map(Some);
        // Behind a call, the instruction is the one before the return address.
        let mut at = registers.rip;
        while found.calls.len() < DEEPEST {
            let Some(rule) = self.of(objects, at) else { break };
            if rule.outermost {
                found.whole = true;
                break;
            }
            let Some(caller) = self.step(&rule, at, &values, stack, true_return) else { break };
            found.calls.push(caller.0);
            let (call, mut next, mut after) = (caller.0, caller.1, caller.0.returns_to.wrapping_sub(1));
            if next[RSP].is_none_or(|base| values[RSP].is_some_and(|now| base <= now)) {
                break;
            }
            if call.returns_to == 0 {
                found.whole = true;
                break;
            }
            let mut code = [0; SIGNAL_RETURN.len()];
            if stack.memory.read(call.returns_to, &mut code).is_ok() && code == SIGNAL_RETURN {
                let context = call.slot + 8 + SIGNAL_REGISTERS;
                for (place, register) in SIGNAL_ORDER.into_iter().enumerate() {
                    next[register] = stack.word(context + place as u64 * 8);
                }
                let Some(interrupted) = stack.word(context + 16 * 8) else { break };
                after = interrupted;
            }
            (values, at) = (next, after);
        }
        found
    }

    fn step(
        &self,
        rule: &FrameRule,
        at: u64,
        values: &[Option<u64>; FRAME_REGISTERS],
        stack: &HeldStack<'_>,
        true_return: &dyn Fn(u64, u64) -> Option<u64>,
    ) -> Option<(OpenCall, [Option<u64>; FRAME_REGISTERS])> {
        let value = |register: u16| values.get(usize::from(register)).copied().flatten();
        let base = match rule.base {
            FrameBase::Register { register, offset } => value(register)?.wrapping_add_signed(offset),
            FrameBase::Memory { register, offset, added } => {
                stack.word(value(register)?.wrapping_add_signed(offset))?.wrapping_add_signed(added)
            }
            FrameBase::Linkage { from } => value(RSP as u16)?.wrapping_add(if at & 15 >= from { 16 } else { 8 }),
        };
        let slot = base.checked_sub(8).filter(|slot| slot % 8 == 0)?;
        let there = stack.word(slot)?;
        let returns_to = true_return(slot, there).unwrap_or(there);
        let mut next = [None; FRAME_REGISTERS];
        for (register, (next, saved)) in next.iter_mut().zip(rule.saved).enumerate() {
            *next = match saved {
                SavedRegister::Same => values[register],
                SavedRegister::AtBase(offset) => stack.word(base.wrapping_add_signed(offset)),
                SavedRegister::AtRegister(by, offset) => {
                    value(by).and_then(|value| stack.word(value.wrapping_add_signed(offset)))
                }
                SavedRegister::Unknown => None,
            };
        }
        next[RSP] = Some(base);
        Some((OpenCall { at, slot, returns_to }, next))
    }
}

/// True if a call instruction ends at `address`.
pub fn follows_a_call(memory: &Memory, address: u64) -> bool {
    let mut code = [0; 7];
    if memory.read(address.wrapping_sub(7), &mut code).is_err() {
        return false;
    }
    // FF /2 has a middle field of 2 in the byte behind it: of two, three, six or seven bytes with displacement and SIB.
    let indirect = |length: usize| code[7 - length] == 0xFF && code[8 - length] >> 3 & 7 == 2;
    code[2] == 0xE8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}
