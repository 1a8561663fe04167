//! Instructions in words, as `objdump -d` shows them, with the names of what they call.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, IntelFormatter};

use crate::code::Functions;
use crate::{Object, demangle};

/// How operands are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Syntax {
    /// `mov %rsp,%rbp`: what objdump, gdb and perf show unless told otherwise.
    #[default]
    Att,
    /// `mov rbp,rsp`.
    Intel,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disassembled {
    /// Where it begins, as the file numbers addresses.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Its name, with prefixes; `(bad)` where no instruction stands.
    pub mnemonic: String,
    /// As they are written behind it.
    pub operands: String,
    /// The function that it calls or jumps to, or what it refers to relative to itself, with the distance from its begin; an
    /// address where that has no name.
    pub target: Option<String>,
}

/// Code longer than this is no function that anyone reads, bytes.
const LONGEST: u64 = 1 << 20;

/// Writes down the instructions of an object.
pub struct Disassembler<'a> {
    object: &'a Object,
    functions: Functions,
    /// Symbols behind linkage slots.
    slots: HashMap<u64, u32>,
    formatter: Box<dyn Formatter>,
}

impl std::fmt::Debug for Disassembler<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disassembler").field("object", self.object).finish_non_exhaustive()
    }
}

impl<'a> Disassembler<'a> {
    /// Of `object`.
    pub fn new(object: &'a Object, syntax: Syntax) -> Self {
        let mut formatter: Box<dyn Formatter> = match syntax {
            Syntax::Att => Box::new(GasFormatter::new()),
            Syntax::Intel => Box::new(IntelFormatter::new()),
        };
        let options = formatter.options_mut();
        options.set_uppercase_hex(false);
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_small_hex_numbers_in_decimal(false);
        options.set_branch_leading_zeros(false);
        options.set_show_branch_size(false);
        options.set_always_show_scale(true);
        options.set_rip_relative_addresses(true);
        let slots = object.linkage_slots().into_iter().map(|slot| (slot.vaddr, slot.symbol)).collect();
        Self { object, functions: Functions::of(object), slots, formatter }
    }

    /// The function that holds `vaddr`, by its symbol or, without one, by the unwind information; `None` if that is no code, or too
    /// much for a function.
    pub fn function_at(&self, vaddr: u64) -> Option<Range<u64>> {
        let symbol = self.object.symbol_at(vaddr).filter(|symbol| symbol.size > 0);
        let range = match symbol {
            Some(symbol) => symbol.address..symbol.address.checked_add(symbol.size)?,
            None => self.functions.stretch(vaddr)?.range,
        };
        (range.contains(&vaddr) && range.end - range.start <= LONGEST).then_some(range)
    }

    /// The instructions in `range`, which begins with one.
    pub fn instructions(&mut self, range: Range<u64>) -> Vec<Disassembled> {
        let Some(code) = self.object.bytes_at(range.start) else { return Vec::new() };
        let length = range.end.saturating_sub(range.start).min(code.len() as u64);
        let code = &code[..length as usize];
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        let mut found = Vec::new();
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let (mut mnemonic, mut operands) = (String::new(), String::new());
            self.formatter.format_mnemonic(&instruction, &mut mnemonic);
            self.formatter.format_all_operands(&instruction, &mut operands);
            // Where there is a scale it is shown, and here where there is no index, either.
            let operands = operands.replace(",)", ")");
            let branches = instruction.flow_control() != FlowControl::Next;
            let target = match instruction.near_branch_target() {
                _ if instruction.is_ip_rel_memory_operand() => {
                    let address = instruction.ip_rel_memory_address();
                    self.slot(address).or_else(|| self.symbol(address)).or_else(|| Some(format!("{address:#x}")))
                }
                target if branches && target != 0 && !range.contains(&target) => self.callee(target),
                // A call of the function itself; jumps within it have addresses for operands.
                target if branches && target == range.start => self.symbol(target),
                _ => None,
            };
            found.push(Disassembled {
                address: instruction.ip(),
                length: instruction.len() as u64,
                mnemonic,
                operands,
                target,
            });
        }
        found
    }

    /// The function that code at `vaddr` is of, or that the linkage table's entry there leads to.
    fn callee(&self, vaddr: u64) -> Option<String> {
        self.object.linkage_entry(vaddr).and_then(|slot| self.slot(slot)).or_else(|| self.symbol(vaddr))
    }

    fn slot(&self, vaddr: u64) -> Option<String> {
        Some(demangle(self.object.dynamic_symbol(*self.slots.get(&vaddr)?)?.name))
    }

    fn symbol(&self, vaddr: u64) -> Option<String> {
        let symbol = self.object.symbol_at(vaddr)?;
        let name = demangle(symbol.name);
        Some(match vaddr - symbol.address {
            0 => name,
            distance => format!("{name}+{distance:#x}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A jump table, bytes that are no code, and a cut instruction.
    #[test]
    fn any_bytes_are_written_down_whole() {
        let own = Object::open("/proc/self/exe").unwrap();
        let mut disassembler = Disassembler::new(&own, Syntax::Att);
        let range = own.address_range();
        for start in (range.start..range.end).step_by(((range.end - range.start) / 200).max(1) as usize) {
            let found = disassembler.instructions(start..start + 64);
            let mut next = start;
            for instruction in &found {
                assert_eq!(instruction.address, next);
                next += instruction.length.max(1);
                assert!(!instruction.mnemonic.is_empty());
                assert!(!instruction.operands.contains(",)"), "no operand as assemblers read them: {instruction:?}");
            }
            assert!(found.is_empty() || next > start && next <= start + 64 + 15);
        }
        assert_eq!(disassembler.instructions(u64::MAX - 4..u64::MAX), []);
        assert_eq!(disassembler.function_at(u64::MAX), None);
    }
}
