use object::LittleEndian as LE;
use object::elf::{self, Sym64};
use object::read::elf::SymbolTable as ElfSymbolTable;

use crate::demangle::unnamed_function;
use crate::dynamic::text;
use crate::object_file::within_memory;
use crate::{GoTable, Object};

/// A function as the static symbol table lists it; several may share an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSymbol {
    /// Raw name.
    pub name: String,
    /// Unrelocated address.
    pub vaddr: u64,
    /// Bytes; 0 if not said.
    pub size: u64,
    /// True if only its own translation unit can name it.
    pub local: bool,
    /// Source file of a local symbol's translation unit (`STT_FILE`), as the compiler was given it, without folder.
    pub unit: Option<String>,
    /// Index of that entry in the symbol table, which tells apart units of the same name.
    pub unit_index: u32,
    /// A resolver that chooses the function (`STT_GNU_IFUNC`).
    pub indirect: bool,
}

impl FunctionSymbol {
    /// True if there is no symbol: only the unwind information tells of the function.
    pub fn is_described_only(&self) -> bool {
        self.local
            && self.unit.is_none()
            && self.name.strip_prefix("sub_").is_some_and(|at| u64::from_str_radix(at, 16) == Ok(self.vaddr))
    }
}

impl Object {
    /// Functions of the static symbol table and of the dynamic one, sorted by address; from the separate debug file if
    /// the object was stripped of its own. Functions without symbol that the unwind information describes are named
    /// `sub_<address>`.
    pub fn function_symbols(&self) -> Vec<FunctionSymbol> {
        let mut found = Vec::new();
        if !push_table(self, self, &mut found)
            && let Some(debug) = crate::debug_file::open(self)
        {
            push_table(&debug, self, &mut found);
        }
        if found.is_empty() {
            push_go(self, &mut found);
        }
        if let Some(dynamic) = &self.dynamic {
            for index in 0..dynamic.symbol_count {
                let Some(raw) = dynamic.raw_symbol(self, index) else { break };
                let name = dynamic.string(self, u64::from(raw.st_name.get(LE)));
                push(self, raw, name, None, &mut found);
            }
        }
        push_described(self, &mut found);
        found.sort_by(|a, b| (a.vaddr, a.local, &a.name).cmp(&(b.vaddr, b.local, &b.name)));
        found.dedup_by(|later, first| later.vaddr == first.vaddr && later.name == first.name);
        found
    }

    /// The bytes in the file of each executable segment, with their unrelocated address.
    pub fn code(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let executable = self.segments.iter().filter(|s| s.executable);
        executable.filter_map(|s| Some((s.vaddr, self.file_bytes(s.file_offset, s.file_size)?)))
    }

    /// The bytes from `vaddr` to the end of what its segment holds in the file; `None` outside of all segments.
    pub fn bytes_from(&self, vaddr: u64) -> Option<&[u8]> {
        self.bytes_at(vaddr)
    }
}

/// Adds the functions that only the unwind information knows, as `sub_` and their address.
fn push_described(object: &Object, found: &mut Vec<FunctionSymbol>) {
    let mut ends: Vec<(u64, u64)> = found.iter().map(|s| (s.vaddr, s.vaddr.saturating_add(s.size.max(1)))).collect();
    ends.sort_unstable();
    // Where the longest symbol up to here ends.
    let mut reach = 0;
    for end in &mut ends {
        reach = end.1.max(reach);
        end.1 = reach;
    }
    let tables = object.linkage_tables();
    for range in crate::code::described_functions(object) {
        let before = ends.partition_point(|&(start, _)| start <= range.start);
        let covered = before > 0 && ends[before - 1].1 > range.start;
        let size = range.end.saturating_sub(range.start);
        // The linkage tables have descriptions too.
        let linkage = tables.iter().any(|table| table.contains(&range.start));
        if !covered && size > 0 && !linkage && object.linkage_entry(range.start).is_none() {
            found.push(FunctionSymbol {
                name: unnamed_function(range.start),
                vaddr: range.start,
                size,
                local: true,
                unit: None,
                unit_index: 0,
                indirect: false,
            });
        }
    }
}

/// Adds Go's functions, which keep their names when they are stripped.
fn push_go(object: &Object, found: &mut Vec<FunctionSymbol>) {
    let functions = object.go_table().into_iter().flat_map(GoTable::functions);
    found.extend(functions.map(|function| FunctionSymbol {
        name: function.name.to_owned(),
        vaddr: function.code.start,
        size: function.code.end.saturating_sub(function.code.start),
        local: false,
        unit: None,
        unit_index: 0,
        indirect: false,
    }));
}

/// Adds the functions of `table`'s static symbols; false if it has none.
fn push_table(table: &Object, object: &Object, found: &mut Vec<FunctionSymbol>) -> bool {
    let data = &table.map[..];
    let sections = table.sections();
    let symbols: ElfSymbolTable<'_, _> = sections.symbols(LE, data, elf::SHT_SYMTAB).unwrap_or_default();
    let mut unit = None;
    for (index, raw) in (0u32..).zip(symbols.iter()) {
        let name = text(symbols.symbol_name(LE, raw).unwrap_or(b""));
        if raw.st_type() == elf::STT_FILE {
            unit = Some((name, index)).filter(|(name, _)| !name.is_empty());
            continue;
        }
        push(object, raw, name, unit, found);
    }
    !symbols.is_empty()
}

fn push(object: &Object, raw: &Sym64<LE>, name: &str, unit: Option<(&str, u32)>, found: &mut Vec<FunctionSymbol>) {
    let vaddr = raw.st_value.get(LE);
    let indirect = raw.st_type() == elf::STT_GNU_IFUNC;
    let untyped = raw.st_type() == elf::STT_NOTYPE;
    if !(raw.st_type() == elf::STT_FUNC || indirect || untyped)
        || name.is_empty()
        || raw.st_shndx.get(LE) == elf::SHN_UNDEF
        || raw.st_shndx.get(LE) == elf::SHN_ABS
        || !object.segments.iter().any(|s| s.executable && vaddr.wrapping_sub(s.vaddr) < s.file_size)
    {
        return;
    }
    let local = raw.st_bind() == elf::STB_LOCAL;
    // Assembly's labels: only the public ones are likely to be functions.
    if untyped && (local || raw.st_size.get(LE) == 0 && name.starts_with("__")) {
        return;
    }
    let unit = unit.filter(|_| local);
    found.push(FunctionSymbol {
        name: name.to_owned(),
        vaddr,
        size: within_memory(vaddr, raw.st_size.get(LE)),
        local,
        unit: unit.map(|(name, _)| name.to_owned()),
        unit_index: unit.map_or(0, |(_, index)| index),
        indirect,
    });
}
