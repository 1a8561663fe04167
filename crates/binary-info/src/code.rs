//! Where an object's instructions begin: bounds of functions from `.eh_frame`, of the rest from section headers.

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, LittleEndian, ParsedEhFrameHdr, UnwindSection};
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::SectionHeader;

use crate::Object;

type Bytes<'a> = gimli::EndianSlice<'a, LittleEndian>;

/// Bounds of the functions of an object.
pub(crate) struct Functions {
    /// Address ranges of frame description entries, sorted, with the address of their exception table.
    ranges: Vec<(Range<u64>, Option<u64>)>,
    /// Address ranges of executable sections, sorted.
    sections: Vec<Range<u64>>,
}

/// A stretch of code that can be decoded from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub range: Range<u64>,
    /// True if a frame description says that a function starts here; else the start is likely but not certain.
    pub certain: bool,
    /// Address of the function's exception table.
    pub exceptions: Option<u64>,
}

impl Functions {
    pub(crate) fn of(object: &Object) -> Self {
        let sections = object.sections();
        let mut code: Vec<Range<u64>> = sections
            .iter()
            .filter(|s| s.sh_type(LE) == elf::SHT_PROGBITS && s.sh_flags(LE).contains(elf::SHF_EXECINSTR))
            .map(|s| s.sh_addr(LE)..s.sh_addr(LE).saturating_add(s.sh_size(LE)))
            .collect();
        if code.is_empty() {
            code = object.segments.iter().filter(|s| s.executable).map(|s| s.vaddr..s.vaddr + s.file_size).collect();
        }
        code.sort_by_key(|range| range.start);
        let mut ranges = frame_descriptions(object).unwrap_or_default();
        ranges.sort_by_key(|(range, _)| range.start);
        Self { ranges, sections: code }
    }

    /// The stretch that holds `vaddr`: its function, or the gap between functions and section bounds.
    pub(crate) fn stretch(&self, vaddr: u64) -> Option<Stretch> {
        let next = self.ranges.partition_point(|(range, _)| range.start <= vaddr);
        let previous = next.checked_sub(1).map(|index| &self.ranges[index]);
        if let Some((range, lsda)) = previous.filter(|(range, _)| range.contains(&vaddr)) {
            return Some(Stretch { range: range.clone(), certain: true, exceptions: *lsda });
        }
        let section = self.sections.iter().find(|range| range.contains(&vaddr))?;
        let start = previous.map_or(section.start, |(range, _)| range.end.max(section.start));
        let end = self.ranges.get(next).map_or(section.end, |(range, _)| range.start.min(section.end));
        Some(Stretch { range: start..end, certain: false, exceptions: None })
    }
}

/// Functions that the unwind information describes.
pub(crate) fn described_functions(object: &Object) -> Vec<Range<u64>> {
    frame_descriptions(object).unwrap_or_default().into_iter().map(|(range, _)| range).collect()
}

/// Ranges of all frame description entries, found through the header that unwinders use, else (static programs have none)
/// by their section.
fn frame_descriptions(object: &Object) -> Option<Vec<(Range<u64>, Option<u64>)>> {
    let bases = BaseAddresses::default();
    let (frames_at, bases) = match object.eh_frame_header {
        Some((header_at, _)) => {
            let header_bytes = object.bytes_at(header_at)?;
            let bases = bases.set_eh_frame_hdr(header_at);
            let header: ParsedEhFrameHdr<Bytes<'_>> =
                EhFrameHdr::new(header_bytes, LittleEndian).parse(&bases, 8).ok()?;
            let gimli::Pointer::Direct(frames_at) = header.eh_frame_ptr() else { return None };
            (frames_at, bases)
        }
        None => (object.section_address(".eh_frame")?, bases),
    };
    let bases = bases.set_eh_frame(frames_at);
    let frames = EhFrame::new(object.bytes_at(frames_at)?, LittleEndian);
    let mut entries = frames.entries(&bases);
    let mut ranges = Vec::new();
    // The section ends with a zero length, which ends the iteration; what follows a damaged entry is not trusted.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let lsda = match fde.lsda() {
            Some(gimli::Pointer::Direct(at) | gimli::Pointer::Indirect(at)) if at != 0 => Some(at),
            _ => None,
        };
        let start = fde.initial_address();
        ranges.push((start..start.saturating_add(fde.len()), lsda));
    }
    Some(ranges)
}
