//! Who refers to a function of an object: direct calls and jumps, and everything that may take its address.

use object::LittleEndian as LE;
use object::elf;

use crate::{Object, linkage};

/// How code refers to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// `call rel32`.
    Call,
    /// `jmp rel32` or a conditional jump.
    Jump,
    /// A jump with an 8-bit distance.
    ShortJump,
    /// Anything else: the address is computed or stored.
    Address,
}

/// A place that refers, or seems to refer, to a function. Bytes are taken as they lie, without regard to instruction
/// boundaries: no reference of code in use is missed, some are imaginary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionReference {
    /// Unrelocated address of the displacement (in code) or of the pointer (in data; 0 if only a relocation holds it).
    pub at: u64,
    /// The function's unrelocated address.
    pub target: u64,
    /// What kind.
    pub kind: ReferenceKind,
}

/// A set of addresses in a stretch of text.
struct AddressSet {
    start: u64,
    bits: Vec<u64>,
}

impl AddressSet {
    fn new(start: u64, end: u64, addresses: &[u64]) -> Self {
        let mut set = Self { start, bits: vec![0; ((end - start) / 64 + 1) as usize] };
        for address in addresses {
            let offset = address.wrapping_sub(start);
            if let Some(word) = set.bits.get_mut((offset / 64) as usize) {
                *word |= 1 << (offset % 64);
            }
        }
        set
    }

    fn contains(&self, address: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        self.bits.get((offset / 64) as usize).is_some_and(|word| word >> (offset % 64) & 1 != 0)
    }
}

impl Object {
    /// Lowest and highest (exclusive) address of the executable segments.
    pub fn text_range(&self) -> std::ops::Range<u64> {
        let code = || self.segments.iter().filter(|s| s.executable);
        let start = code().map(|s| s.vaddr).min().unwrap_or(0);
        start..code().map(|s| s.vaddr + s.memory_size).max().unwrap_or(start)
    }

    /// All references to the functions at `targets`.
    pub fn references_to(&self, targets: &[u64]) -> Vec<FunctionReference> {
        let range = self.text_range();
        let set = AddressSet::new(range.start, range.end, targets);
        let mut found = Vec::new();
        for (start, code) in self.code() {
            for (p, raw) in code.windows(2).enumerate() {
                let to = (start + p as u64 + 2).wrapping_add_signed(i64::from(raw[1] as i8));
                if matches!(raw[0], 0x70..=0x7f | 0xeb) && set.contains(to) {
                    found.push(FunctionReference {
                        at: start + p as u64 + 1,
                        target: to,
                        kind: ReferenceKind::ShortJump,
                    });
                }
            }
            for p in 1..code.len().saturating_sub(3) {
                let (before, raw) = (code[p - 1], [code[p], code[p + 1], code[p + 2], code[p + 3]]);
                let at = start + p as u64;
                let to = (at + 4).wrapping_add_signed(i64::from(i32::from_le_bytes(raw)));
                let kind = match before {
                    0xe8 => ReferenceKind::Call,
                    0xe9 => ReferenceKind::Jump,
                    0x80..=0x8f if p > 1 && code[p - 2] == 0x0f => ReferenceKind::Jump,
                    // ModRM with mode 0 and base 5: relative to the instruction pointer.
                    modrm if modrm & 0xc7 == 0x05 => ReferenceKind::Address,
                    _ => continue,
                };
                if set.contains(to) {
                    found.push(FunctionReference { at, target: to, kind });
                }
            }
            if self.is_fixed() {
                for (p, raw) in code.windows(4).enumerate() {
                    let to = u64::from(u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]));
                    if set.contains(to) {
                        found.push(FunctionReference {
                            at: start + p as u64,
                            target: to,
                            kind: ReferenceKind::Address,
                        });
                    }
                }
            }
        }
        let mut pointer = |at: u64, to: u64| {
            if set.contains(to) {
                found.push(FunctionReference { at, target: to, kind: ReferenceKind::Address });
            }
        };
        if let Some(dynamic) = &self.dynamic {
            for relocation in linkage::relocations(self, dynamic.rela) {
                if relocation.r_info.get(LE) as u32 == elf::R_X86_64_RELATIVE.0 {
                    pointer(relocation.r_offset.get(LE), relocation.r_addend.get(LE) as u64);
                }
            }
        }
        // Pointers that are in the file: of fixed executables, and packed relative relocations (DT_RELR).
        for segment in self.segments.iter().filter(|s| !s.executable) {
            let Some(bytes) = self.file_bytes(segment.file_offset, segment.file_size) else { continue };
            let skip = (8 - segment.vaddr % 8) as usize % 8;
            for (n, raw) in bytes.get(skip..).unwrap_or(&[]).chunks_exact(8).enumerate() {
                let to = u64::from_le_bytes([raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7]]);
                pointer(segment.vaddr + (skip + 8 * n) as u64, to);
            }
        }
        found
    }

    /// Displacements of what looks like a `jmp *slot(%rip)` through one of these slots.
    pub fn jumps_through(&self, slots: &std::collections::HashSet<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        for (start, code) in self.code() {
            for (p, raw) in code.windows(6).enumerate().filter(|(_, raw)| raw[..2] == [0xff, 0x25]) {
                let at = start + p as u64 + 2;
                let distance = i32::from_le_bytes([raw[2], raw[3], raw[4], raw[5]]);
                if slots.contains(&(at + 4).wrapping_add_signed(i64::from(distance))) {
                    found.push(at);
                }
            }
        }
        found
    }

    /// Address ranges of the procedure linkage tables, as the section headers tell them and the file holds them.
    pub fn linkage_tables(&self) -> Vec<std::ops::Range<u64>> {
        let mut sections = self.section_list();
        sections.retain(|s| matches!(s.name, ".plt" | ".plt.sec" | ".plt.got" | ".plt.bnd" | ".iplt"));
        sections.iter().map(|s| s.vaddr..s.vaddr.saturating_add(s.data.len() as u64)).collect()
    }

    /// Entries of the procedure linkage tables: address and slot.
    pub fn linkage_entries(&self) -> Vec<(u64, u64)> {
        let entries = self.linkage_tables().into_iter().flat_map(|table| table.step_by(8));
        entries.filter_map(|at| Some((at, self.linkage_entry(at)?))).collect()
    }

    /// The slot that an entry of the procedure linkage table at `vaddr` jumps through.
    pub fn linkage_entry(&self, vaddr: u64) -> Option<u64> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const BND: u8 = 0xf2;
        let bytes = self.bytes_at(vaddr)?.get(..16)?;
        let mut at = if bytes.starts_with(&ENDBR64) { 4 } else { 0 };
        at += usize::from(bytes[at] == BND);
        let jump = bytes.get(at..at + 6)?;
        if jump[..2] != [0xff, 0x25] {
            return None;
        }
        let displacement = i32::from_le_bytes([jump[2], jump[3], jump[4], jump[5]]);
        Some((vaddr + at as u64 + 6).wrapping_add_signed(i64::from(displacement)))
    }
}
