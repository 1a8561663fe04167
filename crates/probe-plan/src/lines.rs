//! Source lines, from DWARF.

use std::sync::Arc;

use gimli::{EndianArcSlice, LittleEndian};
use transect_binary_info::Object;

type Bytes = EndianArcSlice<LittleEndian>;

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// Path as the compiler was given it, made absolute by the folder of the compilation where that is known.
    pub file: String,
    /// Line, from 1; 0 if the table does not say.
    pub line: u32,
}

/// A function that some code belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Raw name; `None` if the debug information does not say.
    pub function: Option<String>,
    /// Path of the source file, empty if unknown.
    pub file: String,
    /// Line in it: of the code itself for the innermost function, of the call for others; 0 if unknown.
    pub line: u32,
}

/// The line tables of one object, read unit by unit as they are asked for.
pub struct Lines {
    context: addr2line::Context<Bytes>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    /// The line tables of `object`, else those of its separate debug file; `None` if there are none.
    pub fn of(object: &Object) -> Option<Self> {
        Self::inside(object).or_else(|| Self::inside(&object.debug_object()?))
    }

    /// The line tables in `object` itself; `None` if there are none.
    pub fn inside(object: &Object) -> Option<Self> {
        let lines = object.section_bytes(".debug_line").filter(|bytes| !bytes.is_empty())?;
        let mut lines = Some(lines);
        let load = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
            use gimli::SectionId::{DebugLine, DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro, DebugTypes};
            let bytes = match id {
                DebugLine => lines.take(),
                // They say nothing of lines, and may be most of what would have to be inflated.
                DebugLoc | DebugLocLists | DebugMacinfo | DebugMacro | DebugTypes => None,
                _ => object.section_bytes(id.name()),
            };
            Ok(Bytes::new(Arc::from(bytes.unwrap_or_default()), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(load).ok()?;
        Some(Self { context: addr2line::Context::from_dwarf(dwarf).ok()? })
    }

    /// The functions that the code at `vaddr` belongs to, innermost first: those inlined there, then the one that holds
    /// the code. Empty if no line is known.
    pub fn frames(&self, vaddr: u64) -> Vec<SourceFrame> {
        let mut found = Vec::new();
        let Ok(mut frames) = self.context.find_frames(vaddr).skip_all_loads() else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let function = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
            let location = frame.location;
            let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
            let file = location.and_then(|location| location.file).unwrap_or("").to_owned();
            found.push(SourceFrame { function, file, line });
        }
        found
    }

    /// Where the code at `vaddr` was written; for a function's first address, where it begins.
    pub fn at(&self, vaddr: u64) -> Option<SourceLine> {
        let location = self.context.find_location(vaddr).ok()??;
        Some(SourceLine { file: location.file?.to_owned(), line: location.line.unwrap_or(0) })
    }
}
