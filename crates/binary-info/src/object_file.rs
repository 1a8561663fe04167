use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::pod::{self, Pod};
use object::read::elf::{FileHeader, SectionTable};

use crate::debug_file::DebugSymbols;
use crate::dynamic::Dynamic;
use crate::file_map::FileMap;
use crate::plain_file::{LastLink, open_plain};
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

/// What tells one version of a file from the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileVersion {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub changed: (i64, i64),
}

impl FileVersion {
    fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino(), size: file.size(), changed: (file.ctime(), file.ctime_nsec()) }
    }
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
    version: Option<FileVersion>,
    interpreter: Option<String>,
    build_id: Option<Vec<u8>>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) eh_frame_header: Option<(u64, u64)>,
    pub(crate) dynamic: Option<Dynamic>,
    symbols: OnceLock<SymbolTable>,
    debug_symbols: OnceLock<Option<Box<DebugSymbols>>>,
}

impl Object {
    /// Maps the object at `path` and reads its program headers and dynamic section; the rest is read when asked for.
    ///
    /// # Errors
    /// [`BinaryError::Read`], [`BinaryError::NotElf`], [`BinaryError::WrongMachine`] or [`BinaryError::Damaged`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BinaryError> {
        let path = path.as_ref().to_path_buf();
        let file = match open_plain(&path, LastLink::Follow) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Err(BinaryError::NotElf { path }),
            opened => opened.map_err(|source| BinaryError::Read { path: path.clone(), source })?,
        };
        Self::of_file(path, &file)
    }

    /// The same of a file that is open already and that `path` leads to, as others see it.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn of_file(path: impl Into<PathBuf>, file: &File) -> Result<Self, BinaryError> {
        let path = path.into();
        let read = |source| BinaryError::Read { path: path.clone(), source };
        let metadata = file.metadata().map_err(read)?;
        if metadata.len() == 0 {
            return Err(BinaryError::NotElf { path });
        }
        let map = FileMap::map(file).map_err(read)?;
        let object = Self::from_map(path, map, metadata.mode())?;
        Ok(Self { version: Some(FileVersion::of(&metadata)), ..object })
    }

    /// The same of an object's whole image, as a process has it in memory: the kernel's vDSO has no file.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn of_image(path: impl Into<PathBuf>, image: Vec<u8>) -> Result<Self, BinaryError> {
        Self::from_map(path.into(), FileMap::Owned(image), 0)
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
            segments: program_headers.iter().filter_map(|ph| load_segment(ph, map.len() as u64)).collect(),
            path: path.clone(),
            identity,
            mode,
            version: None,
            interpreter: None,
            build_id: None,
            eh_frame_header: None,
            dynamic: None,
            symbols: OnceLock::new(),
            debug_symbols: OnceLock::new(),
            map,
        };
        // Sets of addresses in code have a bit for each.
        let code = object.text_range();
        if code.end - code.start > LEAST_SPAN + MOST_SPAN * object.map.len() as u64 {
            return Err(damaged("code lies further apart than the file is long"));
        }
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

    /// The version of the file that was opened; `None` for an image.
    pub(crate) fn version(&self) -> Option<FileVersion> {
        self.version
    }

    /// The name of what is kept for this file, without suffix: its build-id, and what tells files of one build-id apart;
    /// else its path. The agent makes the same.
    pub fn kept_name(&self) -> String {
        match (self.build_id(), self.version) {
            (Some(id), Some(of)) => {
                let (seconds, nanoseconds) = of.changed;
                let words = [of.inode, of.size, seconds.cast_unsigned(), nanoseconds.cast_unsigned()];
                let most = id.len().min(2 * LONGEST_BUILD_ID);
                format!("{}-{:016x}", &id[..most], transect_event_abi::plan::file_stamp(words))
            }
            _ => format!("path-{:016x}", fnv1a(self.path.as_os_str().as_bytes())),
        }
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

    /// True for a dynamic loader: a library that needs no other and is a command, too.
    pub fn is_loader(&self) -> bool {
        let name = self.soname().unwrap_or("");
        self.interpreter.is_none()
            && (name.starts_with("ld-linux") || name.starts_with("ld-musl"))
            && self.needed().is_empty()
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

    /// True if the object defines a dynamic symbol of this name.
    pub fn defines(&self, name: &str) -> bool {
        self.dynamic.as_ref().is_some_and(|dynamic| dynamic.defines(self, name))
    }

    /// Linkage slots that hold functions, in order of their relocations (see [`LinkageSlot`]).
    pub fn linkage_slots(&self) -> Vec<LinkageSlot> {
        linkage::function_slots(self)
    }

    /// The symbol that covers `vaddr`: from the object's own tables, else from its separate debug file or compressed
    /// mini symbol table. Of several names for one address, the public one.
    pub fn symbol_at(&self, vaddr: u64) -> Option<Symbol<'_>> {
        let own = self.symbols.get_or_init(|| SymbolTable::of_object(self));
        own.covering(&self.map, vaddr).or_else(|| {
            if own.complete {
                return None;
            }
            self.debug_symbols.get_or_init(|| DebugSymbols::of(self)).as_ref()?.covering(vaddr)
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
            !s.executable
                && file_offset >= s.file_offset & !0xfff
                && file_offset < s.file_offset.saturating_add(s.memory_size)
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
        let vaddr = (segment.vaddr & PAGE) + ((file_offset & PAGE) - (segment.file_offset & PAGE));
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

/// Bytes of a build-id that agents know.
const LONGEST_BUILD_ID: usize = 32;

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Bytes from an object's first code to its last: so many in any case, and so many more for each byte of the file.
const LEAST_SPAN: u64 = 64 << 20;
const MOST_SPAN: u64 = 4;

/// Where addresses of programs end.
const USER_END: u64 = 1 << 47;

/// How much of `size` bytes at an address is where programs can be: a damaged table promises more.
pub(crate) fn within_memory(address: u64, size: u64) -> u64 {
    size.min(USER_END.saturating_sub(address))
}

/// What is beyond the file, or where no program can be, is cut off: sums of what is left don't overflow.
fn load_segment(ph: &ProgramHeader64<LE>, file_size: u64) -> Option<Segment> {
    let (vaddr, file_offset) = (ph.p_vaddr.get(LE), ph.p_offset.get(LE));
    let room = USER_END.checked_sub(vaddr)?;
    let held = file_size.saturating_sub(file_offset);
    (ph.p_type.get(LE) == elf::PT_LOAD && room > 0).then(|| Segment {
        vaddr,
        file_offset: file_offset.min(file_size),
        file_size: ph.p_filesz.get(LE).min(held).min(room),
        memory_size: ph.p_memsz.get(LE).min(room),
        executable: ph.p_flags.get(LE).contains(elf::PF_X),
    })
}
