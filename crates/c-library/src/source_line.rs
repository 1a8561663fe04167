//! Source lines of addresses, from DWARF, if the object has any.

use std::path::Path;
use std::sync::Arc;

use object::{Object as _, ObjectSection as _};

type Reader = gimli::EndianArcSlice<gimli::LittleEndian>;

/// The line table of one object.
pub struct Lines {
    context: addr2line::Context<Reader>,
}

impl Lines {
    /// Reads the debug sections of the object at `path`. None if it has none.
    pub fn open(path: &Path) -> Option<Self> {
        let file = std::fs::File::open(path).ok()?;
        // SAFETY: the map is read only; a file that shrinks meanwhile is the caller's duty, as in binary-info.
        let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
        let object = object::File::parse(&*map).ok()?;
        object.section_by_name(".debug_line").or_else(|| object.section_by_name(".zdebug_line"))?;
        let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
            let data = object
                .section_by_name(id.name())
                .and_then(|section| section.uncompressed_data().ok())
                .unwrap_or_default();
            Ok(gimli::EndianArcSlice::new(Arc::from(&*data), gimli::LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        Some(Self { context: addr2line::Context::from_dwarf(dwarf).ok()? })
    }

    /// File and line of a virtual address.
    pub fn of(&self, vaddr: u64) -> Option<(String, u32)> {
        let location = self.context.find_location(vaddr).ok()??;
        Some((location.file?.to_owned(), location.line?))
    }
}
