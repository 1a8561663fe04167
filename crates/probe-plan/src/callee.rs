//! What a call leads to, by name: a function of the object, or one behind its linkage table.

use std::collections::HashMap;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use transect_binary_info::Object;

use crate::FunctionTable;

/// Callees of one object by name.
pub(crate) struct Callees<'a> {
    object: &'a Object,
    table: &'a FunctionTable,
    /// Symbol of each linkage slot.
    slots: HashMap<u64, u32>,
}

impl<'a> Callees<'a> {
    pub(crate) fn of(object: &'a Object, table: &'a FunctionTable) -> Self {
        let slots = object.linkage_slots().into_iter().map(|slot| (slot.vaddr, slot.symbol)).collect();
        Self { object, table, slots }
    }

    /// Name behind the linkage slot at `vaddr`.
    pub(crate) fn of_slot(&self, vaddr: u64) -> Option<&'a str> {
        self.object.dynamic_symbol(*self.slots.get(&vaddr)?).map(|symbol| symbol.name)
    }

    /// The slot that the linkage stub at `vaddr` jumps through.
    pub(crate) fn slot_of_stub(&self, vaddr: u64) -> Option<u64> {
        let bytes = self.object.bytes_at(vaddr)?;
        let mut decoder = Decoder::with_ip(64, &bytes[..bytes.len().min(24)], vaddr, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        for _ in 0..2 {
            decoder.decode_out(&mut instruction);
            if instruction.code() == Code::Jmp_rm64 && instruction.memory_base() == Register::RIP {
                return Some(instruction.ip_rel_memory_address());
            }
            if instruction.code() != Code::Endbr64 {
                return None;
            }
        }
        None
    }

    /// True if code at `vaddr` is one of `names`, or the stub of one.
    pub(crate) fn is_one_of(&self, vaddr: u64, names: &[&str]) -> Option<usize> {
        let place = |name: &str| names.iter().position(|wanted| *wanted == name);
        if let Some(index) = self.table.at(vaddr) {
            let f = &self.table.functions()[index as usize];
            return std::iter::once(&f.symbol).chain(&f.aliases).find_map(|name| place(name));
        }
        self.of_slot(self.slot_of_stub(vaddr)?).and_then(place)
    }

    /// Which of `names` the slot at `vaddr` holds.
    pub(crate) fn slot_is_one_of(&self, vaddr: u64, names: &[&str]) -> Option<usize> {
        let name = self.of_slot(vaddr)?;
        names.iter().position(|wanted| *wanted == name)
    }

    /// True if the object defines or imports one of `names`.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        let imported = || self.slots.keys().any(|&slot| self.slot_is_one_of(slot, names).is_some());
        let defined = |f: &crate::Function| std::iter::once(&f.symbol).chain(&f.aliases).any(|n| names.contains(&&**n));
        imported() || self.table.functions().iter().any(defined)
    }
}
