//! Which source file a function was written in, by the debug information.

use std::collections::HashMap;
use std::io::Read;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, DwarfSections, EndianSlice, LittleEndian, Unit, UnitOffset};
use object::LittleEndian as LE;
use object::read::elf::SectionHeader;

use crate::Object;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Source files of functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionSources {
    /// Paths, made absolute by the folder of the compilation where that is known.
    pub files: Vec<String>,
    /// Function's unrelocated address and index of its file.
    pub functions: Vec<(u64, usize)>,
}

impl FunctionSources {
    /// True if there is no debug information.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

impl Object {
    /// The source file of each function that has code of its own, from the object's debug information or that of its
    /// separate debug file. Parts that the compiler split off are not listed.
    pub fn function_sources(&self) -> FunctionSources {
        let own = sources(self);
        if own.is_empty()
            && let Some(debug) = crate::debug_file::open(self)
        {
            return sources(&debug);
        }
        own
    }
}

/// References from one entry to another are followed this far.
const HOPS: usize = 8;

fn sources(object: &Object) -> FunctionSources {
    let sections = object.sections();
    let load = |id: gimli::SectionId| -> Result<Vec<u8>, gimli::Error> {
        let section = sections.section_by_name(LE, id.name().as_bytes());
        Ok(section.and_then(|(_, s)| unpacked(s, &object.map[..])).unwrap_or_default())
    };
    let Ok(sections) = DwarfSections::load(load) else { return FunctionSources::default() };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if let Ok(unit) = dwarf.unit(header) {
            units.push(unit);
        }
    }
    let mut collector =
        Collector { dwarf: &dwarf, units: &units, known: HashMap::new(), sources: FunctionSources::default() };
    for index in 0..units.len() {
        // A damaged unit costs its functions only.
        let _ = collector.unit(index);
    }
    collector.sources.functions.sort_unstable();
    collector.sources.functions.dedup_by_key(|(at, _)| *at);
    collector.sources
}

/// What a section may hold when it is unpacked: a few bytes can be packed so that they stand for any number.
pub(crate) const MOST_UNPACKED: u64 = 4 << 30;

/// A section's bytes, unpacked if they are compressed with zlib.
pub(crate) fn unpacked(section: &object::elf::SectionHeader64<LE>, data: &[u8]) -> Option<Vec<u8>> {
    let raw = section.data(LE, data).ok()?;
    match section.compression(LE, data).ok()? {
        None => Some(raw.to_vec()),
        Some((header, offset, _)) => {
            if header.ch_type.get(LE) != object::elf::ELFCOMPRESS_ZLIB {
                return None;
            }
            let packed = data.get(usize::try_from(offset).ok()?..)?;
            let mut bytes = Vec::new();
            let limit = header.ch_size.get(LE);
            if limit > MOST_UNPACKED {
                return None;
            }
            flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
    }
}

struct Collector<'a> {
    dwarf: &'a Dwarf<Bytes<'a>>,
    units: &'a [Unit<Bytes<'a>>],
    known: HashMap<String, usize>,
    sources: FunctionSources,
}

impl<'a> Collector<'a> {
    fn unit(&mut self, index: usize) -> Result<(), gimli::Error> {
        let unit = &self.units[index];
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let Some(start) = self.start(unit, entry)? else { continue };
            let offset = entry.offset();
            if let Some(path) = self.file(index, offset)?.or_else(|| unit_path(unit)) {
                let next = self.sources.files.len();
                let file = *self.known.entry(path).or_insert_with_key(|path| {
                    self.sources.files.push(path.clone());
                    next
                });
                self.sources.functions.push((start, file));
            }
        }
        Ok(())
    }

    /// Where the function's code begins, if it has any.
    fn start(
        &self,
        unit: &Unit<Bytes<'a>>,
        entry: &gimli::DebuggingInformationEntry<Bytes<'a>>,
    ) -> Result<Option<u64>, gimli::Error> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_low_pc) {
            return Ok(self.dwarf.attr_address(unit, value)?.filter(|&at| at != 0));
        }
        // Split into a hot and a cold part: the first is the function's entry.
        Ok(self.dwarf.die_ranges(unit, entry)?.next()?.map(|range| range.begin).filter(|&at| at != 0))
    }

    /// The file of an entry's declaration, or of the entry that it completes.
    fn file(&self, mut index: usize, mut offset: UnitOffset) -> Result<Option<String>, gimli::Error> {
        for _ in 0..HOPS {
            let unit = &self.units[index];
            let entry = unit.entry(offset)?;
            if let Some(value) = entry.attr_value(gimli::DW_AT_decl_file) {
                let number = match value {
                    AttributeValue::FileIndex(number) => number,
                    other => other.udata_value().unwrap_or(0),
                };
                return Ok(self.path(unit, number));
            }
            let next =
                entry.attr_value(gimli::DW_AT_specification).or_else(|| entry.attr_value(gimli::DW_AT_abstract_origin));
            match next {
                Some(AttributeValue::UnitRef(to)) => offset = to,
                Some(AttributeValue::DebugInfoRef(to)) => match self.locate(to) {
                    Some(found) => (index, offset) = found,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn locate(&self, at: DebugInfoOffset) -> Option<(usize, UnitOffset)> {
        let starts_before = |unit: &Unit<Bytes<'_>>| unit.debug_info_offset().is_some_and(|start| start.0 <= at.0);
        let index = self.units.partition_point(starts_before).checked_sub(1)?;
        Some((index, at.to_unit_offset(&self.units[index])?))
    }

    fn path(&self, unit: &Unit<Bytes<'a>>, number: u64) -> Option<String> {
        let program = unit.line_program.as_ref()?;
        let header = program.header();
        let file = header.file(number)?;
        let text = |value| Some(self.dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
        let name = text(file.path_name())?;
        let folder = file.directory(header).and_then(text).unwrap_or_default();
        Some(joined(&[&unit_folder(unit), &folder, &name]))
    }
}

fn unit_folder(unit: &Unit<Bytes<'_>>) -> String {
    unit.comp_dir.as_ref().map(|d| d.to_string_lossy().into_owned()).unwrap_or_default()
}

fn unit_path(unit: &Unit<Bytes<'_>>) -> Option<String> {
    let name = unit.name.as_ref()?.to_string_lossy().into_owned();
    Some(joined(&[&unit_folder(unit), &name]))
}

/// Parts of a path, of which an absolute one drops those before; without `.` and `..`.
fn joined(parts: &[&str]) -> String {
    let mut all: Vec<&str> = Vec::new();
    let mut absolute = false;
    for part in parts {
        if part.starts_with('/') {
            all.clear();
            absolute = true;
        }
        for name in part.split('/') {
            match name {
                "" | "." => {}
                ".." if all.last().is_some_and(|last| *last != "..") => _ = all.pop(),
                _ => all.push(name),
            }
        }
    }
    format!("{}{}", if absolute { "/" } else { "" }, all.join("/"))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn paths_are_plain() {
        assert_eq!(joined(&["/src/build", "../lib", "./a.c"]), "/src/lib/a.c");
        assert_eq!(joined(&["/src", "/usr/include", "b.h"]), "/usr/include/b.h");
        assert_eq!(joined(&["", "", "a.c"]), "a.c");
    }
}
