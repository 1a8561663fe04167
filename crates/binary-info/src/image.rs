//! The object as its linker laid it out: sections, executable ranges, words that the loader relocates.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, Rela64};
use object::read::elf::SectionHeader;

use crate::dynamic::text;
use crate::object_file::within_memory;
use crate::{Object, linkage};

/// One section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section<'a> {
    /// Its name.
    pub name: &'a str,
    /// Virtual address; 0 if it is not loaded.
    pub vaddr: u64,
    /// Size in memory, bytes.
    pub size: u64,
    /// Its bytes in the file, unrelocated; empty for `.bss` and its like, and in debug files.
    pub data: &'a [u8],
    /// Alignment.
    pub align: u64,
    /// True if it is loaded.
    pub loaded: bool,
    /// True if it holds code.
    pub executable: bool,
}

/// A word to which the loader stores an address inside of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelativeRelocation {
    /// The word's virtual address.
    pub vaddr: u64,
    /// The virtual address that it will hold, or (`indirect`) of the function that returns it.
    pub target: u64,
    /// `R_X86_64_IRELATIVE`: the target is a resolver.
    pub indirect: bool,
}

impl Object {
    /// The sections; none if the file was stripped of their headers.
    pub fn section_list(&self) -> Vec<Section<'_>> {
        let table = self.sections();
        let mut sections = Vec::with_capacity(table.len());
        for header in table.iter().filter(|s| s.sh_type(LE) != elf::SHT_NULL) {
            let flags = header.sh_flags(LE);
            let vaddr = header.sh_addr(LE);
            let data = header.data(LE, &self.map[..]).unwrap_or(&[]);
            // Those that are not loaded have no addresses, only bytes.
            let loaded = flags.contains(elf::SHF_ALLOC);
            if loaded && within_memory(vaddr, data.len() as u64) < data.len() as u64 {
                continue;
            }
            sections.push(Section {
                name: table.section_name(LE, header).map_or("", text),
                vaddr: if loaded { vaddr } else { 0 },
                size: within_memory(vaddr, header.sh_size(LE)),
                data,
                align: header.sh_addralign(LE),
                loaded,
                executable: flags.contains(elf::SHF_EXECINSTR),
            });
        }
        sections
    }

    /// Where the program or its loader starts it (`e_entry`); 0 if nowhere.
    pub fn entry_point(&self) -> u64 {
        self.map.get(24..32).and_then(|raw| raw.first_chunk()).map_or(0, |raw| u64::from_le_bytes(*raw))
    }

    /// Where the section called `name` is in memory, before relocation; `None` if there is none.
    pub(crate) fn section_address(&self, name: &str) -> Option<u64> {
        let table = self.sections();
        let (_, section) = table.section_by_name(LE, name.as_bytes())?;
        Some(section.sh_addr.get(LE)).filter(|address| *address != 0)
    }

    /// The bytes of the section called `name`, unpacked if they are compressed with zlib; `None` if there is none.
    pub fn section_bytes(&self, name: &str) -> Option<Vec<u8>> {
        let table = self.sections();
        let (_, section) = table.section_by_name(LE, name.as_bytes())?;
        crate::function_sources::unpacked(section, &self.map[..])
    }

    /// Virtual address ranges that hold code, sorted: executable sections, else executable segments.
    pub fn code_ranges(&self) -> Vec<Range<u64>> {
        let text = self.text_range();
        // As far as the file holds it, in memory that is executable: a damaged one may promise more.
        let held = |range: Range<u64>| {
            if range.start < text.start || range.start >= text.end {
                return None;
            }
            let size = self.bytes_at(range.start)?.len() as u64;
            Some(range.start..range.end.min(range.start + size).min(text.end)).filter(|range| range.start < range.end)
        };
        let mut ranges: Vec<_> = self
            .section_list()
            .iter()
            .filter(|s| s.loaded && s.executable && !s.data.is_empty())
            .map(|s| s.vaddr..s.vaddr.saturating_add(s.size))
            .filter_map(held)
            .collect();
        if ranges.is_empty() {
            let code = self.segments.iter().filter(|s| s.executable);
            ranges = code.map(|s| s.vaddr..s.vaddr.saturating_add(s.file_size)).filter_map(held).collect();
        }
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Virtual address ranges of loaded data, as far as the file holds it.
    pub fn data_ranges(&self) -> Vec<Range<u64>> {
        self.segments.iter().filter(|s| !s.executable).map(|s| s.vaddr..s.vaddr.saturating_add(s.file_size)).collect()
    }

    /// All relative relocations: `R_X86_64_RELATIVE`, packed ones (`DT_RELR`) and `R_X86_64_IRELATIVE`, and
    /// `R_X86_64_64` of symbols that the object defines.
    pub fn relative_relocations(&self) -> Vec<RelativeRelocation> {
        let Some(dynamic) = &self.dynamic else { return Vec::new() };
        let rela = linkage::relocations(self, dynamic.rela);
        let jmprel = linkage::relocations(self, dynamic.jmprel);
        let mut found = Vec::with_capacity(rela.len());
        for relocation in rela.iter().chain(jmprel) {
            found.extend(self.relative(relocation));
        }
        self.push_packed(dynamic.relr, &mut found);
        found
    }

    fn relative(&self, relocation: &Rela64<LE>) -> Option<RelativeRelocation> {
        let info = relocation.r_info.get(LE);
        let vaddr = relocation.r_offset.get(LE);
        let addend = relocation.r_addend.get(LE).cast_unsigned();
        let kind = info as u32;
        if kind == elf::R_X86_64_RELATIVE.0 || kind == elf::R_X86_64_IRELATIVE.0 {
            return Some(RelativeRelocation { vaddr, target: addend, indirect: kind == elf::R_X86_64_IRELATIVE.0 });
        }
        if kind == elf::R_X86_64_64.0 {
            let symbol = self.dynamic_symbol((info >> 32) as u32).filter(|s| s.defined)?;
            return Some(RelativeRelocation { vaddr, target: symbol.address.wrapping_add(addend), indirect: false });
        }
        None
    }

    /// Unpacks `DT_RELR`: an even word is the address of a relocated word, an odd one a bitmap of the 63 after it.
    fn push_packed(&self, (vaddr, size): (u64, u64), found: &mut Vec<RelativeRelocation>) {
        let Some(bytes) = self.bytes_at(vaddr).filter(|_| size != 0) else { return };
        let bytes = &bytes[..bytes.len().min(size as usize)];
        let mut push = |at: u64| {
            if let Some(word) = self.bytes_at(at).and_then(|bytes| bytes.first_chunk()) {
                found.push(RelativeRelocation { vaddr: at, target: u64::from_le_bytes(*word), indirect: false });
            }
        };
        let mut next = 0u64;
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if word & 1 == 0 {
                push(word);
                next = word.wrapping_add(8);
            } else {
                (0..63).filter(|bit| word >> (bit + 1) & 1 != 0).for_each(|bit| push(next.wrapping_add(bit * 8)));
                next = next.wrapping_add(63 * 8);
            }
        }
    }
}
