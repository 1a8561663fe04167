use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::pod::{self, Pod};
use object::read::elf::{FileHeader, SectionTable};

use crate::dynamic::Dynamic;
use crate::file_map::FileMap;
use crate::symbols::{Symbol, SymbolTable};
use crate::{BinaryError, DynamicSymbol, Identity, LibcKind, LinkageSlot, ObjectType, linkage};

/// One `PT_LOAD` segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub vaddr: u64,
    pub file_offset: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub executable: bool,
}

/// One mapped x86-64 ELF file.
///
/// Addresses are unrelocated virtual addresses: what the file's own tables use, a run-time address less the address
/// the object was loaded at.
#[derive(Debug)]
pub struct Object {
    path: PathBuf,
    pub(crate) map: FileMap,
    identity: Identity,
    mode: u32,
    interpreter: Option<String>,
    build_id: Option<Vec<u8>>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) eh_frame_header: Option<(u64, u64)>,
    pub(crate) dynamic: Option<Dynamic>,
    symbols: OnceLock<SymbolTable>,
    debug_symbols: OnceLock<SymbolTable>,
}

impl Object {
    /// Maps the object at `path` and reads its program headers and dynamic section; the rest is read when asked for.
    ///
    /// # Errors
    /// [`BinaryError::Read`], [`BinaryError::NotElf`], [`BinaryError::WrongMachine`] or [`BinaryError::Damaged`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BinaryError> {
        let path = path.as_ref().to_path_buf();
        let read = |source| BinaryError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(BinaryError::NotElf { path });
        }
        let map = FileMap::map(&file).map_err(read)?;
        Self::from_map(path, map, metadata.mode())
    }

    /// Reads an object from `map`; `path` is for messages and for finding separate debug files.
    pub(crate) fn from_map(path: PathBuf, map: FileMap, mode: u32) -> Result<Self, BinaryError> {
        let damaged = |what: &str| BinaryError::Damaged { path: path.clone(), what: what.to_owned() };
        let Some(identity) = Identity::parse(&map) else { return Err(BinaryError::NotElf { path }) };
        if !identity.is_x86_64() {
            return Err(BinaryError::WrongMachine { path, found: identity.describe() });
        }
        let program_headers = FileHeader64::<LE>::parse(&map[..])
            .and_then(|header| header.program_headers(LE, &map[..]))
            .map_err(|_| damaged("program headers"))?
            .to_vec();
        let mut object = Self {
            segments: program_headers.iter().filter_map(load_segment).collect(),
            path: path.clone(),
            identity,
            mode,
            interpreter: None,
            build_id: None,
            eh_frame_header: None,
            dynamic: None,
            symbols: OnceLock::new(),
            debug_symbols: OnceLock::new(),
            map,
        };
        let mut dynamic_range = None;
        let mut notes = Vec::new();
        let mut interpreter_range = None;
        for ph in &program_headers {
            let range = (ph.p_offset.get(LE), ph.p_filesz.get(LE));
            match ph.p_type.get(LE) {
                elf::PT_DYNAMIC => dynamic_range = Some(range),
                elf::PT_NOTE => notes.push((range, ph.p_align.get(LE))),
                elf::PT_INTERP => interpreter_range = Some(range),
                elf::PT_GNU_EH_FRAME => object.eh_frame_header = Some((ph.p_vaddr.get(LE), ph.p_memsz.get(LE))),
                _ => {}
            }
        }
        if let Some((offset, size)) = interpreter_range {
            let bytes = object.file_bytes(offset, size).ok_or_else(|| damaged("interpreter"))?;
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            object.interpreter = Some(String::from_utf8_lossy(&bytes[..end]).into_owned());
        }
        if let Some((offset, size)) = dynamic_range {
            // A debug file keeps the header of the dynamic segment but not its bytes.
            if let Some(dynamic) = object.file_bytes(offset, size).map(|bytes| Dynamic::parse(&object, bytes)) {
                object.dynamic = Some(dynamic);
            }
        }
        object.build_id = notes.iter().find_map(|&((offset, size), align)| {
            crate::debug_file::build_id_note(object.file_bytes(offset, size)?, align)
        });
        Ok(object)
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Class, machine and type.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// True for an executable at fixed addresses (`ET_EXEC`).
    pub fn is_fixed(&self) -> bool {
        self.identity.object_type == ObjectType::Executable
    }

    /// The loader that the program asks for (`PT_INTERP`); `None` for libraries and static executables.
    pub fn interpreter(&self) -> Option<&str> {
        self.interpreter.as_deref()
    }

    /// True if the object has no linkage to others: a statically linked executable, `-static-pie` included.
    pub fn is_static(&self) -> bool {
        match &self.dynamic {
            None => true,
            // A static PIE has a dynamic section for its own relocations and DF_1_PIE, but neither loader nor needs.
            Some(dynamic) => self.interpreter.is_none() && dynamic.is_pie && dynamic.needed.is_empty(),
        }
    }

    /// Names of the needed libraries (`DT_NEEDED`), in order.
    pub fn needed(&self) -> &[String] {
        self.dynamic.as_ref().map_or(&[], |d| &d.needed)
    }

    /// The library's own name (`DT_SONAME`).
    pub fn soname(&self) -> Option<&str> {
        self.dynamic.as_ref()?.soname.as_deref()
    }

    /// GNU build-id in lower-case hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        use std::fmt::Write;
        self.build_id.as_ref().map(|id| {
            id.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        })
    }

    /// True if the file's mode has the set-uid bit.
    pub fn is_setuid(&self) -> bool {
        self.mode & 0o4000 != 0
    }

    /// True if the file's mode has the set-gid bit (and group execution, without which it means locking).
    pub fn is_setgid(&self) -> bool {
        self.mode & 0o2010 == 0o2010
    }

    /// The C library that the object is linked to, by its loader, else by its needed libraries.
    pub fn libc(&self) -> LibcKind {
        LibcKind::of(self.interpreter(), self.needed())
    }

    /// The dynamic symbol at `index`, which is what relocations refer to; `None` beyond the table's end.
    pub fn dynamic_symbol(&self, index: u32) -> Option<DynamicSymbol<'_>> {
        self.dynamic.as_ref()?.symbol(self, index)
    }

    /// Number of dynamic symbols.
    pub fn dynamic_symbol_count(&self) -> u32 {
        self.dynamic.as_ref().map_or(0, |d| d.symbol_count)
    }

    /// Linkage slots that hold functions, in order of their relocations (see [`LinkageSlot`]).
    pub fn linkage_slots(&self) -> Vec<LinkageSlot> {
        linkage::function_slots(self)
    }

    /// The symbol that covers `vaddr`: from the object's own tables, else from its separate debug file or compressed
    /// mini symbol table. Of several names for one address, the public one.
    pub fn symbol_at(&self, vaddr: u64) -> Option<Symbol<'_>> {
        let own = self.symbols.get_or_init(|| SymbolTable::of_object(self));
        own.covering(vaddr).or_else(|| {
            if own.complete {
                return None;
            }
            self.debug_symbols.get_or_init(|| crate::debug_file::symbols(self)).covering(vaddr)
        })
    }

    /// File offset of `vaddr`, if a segment holds it in the file.
    pub fn file_offset(&self, vaddr: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|s| vaddr.checked_sub(s.vaddr).is_some_and(|delta| delta < s.file_size))
            .map(|s| s.file_offset + (vaddr - s.vaddr))
    }

    /// Virtual address of a file offset; the executable segment wins where segments share a page of the file.
    pub fn vaddr(&self, file_offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| file_offset.checked_sub(s.file_offset).is_some_and(|delta| delta < s.file_size);
        let holding = self.segments.iter().filter(inside);
        holding.max_by_key(|s| s.executable).map(|s| s.vaddr + (file_offset - s.file_offset))
    }

    /// Virtual address of a file offset in a mapping of writable data, or as far beyond the file's bytes as variables lie
    /// that begin as zero.
    pub fn data_vaddr(&self, file_offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| {
            !s.executable && file_offset >= s.file_offset & !0xfff && file_offset < s.file_offset + s.memory_size
        };
        // Writable data is the last segment of the file.
        let holding = self.segments.iter().filter(inside).max_by_key(|s| s.file_offset)?;
        Some(holding.vaddr.wrapping_add(file_offset.wrapping_sub(holding.file_offset)))
    }

    /// Memory that holds data: virtual address, bytes with those that begin as zero, and where it begins in the file.
    pub fn data_segments(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let data = self.segments.iter().filter(|segment| !segment.executable);
        data.map(|segment| (segment.vaddr, segment.memory_size, segment.file_offset))
    }

    /// What has to be added to virtual addresses, if executable memory of this file is mapped at `start` from
    /// `file_offset` on (a line of `/proc/PID/maps`); `None` if no executable segment lies there.
    pub fn load_bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        const PAGE: u64 = !0xfff;
        let holds = |s: &&Segment| {
            s.executable && (s.file_offset & PAGE..s.file_offset + s.file_size).contains(&(file_offset & PAGE))
        };
        let segment = self.segments.iter().find(holds)?;
        let vaddr = (segment.vaddr & PAGE) + (file_offset & PAGE) - (segment.file_offset & PAGE);
        Some(start.wrapping_sub(vaddr))
    }

    /// Lowest and highest (exclusive) virtual address of the loaded object.
    pub fn address_range(&self) -> std::ops::Range<u64> {
        let start = self.segments.iter().map(|s| s.vaddr).min().unwrap_or(0);
        let end = self.segments.iter().map(|s| s.vaddr + s.memory_size).max().unwrap_or(0);
        start..end
    }

    pub(crate) fn file_bytes(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.map.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// The bytes from `vaddr` to the end of what its segment holds in the file, unrelocated.
    pub fn bytes_at(&self, vaddr: u64) -> Option<&[u8]> {
        let segment =
            self.segments.iter().find(|s| vaddr.checked_sub(s.vaddr).is_some_and(|delta| delta < s.file_size))?;
        let delta = vaddr - segment.vaddr;
        self.file_bytes(segment.file_offset + delta, segment.file_size - delta)
    }

    /// `count` records of type `T` at `vaddr`.
    pub(crate) fn records_at<T: Pod>(&self, vaddr: u64, count: usize) -> Option<&[T]> {
        pod::slice_from_bytes(self.bytes_at(vaddr)?, count).ok().map(|(records, _)| records)
    }

    /// The section headers; empty if the file was stripped of them.
    pub(crate) fn sections(&self) -> SectionTable<'_, FileHeader64<LE>> {
        let data = &self.map[..];
        FileHeader64::<LE>::parse(data).and_then(|h| h.sections(LE, data)).unwrap_or_default()
    }
}

fn load_segment(ph: &ProgramHeader64<LE>) -> Option<Segment> {
    (ph.p_type.get(LE) == elf::PT_LOAD).then(|| Segment {
        vaddr: ph.p_vaddr.get(LE),
        file_offset: ph.p_offset.get(LE),
        file_size: ph.p_filesz.get(LE),
        memory_size: ph.p_memsz.get(LE),
        executable: ph.p_flags.get(LE).contains(elf::PF_X),
    })
}
