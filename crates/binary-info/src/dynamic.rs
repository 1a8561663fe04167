use std::sync::OnceLock;

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, FileHeader64, Sym64, Verdaux, Verdef, Vernaux, Verneed};
use object::pod;
use object::read::elf::{GnuHashTable, HashTable};

use crate::Object;
use crate::symbols::SymbolKind;

/// C library of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibcKind {
    /// GNU C library.
    Glibc,
    /// musl.
    Musl,
    /// Another one (uClibc, Bionic), or one that can't be told.
    Other,
}

impl LibcKind {
    pub(crate) fn of(interpreter: Option<&str>, needed: &[String]) -> Self {
        let loader = interpreter.and_then(|path| path.rsplit('/').next()).unwrap_or("");
        if loader.starts_with("ld-musl-") || needed.iter().any(|n| n.starts_with("libc.musl-") || n == "libc.so") {
            Self::Musl
        } else if loader.starts_with("ld-linux") || loader == "ld64.so.1" || needed.iter().any(|n| n == "libc.so.6") {
            Self::Glibc
        } else {
            Self::Other
        }
    }
}

/// One entry of the dynamic symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicSymbol<'a> {
    /// Raw name, without version. Bytes that are not UTF-8 end the name.
    pub name: &'a str,
    /// Version that is asked for (undefined symbols) or given (defined ones); empty if none.
    pub version: &'a str,
    /// What it names.
    pub kind: SymbolKind,
    /// True if the object defines it.
    pub defined: bool,
    /// True if it may stay unresolved (`STB_WEAK`).
    pub weak: bool,
    /// Its address (0 if undefined), or its offset for thread-local ones.
    pub address: u64,
}

/// What the dynamic section says, as addresses and sizes.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub is_pie: bool,
    pub symbol_count: u32,
    pub symbols: u64,
    pub strings: (u64, u64),
    /// `DT_RELA`: address and size in bytes.
    pub rela: (u64, u64),
    /// `DT_JMPREL`, if its entries have addends.
    pub jmprel: (u64, u64),
    /// `DT_RELR`: packed relative relocations, address and size in bytes.
    pub relr: (u64, u64),
    /// `DT_PLTGOT`: what code calls `_GLOBAL_OFFSET_TABLE_`.
    pub global_offset_table: u64,
    /// `DT_GNU_HASH`; 0 if there is none.
    gnu_hash: u64,
    versym: u64,
    verdef: (u64, u32),
    verneed: (u64, u32),
    /// Names by version index.
    versions: OnceLock<Vec<String>>,
}

impl Dynamic {
    /// Reads the entries in `bytes` (the dynamic segment of `object`).
    pub(crate) fn parse(object: &Object, bytes: &[u8]) -> Self {
        let (entries, _) =
            pod::slice_from_bytes::<Dyn64<LE>>(bytes, bytes.len() / size_of::<Dyn64<LE>>()).unwrap_or((&[], &[]));
        let mut this = Self::default();
        let (mut needed, mut soname, mut hash) = (Vec::new(), None, 0);
        let mut jmprel_has_addends = true;
        for entry in entries {
            let value = entry.d_val.get(LE);
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => needed.push(value),
                elf::DT_SONAME => soname = Some(value),
                elf::DT_STRTAB => this.strings.0 = value,
                elf::DT_STRSZ => this.strings.1 = value,
                elf::DT_SYMTAB => this.symbols = value,
                elf::DT_RELA => this.rela.0 = value,
                elf::DT_RELASZ => this.rela.1 = value,
                elf::DT_JMPREL => this.jmprel.0 = value,
                elf::DT_PLTRELSZ => this.jmprel.1 = value,
                elf::DT_RELR => this.relr.0 = value,
                elf::DT_RELRSZ => this.relr.1 = value,
                elf::DT_PLTREL => jmprel_has_addends = value == elf::DT_RELA.0 as u64,
                elf::DT_PLTGOT => this.global_offset_table = value,
                elf::DT_HASH => hash = value,
                elf::DT_GNU_HASH => this.gnu_hash = value,
                elf::DT_VERSYM => this.versym = value,
                elf::DT_VERDEF => this.verdef.0 = value,
                elf::DT_VERDEFNUM => this.verdef.1 = value as u32,
                elf::DT_VERNEED => this.verneed.0 = value,
                elf::DT_VERNEEDNUM => this.verneed.1 = value as u32,
                elf::DT_FLAGS_1 => this.is_pie = elf::DynamicFlags1(value).contains(elf::DF_1_PIE),
                _ => {}
            }
        }
        if !jmprel_has_addends {
            this.jmprel = (0, 0);
        }
        this.needed = needed.iter().map(|&at| this.string(object, at).to_owned()).collect();
        this.soname = soname.map(|at| this.string(object, at).to_owned());
        // A damaged table may say what it likes.
        let room = object.bytes_at(this.symbols).map_or(0, |bytes| bytes.len() / size_of::<Sym64<LE>>());
        this.symbol_count = this.count_symbols(object, hash).min(u32::try_from(room).unwrap_or(u32::MAX));
        this
    }

    /// The dynamic section does not say how many symbols there are: a hash table, or the relocations, must.
    fn count_symbols(&self, object: &Object, hash: u64) -> u32 {
        type Header = FileHeader64<LE>;
        let by_hash =
            object.bytes_at(hash).filter(|_| hash != 0).and_then(|bytes| HashTable::<Header>::parse(LE, bytes).ok());
        if let Some(table) = by_hash {
            return table.symbol_table_length();
        }
        let by_gnu = object
            .bytes_at(self.gnu_hash)
            .filter(|_| self.gnu_hash != 0)
            .and_then(|bytes| GnuHashTable::<Header>::parse(LE, bytes).ok())
            .and_then(|table| table.symbol_table_length(LE).or(Some(table.symbol_base())));
        // A GNU hash table leaves undefined symbols out; with no defined one, its base may be 1 or 0.
        let by_relocations = crate::linkage::relocations(object, self.rela)
            .iter()
            .chain(crate::linkage::relocations(object, self.jmprel))
            .map(|r| ((r.r_info.get(LE) >> 32) as u32).saturating_add(1))
            .max();
        by_gnu.max(by_relocations).unwrap_or(0)
    }

    pub(crate) fn raw_symbol<'a>(&self, object: &'a Object, index: u32) -> Option<&'a Sym64<LE>> {
        let at = self.symbols.checked_add(u64::from(index) * size_of::<Sym64<LE>>() as u64)?;
        if index >= self.symbol_count {
            return None;
        }
        object.records_at::<Sym64<LE>>(at, 1)?.first()
    }

    pub(crate) fn symbol<'a>(&'a self, object: &'a Object, index: u32) -> Option<DynamicSymbol<'a>> {
        let raw = self.raw_symbol(object, index)?;
        Some(DynamicSymbol {
            name: self.string(object, u64::from(raw.st_name.get(LE))),
            version: self.version(object, index),
            kind: SymbolKind::from_elf(raw.st_type()),
            defined: raw.st_shndx.get(LE) != elf::SHN_UNDEF,
            weak: raw.st_bind() == elf::STB_WEAK,
            address: raw.st_value.get(LE),
        })
    }

    /// Whether a symbol of this name is defined.
    pub(crate) fn defines(&self, object: &Object, name: &str) -> bool {
        let is_it = |index| {
            self.raw_symbol(object, index).is_some_and(|raw| {
                raw.st_shndx.get(LE) != elf::SHN_UNDEF && self.string(object, u64::from(raw.st_name.get(LE))) == name
            })
        };
        match self.candidates(object, name) {
            Some(mut candidates) => candidates.any(is_it),
            None => (0..self.symbol_count).any(is_it),
        }
    }

    /// The symbols that the GNU hash table lists with a name, and others; `None` without such a table.
    fn candidates<'a>(&self, object: &'a Object, name: &str) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let bytes = object.bytes_at(self.gnu_hash).filter(|_| self.gnu_hash != 0)?;
        let word = move |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
        // Buckets, first symbol, words of the Bloom filter, its shift; the filter, the buckets, the chains.
        let (buckets, base, filter) = (word(0)?, word(4)?, word(8)? as usize);
        let hash = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let buckets_at = 16 + filter * 8;
        let first = word(buckets_at + hash.checked_rem(buckets)? as usize * 4)?;
        let chains_at = buckets_at + buckets as usize * 4;
        let mut next = Some(first).filter(|&first| first >= base.max(1));
        Some(std::iter::from_fn(move || {
            let index = next?;
            // The lowest bit marks a chain's end.
            let last = word(chains_at + (index - base) as usize * 4).is_none_or(|hash| hash & 1 == 1);
            next = if last { None } else { index.checked_add(1) };
            Some(index)
        }))
    }

    pub(crate) fn string<'a>(&self, object: &'a Object, offset: u64) -> &'a str {
        if offset >= self.strings.1 {
            return "";
        }
        let bytes = object.bytes_at(self.strings.0.saturating_add(offset)).unwrap_or(&[]);
        text(&bytes[..bytes.len().min(LONGEST_NAME).min((self.strings.1 - offset) as usize)])
    }

    fn version<'a>(&'a self, object: &'a Object, index: u32) -> &'a str {
        if self.versym == 0 {
            return "";
        }
        let at = self.versym.saturating_add(u64::from(index) * 2);
        let Some(raw) = object.bytes_at(at).and_then(|bytes| bytes.first_chunk()) else { return "" };
        let version = usize::from(u16::from_le_bytes(*raw) & 0x7fff);
        let names = self.versions.get_or_init(|| self.read_versions(object));
        names.get(version).map_or("", String::as_str)
    }

    /// Names of the versions defined (`DT_VERDEF`) and needed (`DT_VERNEED`), by version index.
    fn read_versions(&self, object: &Object) -> Vec<String> {
        let mut names = Vec::new();
        let mut set = |index: u16, name: u32| {
            let index = usize::from(index & 0x7fff);
            if names.len() <= index {
                names.resize(index + 1, String::new());
            }
            names[index] = self.string(object, u64::from(name)).to_owned();
        };
        let (defined, needed) = (self.verdef.1.min(VERSIONS), self.verneed.1.min(VERSIONS));
        let mut left = VERSIONS;
        let mut at = Some(self.verdef.0);
        for _ in 0..defined {
            let Some([record]) = at.and_then(|at| object.records_at::<Verdef<LE>>(at, 1)) else { break };
            let name_at = at.and_then(|at| at.checked_add(u64::from(record.vd_aux.get(LE))));
            let Some([first]) = name_at.and_then(|at| object.records_at::<Verdaux<LE>>(at, 1)) else { break };
            // The base definition names the object itself, not a version.
            if !record.vd_flags.get(LE).contains(elf::VER_FLG_BASE) {
                set(record.vd_ndx.get(LE).0, first.vda_name.get(LE));
            }
            at = next_record(at, record.vd_next.get(LE));
        }
        at = Some(self.verneed.0);
        for _ in 0..needed {
            let Some([record]) = at.and_then(|at| object.records_at::<Verneed<LE>>(at, 1)) else { break };
            let mut version_at = at.and_then(|at| at.checked_add(u64::from(record.vn_aux.get(LE))));
            for _ in 0..u32::from(record.vn_cnt.get(LE)).min(left) {
                let found = version_at.and_then(|at| object.records_at::<Vernaux<LE>>(at, 1));
                let Some([version]) = found else { break };
                set(version.vna_other.get(LE).0, version.vna_name.get(LE));
                version_at = next_record(version_at, version.vna_next.get(LE));
                left -= 1;
            }
            at = next_record(at, record.vn_next.get(LE));
        }
        names
    }
}

/// Bytes of a name: a table without zeros would be copied whole for each entry.
pub(crate) const LONGEST_NAME: usize = 1 << 16;

/// A version index has 15 bits: a table that says more is damaged.
const VERSIONS: u32 = 1 << 15;

/// The record `offset` bytes behind the one at `at`; 0 ends the chain, whatever the count says.
fn next_record(at: Option<u64>, offset: u32) -> Option<u64> {
    if offset == 0 { None } else { at?.checked_add(u64::from(offset)) }
}

/// The text up to the first NUL or the first byte that is not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    let bytes = &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())];
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}
