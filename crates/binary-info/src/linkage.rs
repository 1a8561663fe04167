use object::LittleEndian as LE;
use object::elf::{self, Rela64};

use crate::Object;
use crate::symbols::SymbolKind;

/// Which of an object's relocation tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelocationTable {
    /// `DT_JMPREL`: the procedure linkage table's, bound lazily unless asked otherwise.
    JmpRel,
    /// `DT_RELA`: bound before the object runs.
    Rela,
}

/// A word of the object's global offset table that the loader fills with a function's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkageSlot {
    /// Table of its relocation.
    pub table: RelocationTable,
    /// Index of its relocation in the table.
    pub index: u32,
    /// True for `R_X86_64_JUMP_SLOT`, false for `R_X86_64_GLOB_DAT`.
    pub jump_slot: bool,
    /// Address of the slot (`r_offset`).
    pub vaddr: u64,
    /// Index of the symbol in the dynamic symbol table.
    pub symbol: u32,
}

/// The relocations in a table at `(address, size in bytes)`; empty if it is not in the file.
pub(crate) fn relocations(object: &Object, (vaddr, size): (u64, u64)) -> &[Rela64<LE>] {
    let count = size as usize / size_of::<Rela64<LE>>();
    if count == 0 { &[] } else { object.records_at(vaddr, count).unwrap_or(&[]) }
}

/// Slots of every `R_X86_64_JUMP_SLOT`, and of every `R_X86_64_GLOB_DAT` whose symbol is or may be a function.
pub(crate) fn function_slots(object: &Object) -> Vec<LinkageSlot> {
    let Some(dynamic) = &object.dynamic else { return Vec::new() };
    let jmprel = relocations(object, dynamic.jmprel);
    let rela = relocations(object, dynamic.rela);
    // Some linkers let DT_RELASZ reach over the entries of DT_JMPREL: those belong to DT_JMPREL, as for the loader.
    let in_jmprel = |index: usize| {
        let at = dynamic.rela.0.saturating_add((index * size_of::<Rela64<LE>>()) as u64);
        at.checked_sub(dynamic.jmprel.0).is_some_and(|offset| offset < dynamic.jmprel.1)
    };
    let from_jmprel = jmprel.iter().enumerate().map(|(i, r)| (RelocationTable::JmpRel, i, r));
    let from_rela = rela.iter().enumerate().filter(|(i, _)| !in_jmprel(*i)).map(|(i, r)| (RelocationTable::Rela, i, r));
    let mut slots = Vec::with_capacity(jmprel.len());
    for (table, index, relocation) in from_jmprel.chain(from_rela) {
        let info = relocation.r_info.get(LE);
        let symbol = (info >> 32) as u32;
        let jump_slot = info as u32 == elf::R_X86_64_JUMP_SLOT.0;
        let glob_dat = info as u32 == elf::R_X86_64_GLOB_DAT.0;
        if !(jump_slot || glob_dat) || symbol == 0 {
            continue;
        }
        if glob_dat && !may_be_function(object, symbol) {
            continue;
        }
        let vaddr = relocation.r_offset.get(LE);
        slots.push(LinkageSlot { table, index: index as u32, jump_slot, vaddr, symbol });
    }
    slots
}

fn may_be_function(object: &Object, symbol: u32) -> bool {
    object.dynamic_symbol(symbol).is_some_and(|s| match s.kind {
        SymbolKind::Function | SymbolKind::IndirectFunction => true,
        SymbolKind::Unknown => !s.defined,
        SymbolKind::Data | SymbolKind::ThreadLocal => false,
    })
}
