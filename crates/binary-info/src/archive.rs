use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader, SectionHeader};

use crate::BinaryError;
use crate::dynamic::text;
use crate::file_map::FileMap;
use crate::plain_file::{LastLink, open_plain};

/// A function in a member of a static library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFunction {
    /// Raw name.
    pub name: String,
    /// Bytes; linking does not change them.
    pub size: u64,
    /// True if only the member itself can name it.
    pub local: bool,
    /// True if another definition may replace it at link time.
    pub weak: bool,
    /// Its section: index in [`ArchiveMember::sections`].
    pub section: usize,
    /// Offset in that section.
    pub offset: u64,
}

/// One object file of a static library.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveMember {
    /// File name.
    pub name: String,
    /// Its source file (`STT_FILE`), if it says.
    pub unit: Option<String>,
    /// Sizes of its sections; those without code count 0.
    pub sections: Vec<u64>,
    /// Its functions.
    pub functions: Vec<MemberFunction>,
    /// True if it holds no code but what the compiler will make at link time (LTO without object code).
    pub intermediate: bool,
}

/// Reads the members of a static library (`.a`, thin ones included).
///
/// # Errors
/// [`BinaryError::Read`] if it can't be read, [`BinaryError::Damaged`] if it is no archive.
pub fn archive_members(path: &Path) -> Result<Vec<ArchiveMember>, BinaryError> {
    members_within(path, SCRIPT_DEPTH)
}

/// Linker scripts may name further ones, and in a circle.
const SCRIPT_DEPTH: usize = 8;

fn members_within(path: &Path, depth: usize) -> Result<Vec<ArchiveMember>, BinaryError> {
    let read = |source| BinaryError::Read { path: path.to_owned(), source };
    let file = open_plain(path, LastLink::Follow).map_err(read)?;
    let map = FileMap::map(&file).map_err(read)?;
    if let Some(named) = script_libraries(&map) {
        let mut members = Vec::new();
        for library in named.iter().filter(|library| library.as_path() != path && depth > 0) {
            members.extend(members_within(library, depth - 1)?);
        }
        return Ok(members);
    }
    let damaged = || BinaryError::Damaged { path: path.to_owned(), what: "archive".to_owned() };
    let archive = ArchiveFile::parse(&map[..]).map_err(|_| damaged())?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|_| damaged())?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        if archive.is_thin() {
            let beside = path.parent().unwrap_or(Path::new("")).join(&name);
            if let Ok(data) = open_plain(beside, LastLink::Follow).and_then(|file| FileMap::map(&file)) {
                members.extend(member_of(name, &data));
            }
        } else if let Ok(data) = member.data(&map[..]) {
            members.extend(member_of(name, data));
        }
    }
    Ok(members)
}

/// The libraries that a linker script stands for (`GROUP ( /lib/libm-2.36.a /lib/libmvec.a )`); `None` if it is none.
fn script_libraries(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    const LONGEST: usize = 4096;
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() < LONGEST)?;
    let found = text.split_whitespace().filter(|word| word.starts_with('/') && word.ends_with(".a")).map(PathBuf::from);
    text.contains("GNU ld script").then(|| found.collect())
}

/// The functions of one relocatable object file; `None` if it is none of ours.
fn member_of(name: String, data: &[u8]) -> Option<ArchiveMember> {
    let header = FileHeader64::<LE>::parse(data).ok()?;
    let sections = header.sections(LE, data).ok()?;
    let symbols = sections.symbols(LE, data, elf::SHT_SYMTAB).ok()?;
    let code_size = |s: &elf::SectionHeader64<LE>| {
        if s.sh_flags(LE).contains(elf::SHF_EXECINSTR) { s.sh_size(LE) } else { 0 }
    };
    let sizes = sections.iter().map(code_size).collect();
    let mut member = ArchiveMember { name, sections: sizes, ..ArchiveMember::default() };
    for raw in symbols.iter() {
        let symbol = text(symbols.symbol_name(LE, raw).unwrap_or(b""));
        if raw.st_type() == elf::STT_FILE && !symbol.is_empty() {
            member.unit.get_or_insert_with(|| symbol.to_owned());
        }
        member.intermediate |= symbol.starts_with("__gnu_lto_slim");
        let typed = raw.st_type() == elf::STT_FUNC || raw.st_type() == elf::STT_GNU_IFUNC;
        let untyped = raw.st_type() == elf::STT_NOTYPE && raw.st_bind() != elf::STB_LOCAL;
        if (typed || untyped) && raw.st_shndx.get(LE) != elf::SHN_UNDEF && !symbol.is_empty() {
            member.functions.push(MemberFunction {
                name: symbol.to_owned(),
                size: raw.st_size.get(LE),
                local: raw.st_bind() == elf::STB_LOCAL,
                weak: raw.st_bind() == elf::STB_WEAK,
                section: usize::from(raw.st_shndx.get(LE).0),
                offset: raw.st_value.get(LE),
            });
        }
    }
    Some(member)
}
