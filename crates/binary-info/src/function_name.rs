//! All names of all functions: from the symbol tables of the object, its debug file and its mini symbol table.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::SymbolTable as ElfSymbolTable;

use crate::dynamic::text;
use crate::object_file::within_memory;
use crate::{Object, SymbolKind, debug_file};

/// One name of one function, as a symbol table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionName {
    /// Raw name, without version.
    pub name: Box<str>,
    /// Virtual address.
    pub address: u64,
    /// Size in bytes; 0 if the table does not say.
    pub size: u64,
    /// [`SymbolKind::Function`], [`SymbolKind::IndirectFunction`] (the address is its resolver's), or
    /// [`SymbolKind::Unknown`] for a label in code.
    pub kind: SymbolKind,
    /// True if other objects can or could see it.
    pub global: bool,
}

impl Object {
    /// Every named place in code, unsorted, aliases and labels included; a name may be there twice (once for each
    /// table).
    pub fn function_names(&self) -> Vec<FunctionName> {
        let mut names = Vec::new();
        if let Some(dynamic) = &self.dynamic {
            for index in 0..dynamic.symbol_count {
                let Some(raw) = dynamic.raw_symbol(self, index) else { break };
                push(&mut names, raw, || dynamic.string(self, u64::from(raw.st_name.get(LE))));
            }
        }
        if !push_static(self, &mut names) {
            for debug in debug_file::separate(self).into_iter().chain(debug_file::mini(self)) {
                push_static(&debug, &mut names);
            }
        }
        names
    }

    /// The object's separate debug file, by build-id or `.gnu_debuglink`.
    pub fn debug_object(&self) -> Option<Object> {
        debug_file::separate(self)
    }

    /// Of an object with debug information: the file that it shares descriptions with others in (`dwz`), if it does.
    pub fn supplementary_object(&self) -> Option<Object> {
        debug_file::supplementary(self)
    }
}

/// True if the table is there.
fn push_static(object: &Object, names: &mut Vec<FunctionName>) -> bool {
    let data = &object.map[..];
    let sections = object.sections();
    let table: ElfSymbolTable<'_, _> = sections.symbols(LE, data, elf::SHT_SYMTAB).unwrap_or_default();
    for raw in table.iter() {
        push(names, raw, || text(table.symbol_name(LE, raw).unwrap_or(b"")));
    }
    !table.is_empty()
}

fn push<'a>(names: &mut Vec<FunctionName>, raw: &elf::Sym64<LE>, name: impl FnOnce() -> &'a str) {
    let kind = match raw.st_type() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE => SymbolKind::from_elf(raw.st_type()),
        _ => return,
    };
    if matches!(raw.st_shndx.get(LE), elf::SHN_UNDEF | elf::SHN_ABS) {
        return;
    }
    let name = name();
    if !name.is_empty() {
        let address = raw.st_value.get(LE);
        let size = within_memory(address, raw.st_size.get(LE));
        names.push(FunctionName { name: name.into(), address, size, kind, global: raw.st_bind() != elf::STB_LOCAL });
    }
}
