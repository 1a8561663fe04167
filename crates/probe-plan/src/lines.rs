//! Source lines, from DWARF, and of Go's code from the table that its runtime reads.

mod split_dwarf;

use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult};
use gimli::{EndianArcSlice, LittleEndian};
use split_dwarf::SplitDwarf;
use transect_binary_info::{GoPlace, GoTable, Object};

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
pub struct Lines(Source);

enum Source {
    Dwarf(addr2line::Context<Bytes>, Box<SplitDwarf>),
    /// The parts of a [`GoTable`].
    Go {
        table: Vec<u8>,
        function_data: Vec<u8>,
        text: u64,
    },
}

impl Source {
    fn go(object: &Object) -> Option<Self> {
        let (table, function_data, text) = object.go_table()?.parts();
        Some(Self::Go { table: table.to_vec(), function_data: function_data.to_vec(), text })
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    /// The line tables of `object`, else those of its separate debug file; `None` if there are none.
    pub fn of(object: &Object) -> Option<Self> {
        let dwarf = Self::inside(object).or_else(|| Self::in_file(&object.debug_object()?, Some(object)));
        dwarf.or_else(|| Source::go(object).map(Self))
    }

    /// The line tables in `object` itself; `None` if there are none.
    pub fn inside(object: &Object) -> Option<Self> {
        Self::in_file(object, None)
    }

    /// Those in `object`, which may be the debug file of `program`.
    fn in_file(object: &Object, program: Option<&Object>) -> Option<Self> {
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
        let mut dwarf = gimli::Dwarf::load(load).ok()?;
        if let Some(shared) = object.supplementary_object() {
            let load = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
                Ok(Bytes::new(Arc::from(shared.section_bytes(id.name()).unwrap_or_default()), LittleEndian))
            };
            dwarf.load_sup(load).ok()?;
        }
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Self(Source::Dwarf(context, Box::new(SplitDwarf::of(object, program)))))
    }

    /// The functions that the code at `vaddr` belongs to, innermost first: those inlined there, then the one that holds
    /// the code. Empty if no line is known.
    pub fn frames(&self, vaddr: u64) -> Vec<SourceFrame> {
        match &self.0 {
            Source::Dwarf(context, split) => described_frames(context, split, vaddr),
            Source::Go { table, function_data, text } => {
                let table = GoTable::parse(table, *text).map(|table| table.with_function_data(function_data));
                let places = table.map(|table| table.places(vaddr)).unwrap_or_default();
                let frame = |place: &GoPlace<'_>| SourceFrame {
                    function: Some(place.function.to_owned()),
                    file: place.file.to_owned(),
                    line: place.line,
                };
                places.iter().map(frame).collect()
            }
        }
    }

    /// Where the code at `vaddr` was written; for a function's first address, where it begins.
    pub fn at(&self, vaddr: u64) -> Option<SourceLine> {
        let Source::Dwarf(context, _) = &self.0 else {
            let place = self.frames(vaddr).into_iter().next()?;
            return Some(SourceLine { file: place.file, line: place.line });
        };
        let location = context.find_location(vaddr).ok()??;
        Some(SourceLine { file: location.file?.to_owned(), line: location.line.unwrap_or(0) })
    }
}

fn described_frames(context: &addr2line::Context<Bytes>, split: &SplitDwarf, vaddr: u64) -> Vec<SourceFrame> {
    let mut found = Vec::new();
    let mut lookup = context.find_frames(vaddr);
    let frames = loop {
        lookup = match lookup {
            LookupResult::Output(frames) => break frames,
            LookupResult::Load { load, continuation } => {
                let loaded = split.load(&load);
                continuation.resume(loaded)
            }
        };
    };
    let Ok(mut frames) = frames else { return found };
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
        let location = frame.location;
        let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
        let file = location.and_then(|location| location.file).unwrap_or("").to_owned();
        found.push(SourceFrame { function, file, line });
    }
    found
}
