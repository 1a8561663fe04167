use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{self, Sym64};
use object::read::elf::{SectionHeader, SymbolTable as ElfSymbolTable};

use crate::dynamic::text;
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

#[derive(Debug, Clone)]
struct Entry {
    address: u64,
    size: u64,
    name: Box<str>,
    kind: SymbolKind,
}

/// Symbols with addresses, sorted, one name per address.
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
        let mut ranked = Vec::new();
        if let Some(dynamic) = &object.dynamic {
            for index in 0..dynamic.symbol_count {
                let Some(raw) = dynamic.raw_symbol(object, index) else { break };
                push(&mut ranked, raw, || dynamic.string(object, u64::from(raw.st_name.get(LE))));
            }
        }
        let complete = Self::push_static(object, &mut ranked) || Self::push_go(object, &mut ranked);
        Self { sections: code_sections(object), ..Self::from_ranked(ranked, complete) }
    }

    /// Names from the static symbol table alone (of a debug file).
    pub(crate) fn of_debug_object(object: &Object) -> Self {
        let mut ranked = Vec::new();
        Self::push_static(object, &mut ranked);
        Self { sections: code_sections(object), ..Self::from_ranked(ranked, true) }
    }

    fn push_static(object: &Object, ranked: &mut Vec<Entry>) -> bool {
        let data = &object.map[..];
        let sections = object.sections();
        let table: ElfSymbolTable<'_, _> = sections.symbols(LE, data, elf::SHT_SYMTAB).unwrap_or_default();
        for raw in table.iter() {
            push(ranked, raw, || text(table.symbol_name(LE, raw).unwrap_or(b"")));
        }
        // A file stripped of everything but its mini symbol table has a section for the compressed rest.
        let mini = sections.iter().any(|s| sections.section_name(LE, s) == Ok(b".gnu_debugdata"));
        !table.is_empty() && !mini
    }

    /// Go's functions, whose names are there in what is stripped, too. False without any.
    fn push_go(object: &Object, ranked: &mut Vec<Entry>) -> bool {
        let functions = object.go_table().into_iter().flat_map(GoTable::functions);
        let before = ranked.len();
        ranked.extend(functions.map(|function| Entry {
            address: function.code.start,
            size: function.code.end.saturating_sub(function.code.start),
            name: function.name.into(),
            kind: SymbolKind::Function,
        }));
        ranked.len() > before
    }

    fn from_ranked(mut entries: Vec<Entry>, complete: bool) -> Self {
        entries.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| preference(a).cmp(&preference(b))));
        entries.dedup_by(|later, first| {
            let same = later.address == first.address;
            if same {
                first.size = first.size.max(later.size);
            }
            same
        });
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
    pub(crate) fn covering(&self, vaddr: u64) -> Option<Symbol<'_>> {
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
                return Some(Symbol { name: &e.name, address: e.address, size: e.size, kind: e.kind });
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

fn push<'a>(entries: &mut Vec<Entry>, raw: &Sym64<LE>, name: impl FnOnce() -> &'a str) {
    let kind = SymbolKind::from_elf(raw.st_type());
    let named = !matches!(raw.st_type(), elf::STT_SECTION | elf::STT_FILE) && kind != SymbolKind::ThreadLocal;
    if !named || raw.st_shndx.get(LE) == elf::SHN_UNDEF || raw.st_shndx.get(LE) == elf::SHN_ABS {
        return;
    }
    let name = name();
    if !name.is_empty() {
        let address = raw.st_value.get(LE);
        let size = within_memory(address, raw.st_size.get(LE));
        entries.push(Entry { address, size, name: name.into(), kind });
    }
}

/// Smaller is better: typed before untyped, then the public spelling (`read` before `__read`, `_IO_puts` after
/// `puts`), then the shorter.
fn preference(entry: &Entry) -> (bool, usize, usize) {
    let underscores = entry.name.bytes().take_while(|&b| b == b'_').count();
    // Mangled names start with `_Z` or `_R`: that underscore is not the mark of a private alias.
    let mangled = entry.name.starts_with("_Z") || entry.name.starts_with("_R");
    (entry.kind == SymbolKind::Unknown, if mangled { 0 } else { underscores }, entry.name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_without_size_does_not_name_what_has_lost_its_name() {
        let entries = || vec![Entry { address: 0x1000, size: 0, name: "memset".into(), kind: SymbolKind::Function }];
        let name = |complete, vaddr| SymbolTable::from_ranked(entries(), complete).covering(vaddr).is_some();
        assert!(name(false, 0x1000) && name(false, 0x1000 + STRIPPED_REACH - 1));
        assert!(!name(false, 0x1000 + STRIPPED_REACH));
        assert!(name(true, 0x9000), "all names are there: it is nobody else's");
        let with_sections =
            SymbolTable { sections: vec![0x1000..0x1017, 0x1020..0x1100], ..SymbolTable::from_ranked(entries(), true) };
        assert!(with_sections.covering(0x1016).is_some() && with_sections.covering(0x1020).is_none());
    }
}
