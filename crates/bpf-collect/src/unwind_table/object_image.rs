//! What of an ELF object its unwind rows are read from: a file, or the memory of a process that runs it.
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{CompressionHeader, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian as LE, ReadCache, ReadRef};

use transect_binary_info::Object;

use super::object_rows::FrameSections;

/// More than any frame section of a real program; what claims to be larger is damaged.
const MAX_SECTION_BYTES: u64 = 512 << 20;

/// An executable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeSegment {
    pub file_offset: u64,
    pub file_size: u64,
    pub address: u64,
    pub memory_size: u64,
}

/// An ELF object's frame sections and where its code lies.
#[derive(Debug, Default)]
pub(crate) struct ObjectImage {
    pub sections: FrameSections,
    pub code: Vec<CodeSegment>,
    pub build_id: Option<Vec<u8>>,
}

/// Why an object has no table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("cannot read: {0}")]
    Read(String),
    #[error("no x86-64 ELF object")]
    NotElf,
    #[error("no unwind information")]
    NoFrames,
    #[error("code spans more than 4 GiB")]
    TooWide,
}

impl From<object::Error> for ImageError {
    fn from(error: object::Error) -> Self {
        Self::Read(error.to_string())
    }
}

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> Self {
        Self::Read(error.to_string())
    }
}

impl ObjectImage {
    /// Reads an object's file. Only headers and frame sections are read.
    pub fn of_file(file: &File) -> Result<Self, ImageError> {
        let cache = ReadCache::new(file);
        let data = &cache;
        let header = header(data)?;
        let programs = header.program_headers(LE, data)?;
        let mut image = Self::of_program_headers(programs)?;
        for program in programs {
            if let Ok(Some(mut notes)) = program.notes(LE, data) {
                while let Ok(Some(note)) = notes.next() {
                    if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                        image.build_id = Some(note.desc().to_vec());
                    }
                }
            }
        }
        if let Ok(sections) = header.sections(LE, data) {
            for section in sections.iter() {
                let Ok(name) = sections.section_name(LE, section) else { continue };
                let address = section.sh_addr(LE);
                match name {
                    b".eh_frame" if section.sh_size(LE) <= MAX_SECTION_BYTES => {
                        image.sections.eh_frame = section.data(LE, data)?.to_vec();
                        image.sections.eh_frame_address = address;
                    }
                    b".debug_frame" if section.sh_size(LE) <= MAX_SECTION_BYTES => {
                        image.sections.debug_frame = section_bytes(section, data)?;
                    }
                    // Every Go program has it, also where its table is in no section of its own.
                    b".go.buildinfo" => image.find_go_table(file),
                    b".text" => image.sections.text_address = address,
                    b".got" => image.sections.got_address = address,
                    b".plt" | b".plt.sec" | b".plt.got" | b".iplt" => {
                        image.sections.stubs.push(address..address.saturating_add(section.sh_size(LE)));
                    }
                    _ => {}
                }
            }
        }
        if image.sections.eh_frame.is_empty() {
            let read = |address: u64, bytes: &mut [u8]| {
                let at = programs
                    .iter()
                    .find(|p| p.p_type(LE) == elf::PT_LOAD && in_file(p).contains(&address))
                    .map(|p| address - p.p_vaddr(LE) + p.p_offset(LE));
                at.is_some_and(|at| file.read_exact_at(bytes, at).is_ok())
            };
            image.find_by_header(programs, 0, read);
        }
        image.checked()
    }

    /// Reads the object that a process has mapped at `start`: for files that are gone and for the kernel's vDSO.
    pub fn of_memory(memory: &File, start: u64) -> Result<Self, ImageError> {
        let mut head = vec![0; 4096];
        memory.read_exact_at(&mut head, start)?;
        let header = header(head.as_slice())?;
        let programs = header.program_headers(LE, head.as_slice())?;
        let mut image = Self::of_program_headers(programs)?;
        let first = programs.iter().filter(|p| p.p_type(LE) == elf::PT_LOAD).map(|p| p.p_vaddr(LE)).min();
        let bias = start.wrapping_sub(first.unwrap_or(0) & !0xfff);
        let read = |address: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, address).is_ok();
        image.find_by_header(programs, bias, read);
        image.checked()
    }

    fn of_program_headers(programs: &[ProgramHeader64<LE>]) -> Result<Self, ImageError> {
        let code: Vec<_> = programs
            .iter()
            .filter(|p| p.p_type(LE) == elf::PT_LOAD && p.p_flags(LE).contains(elf::PF_X))
            .map(|p| CodeSegment {
                file_offset: p.p_offset(LE),
                file_size: p.p_filesz(LE),
                address: p.p_vaddr(LE),
                memory_size: p.p_memsz(LE),
            })
            .collect();
        let start = code.iter().map(|segment| segment.address & !0xfff).min().ok_or(ImageError::NoFrames)?;
        let end = code.iter().map(|segment| segment.address.saturating_add(segment.memory_size)).max().unwrap_or(0);
        if end.saturating_sub(start) > u64::from(u32::MAX) {
            return Err(ImageError::TooWide);
        }
        let sections = FrameSections { code: start..end, ..FrameSections::default() };
        Ok(Self { sections, code, build_id: None })
    }

    fn find_go_table(&mut self, file: &File) {
        let Ok(object) = Object::of_file("", file) else { return };
        let parts = object.go_table().map(|table| table.parts());
        if let Some((table, _, text)) = parts.filter(|(table, ..)| table.len() as u64 <= MAX_SECTION_BYTES) {
            (self.sections.go_table, self.sections.go_text) = (table.to_vec(), text);
        }
    }

    /// Without section headers: `.eh_frame` by the pointer in its search table, up to the end of the segment.
    fn find_by_header(&mut self, programs: &[ProgramHeader64<LE>], bias: u64, read: impl Fn(u64, &mut [u8]) -> bool) {
        let Some(table) = programs.iter().find(|p| p.p_type(LE) == elf::PT_GNU_EH_FRAME) else { return };
        let address = table.p_vaddr(LE);
        let mut head = vec![0; 12];
        if !read(address.wrapping_add(bias), &mut head) {
            return;
        }
        let head = gimli::EhFrameHdr::new(&head, gimli::LittleEndian);
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
        let Ok(head) = head.parse(&bases, 8) else { return };
        let gimli::Pointer::Direct(start) = head.eh_frame_ptr() else { return };
        let loaded = |p: &&ProgramHeader64<LE>| p.p_type(LE) == elf::PT_LOAD && in_file(p).contains(&start);
        let Some(end) = programs.iter().find(loaded).map(|p| in_file(p).end) else { return };
        let Some(size) = end.checked_sub(start).filter(|&size| size <= MAX_SECTION_BYTES) else { return };
        let mut bytes = vec![0; size as usize];
        if read(start.wrapping_add(bias), &mut bytes) {
            self.sections.eh_frame = bytes;
            self.sections.eh_frame_address = start;
        }
    }

    fn checked(self) -> Result<Self, ImageError> {
        let FrameSections { eh_frame, debug_frame, go_table, .. } = &self.sections;
        if eh_frame.is_empty() && debug_frame.is_empty() && go_table.is_empty() {
            Err(ImageError::NoFrames)
        } else {
            Ok(self)
        }
    }
}

fn header<'a, R: ReadRef<'a>>(data: R) -> Result<&'a FileHeader64<LE>, ImageError> {
    let header = FileHeader64::<LE>::parse(data).map_err(|_| ImageError::NotElf)?;
    if header.e_machine.get(LE) != elf::EM_X86_64 || !header.is_little_endian() {
        return Err(ImageError::NotElf);
    }
    Ok(header)
}

fn in_file(program: &ProgramHeader64<LE>) -> Range<u64> {
    let start = program.p_vaddr(LE);
    start..start.saturating_add(program.p_filesz(LE))
}

/// A section's bytes, inflated if they are compressed.
fn section_bytes<'a, R: ReadRef<'a>>(
    section: &object::elf::SectionHeader64<LE>,
    data: R,
) -> Result<Vec<u8>, ImageError> {
    let bytes = section.data(LE, data)?;
    let Some((compression, offset, size)) = section.compression(LE, data)? else { return Ok(bytes.to_vec()) };
    let packed = data.read_bytes_at(offset, size);
    let packed = packed.map_err(|()| ImageError::Read("compressed section".to_owned()))?;
    if compression.ch_type(LE) != elf::ELFCOMPRESS_ZLIB {
        return Ok(Vec::new());
    }
    let mut inflated = Vec::new();
    let limit = io::Read::take(flate2::read::ZlibDecoder::new(packed), MAX_SECTION_BYTES);
    io::Read::read_to_end(&mut { limit }, &mut inflated)?;
    Ok(inflated)
}
