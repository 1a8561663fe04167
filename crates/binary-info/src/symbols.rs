use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, Sym64};
use object::read::elf::{SectionHeader, SymbolTable as ElfSymbolTable};

use crate::dynamic::{LONGEST_NAME, text};
use crate::object_file::within_memory;
use crate::{GoTable, Object};

/// Bytes that a symbol without size covers where others are missing: what has none is short assembly, such as musl's
/// `memset`.
const STRIPPED_REACH: u64 = 160;

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A function chosen by a resolver at load time (`STT_GNU_IFUNC`).
    IndirectFunction,
    /// A variable.
    Data,
    /// A thread-local variable.
    ThreadLocal,
    /// Untyped: assembly, or not resolved when the object was linked.
    Unknown,
}

impl SymbolKind {
    pub(crate) fn from_elf(kind: elf::SymbolType) -> Self {
        match kind {
            elf::STT_FUNC => Self::Function,
            elf::STT_GNU_IFUNC => Self::IndirectFunction,
            elf::STT_OBJECT | elf::STT_COMMON => Self::Data,
            elf::STT_TLS => Self::ThreadLocal,
            _ => Self::Unknown,
        }
    }

    /// True for both kinds of functions.
    pub fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::IndirectFunction)
    }
}

/// A symbol found by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Raw name, without version.
    pub name: &'a str,
    /// Unrelocated virtual address.
    pub address: u64,
    /// Size in bytes; 0 if the object does not say.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
}

/// A symbol with an address. Its name remains in the image until it is asked for: an object may have a million.
#[derive(Debug, Clone, Copy)]
struct Entry {
    address: u64,
    size: u64,
    /// Where in the image its name begins.
    name: usize,
    kind: SymbolKind,
}

impl Entry {
    fn name<'a>(&self, image: &'a [u8]) -> &'a str {
        let bytes = image.get(self.name..).unwrap_or_default();
        text(&bytes[..bytes.len().min(LONGEST_NAME)])
    }
}

/// Symbols with addresses, sorted, one name per address; of an image that is kept beside.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    entries: Vec<Entry>,
    /// Where the longest entry up to here ends, so that enclosing symbols are found.
    ends: Vec<u64>,
    /// Sections of code: none that the file does not say.
    sections: Vec<Range<u64>>,
    /// True if there is no other file that could know more.
    pub complete: bool,
}

impl SymbolTable {
    /// Names from the static symbol table, if there is one, and from the dynamic one.
    pub(crate) fn of_object(object: &Object) -> Self {
        let mut found = Vec::new();
        if let Some(dynamic) = &object.dynamic {
            let strings = object.file_offset(dynamic.strings.0).unwrap_or(u64::MAX);
            let all = (0..dynamic.symbol_count).map_while(|index| dynamic.raw_symbol(object, index));
            found.extend(all.filter_map(|raw| entry(raw, strings, dynamic.strings.1)));
        }
        let complete = Self::add_static(object, &mut found) || Self::add_go(object, &mut found);
        Self { sections: code_sections(object), ..Self::of_entries(found, &object.map, complete) }
    }

    /// Names from the static symbol table alone (of a debug file).
    pub(crate) fn of_debug_object(object: &Object) -> Self {
        let mut found = Vec::new();
        Self::add_static(object, &mut found);
        Self { sections: code_sections(object), ..Self::of_entries(found, &object.map, true) }
    }

    fn add_static(object: &Object, found: &mut Vec<Entry>) -> bool {
        let data = &object.map[..];
        let sections = object.sections();
        let table: ElfSymbolTable<'_, _> = sections.symbols(LE, data, elf::SHT_SYMTAB).unwrap_or_default();
        let strings = sections.section(table.string_section()).ok().and_then(|section| section.file_range(LE));
        let (start, size) = strings.unwrap_or_default();
        found.extend(table.iter().filter_map(|raw| entry(raw, start, size)));
        // A file stripped of everything but its mini symbol table has a section for the compressed rest.
        let mini = sections.iter().any(|s| sections.section_name(LE, s) == Ok(b".gnu_debugdata"));
        !table.is_empty() && !mini
    }

    /// Go's functions, whose names are there in what is stripped, too. False without any.
    fn add_go(object: &Object, found: &mut Vec<Entry>) -> bool {
        let functions = object.go_table().into_iter().flat_map(GoTable::functions);
        let before = found.len();
        found.extend(functions.map(|function| Entry {
            address: function.code.start,
            size: function.code.end.saturating_sub(function.code.start),
            name: function.name.as_ptr().addr() - object.map.as_ptr().addr(),
            kind: SymbolKind::Function,
        }));
        found.len() > before
    }

    fn of_entries(mut all: Vec<Entry>, image: &[u8], complete: bool) -> Self {
        all.sort_by_key(|entry| entry.address);
        let best = |same: &[Entry]| {
            let size = same.iter().map(|entry| entry.size).max()?;
            // One name is the rule: only where there are several are they looked at.
            let best = same.iter().min_by_key(|entry| if same.len() > 1 { preference(entry, image) } else { LAST });
            best.map(|entry| Entry { size, ..*entry })
        };
        let entries: Vec<Entry> = all.chunk_by(|a, b| a.address == b.address).filter_map(best).collect();
        let mut end = 0;
        let ends = entries
            .iter()
            .map(|e| {
                end = end.max(e.address.saturating_add(e.size.max(1)));
                end
            })
            .collect();
        Self { entries, ends, sections: Vec::new(), complete }
    }

    /// The innermost symbol that covers `vaddr`; one without size reaches to the next symbol or its section's end, and not far
    /// where names have been stripped: the next one may be functions away.
    pub(crate) fn covering<'a>(&self, image: &'a [u8], vaddr: u64) -> Option<Symbol<'a>> {
        let mut index = self.entries.partition_point(|e| e.address <= vaddr).checked_sub(1)?;
        let nearest = index;
        loop {
            let e = &self.entries[index];
            let reaches = self.complete || vaddr - e.address < STRIPPED_REACH;
            let covers = match e.size {
                0 => index == nearest && reaches && !self.is_of_another_section(e.address, vaddr),
                size => vaddr - e.address < size,
            };
            if covers {
                return Some(Symbol { name: e.name(image), address: e.address, size: e.size, kind: e.kind });
            }
            if self.ends[index] <= vaddr {
                return None;
            }
            index = index.checked_sub(1)?;
        }
    }

    /// `_init` has no size, and linkage tables without names come behind it.
    fn is_of_another_section(&self, symbol: u64, vaddr: u64) -> bool {
        self.sections.iter().any(|section| section.contains(&symbol) && !section.contains(&vaddr))
    }
}

fn code_sections(object: &Object) -> Vec<Range<u64>> {
    let sections = object.sections();
    let code = sections.iter().filter(|section| section.sh_flags(LE).contains(elf::SHF_EXECINSTR));
    code.map(|section| section.sh_addr(LE)..section.sh_addr(LE).saturating_add(section.sh_size(LE))).collect()
}

/// What a raw symbol says whose name is one of `size` bytes of names at `strings` in the image; `None` if it names no place.
fn entry(raw: &Sym64<LE>, strings: u64, size: u64) -> Option<Entry> {
    let kind = SymbolKind::from_elf(raw.st_type());
    let named = !matches!(raw.st_type(), elf::STT_SECTION | elf::STT_FILE) && kind != SymbolKind::ThreadLocal;
    let name = u64::from(raw.st_name.get(LE));
    if !named
        || raw.st_shndx.get(LE) == elf::SHN_UNDEF
        || raw.st_shndx.get(LE) == elf::SHN_ABS
        || !(1..size).contains(&name)
    {
        return None;
    }
    let (address, name) = (raw.st_value.get(LE), usize::try_from(strings.checked_add(name)?).ok()?);
    Some(Entry { address, size: within_memory(address, raw.st_size.get(LE)), name, kind })
}

/// See [`preference`].
type Preference = (bool, bool, usize, usize);
const LAST: Preference = (true, true, 0, 0);

/// Smaller is better: named, typed before untyped, then the public spelling (`read` before `__read`, `_IO_puts` after
/// `puts`), then the shorter.
fn preference(entry: &Entry, image: &[u8]) -> Preference {
    let name = entry.name(image);
    let underscores = name.bytes().take_while(|&b| b == b'_').count();
    // Mangled names start with `_Z` or `_R`: that underscore is not the mark of a private alias.
    let mangled = name.starts_with("_Z") || name.starts_with("_R");
    (name.is_empty(), entry.kind == SymbolKind::Unknown, if mangled { 0 } else { underscores }, name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_without_size_does_not_name_what_has_lost_its_name() {
        const IMAGE: &[u8] = b"\0memset\0";
        let entry = Entry { address: 0x1000, size: 0, name: 1, kind: SymbolKind::Function };
        let table = |complete| SymbolTable::of_entries(vec![entry], IMAGE, complete);
        let name = |complete, vaddr| table(complete).covering(IMAGE, vaddr).is_some_and(|s| s.name == "memset");
        assert!(name(false, 0x1000) && name(false, 0x1000 + STRIPPED_REACH - 1));
        assert!(!name(false, 0x1000 + STRIPPED_REACH));
        assert!(name(true, 0x9000), "all names are there: it is nobody else's");
        let with_sections = SymbolTable { sections: vec![0x1000..0x1017, 0x1020..0x1100], ..table(true) };
        assert!(with_sections.covering(IMAGE, 0x1016).is_some() && with_sections.covering(IMAGE, 0x1020).is_none());
    }

    #[test]
    fn of_several_names_the_public_one_is_kept() {
        const IMAGE: &[u8] = b"\0_IO_puts\0puts\0label\0";
        let entry = |name, kind, size| Entry { address: 0x1000, size, name, kind };
        let all = [
            entry(1, SymbolKind::Function, 8),
            entry(15, SymbolKind::Unknown, 0),
            entry(10, SymbolKind::Function, 4),
            entry(99, SymbolKind::Function, 0),
        ];
        let table = SymbolTable::of_entries(all.to_vec(), IMAGE, true);
        let found = table.covering(IMAGE, 0x1007).map(|symbol| (symbol.name, symbol.size));
        assert_eq!(found, Some(("puts", 8)));
    }
}
