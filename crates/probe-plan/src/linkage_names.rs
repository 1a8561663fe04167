//! Names behind an object's linkage table.

use std::collections::HashMap;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use transect_binary_info::{DynamicSymbol, Object};

/// The functions of other objects that calls through linkage lead to.
#[derive(Debug, Clone, Default)]
pub struct LinkageNames {
    /// Symbol of each linkage slot.
    slots: HashMap<u64, u32>,
}

impl LinkageNames {
    /// Those of `object`.
    pub fn of(object: &Object) -> Self {
        Self { slots: object.linkage_slots().into_iter().map(|slot| (slot.vaddr, slot.symbol)).collect() }
    }

    /// Addresses of all slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.keys().copied()
    }

    /// Symbol behind the linkage slot at `vaddr`.
    pub fn symbol_of_slot<'a>(&self, object: &'a Object, vaddr: u64) -> Option<DynamicSymbol<'a>> {
        object.dynamic_symbol(*self.slots.get(&vaddr)?)
    }

    /// Name behind the linkage slot at `vaddr`.
    pub fn of_slot<'a>(&self, object: &'a Object, vaddr: u64) -> Option<&'a str> {
        self.symbol_of_slot(object, vaddr).map(|symbol| symbol.name)
    }

    /// Name behind the linkage stub at `vaddr`.
    pub fn of_stub<'a>(&self, object: &'a Object, vaddr: u64) -> Option<&'a str> {
        self.of_slot(object, slot_of_stub(object, vaddr)?)
    }
}

/// The slot that the linkage stub at `vaddr` jumps through; `None` if other code stands there.
pub fn slot_of_stub(object: &Object, vaddr: u64) -> Option<u64> {
    let bytes = object.bytes_at(vaddr)?;
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
