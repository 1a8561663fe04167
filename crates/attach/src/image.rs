//! Loading the probe agent: a freestanding shared object without dependencies, thread-local data or symbols to be
//! resolved.
//!
//! Its segments become anonymous private memory of their final protection, and their contents are written from outside,
//! so no page is ever writable and executable, and the process needs no access to the file (another mount namespace,
//! chroot, no descriptors left).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, Rela};
use object::{LittleEndian, Object, ObjectSymbol};

use crate::error::AttachError;
use crate::memory::Memory;
use crate::process::Status;
use crate::stop::Stop;
use crate::target::Target;

const PAGE: u64 = 4096;

/// The agent's file, parsed.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    /// Bytes of address space.
    size: u64,
    segments: Vec<Segment>,
    /// Places that hold an address in the image: (virtual address, virtual address it points to).
    relocations: Vec<(u64, u64)>,
    symbols: HashMap<String, u64>,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    protection: i32,
    /// Virtual address of `bytes`.
    at: u64,
    bytes: Vec<u8>,
}

/// The image in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedImage {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes of address space.
    pub size: u64,
}

impl LoadedImage {
    /// Takes it out again, which no thread may be in.
    pub fn unmap(&self, target: &Target) {
        // Of a process that can't be held any more nothing can be taken.
        let _ = target.in_short_stop(|stop| stop.unmap(self.address, self.size));
    }
}

impl Image {
    /// An image with nothing in it.
    #[cfg(feature = "fuzzing")]
    pub fn empty() -> Image {
        let (path, segments, relocations, symbols) = (PathBuf::new(), Vec::new(), Vec::new(), HashMap::new());
        Image { path, size: 0, segments, relocations, symbols }
    }

    /// Reads the agent's file.
    ///
    /// # Errors
    /// [`AttachError::Image`] if it can't be read or is no freestanding x86-64 object.
    pub fn read(path: &Path) -> Result<Image, AttachError> {
        let problem = |problem: String| AttachError::Image { path: path.to_owned(), problem };
        let data = fs::read(path).map_err(|e| problem(e.to_string()))?;
        let fail = |e: object::Error| problem(format!("not a usable ELF file: {e}"));
        let file = ElfFile64::<LittleEndian>::parse(&*data).map_err(fail)?;
        let header: &FileHeader64<LittleEndian> = file.elf_header();
        let endian = LittleEndian;
        if header.e_machine(endian) != elf::EM_X86_64 || header.e_type(endian) != elf::ET_DYN {
            return Err(problem("not an x86-64 shared object".to_owned()));
        }
        let mut image = Image {
            path: path.to_owned(),
            size: 0,
            segments: Vec::new(),
            relocations: Vec::new(),
            symbols: HashMap::new(),
        };
        for header in file.elf_program_headers() {
            match header.p_type(endian) {
                elf::PT_LOAD => {
                    image.add_segment(header, &data).map_err(|()| problem("a segment is cut off".to_owned()))?
                }
                elf::PT_TLS => return Err(problem("it has thread-local data".to_owned())),
                _ => {}
            }
        }
        image.read_dynamic(&file, &data).map_err(problem)?;
        for symbol in file.dynamic_symbols().filter(|s| s.is_definition() && s.address() != 0) {
            image.symbols.insert(symbol.name().map_err(fail)?.to_owned(), symbol.address());
        }
        Ok(image)
    }

    fn add_segment(&mut self, header: &elf::ProgramHeader64<LittleEndian>, data: &[u8]) -> Result<(), ()> {
        let endian = LittleEndian;
        let flags = header.p_flags(endian);
        let protection = [(elf::PF_R, libc::PROT_READ), (elf::PF_W, libc::PROT_WRITE), (elf::PF_X, libc::PROT_EXEC)]
            .iter()
            .filter(|(flag, _)| flags.0 & flag.0 != 0)
            .fold(0, |all, (_, bit)| all | bit);
        let at = header.p_vaddr(endian);
        let end = (at + header.p_memsz(endian)).next_multiple_of(PAGE);
        let bytes = header.data(endian, data).map_err(|_| ())?.to_vec();
        self.segments.push(Segment { start: at & !(PAGE - 1), end, protection, at, bytes });
        self.size = self.size.max(end);
        Ok(())
    }

    fn read_dynamic(&mut self, file: &ElfFile64<'_, LittleEndian>, data: &[u8]) -> Result<(), String> {
        let endian = LittleEndian;
        let mut tables = [0u64; 4];
        for header in file.elf_program_headers() {
            let Ok(Some(entries)) = header.dynamic(endian, data) else { continue };
            for entry in entries {
                let value = entry.val(endian);
                match entry.tag(endian) {
                    elf::DT_RELA => tables[0] = value,
                    elf::DT_RELASZ => tables[1] = value,
                    elf::DT_RELR => tables[2] = value,
                    elf::DT_RELRSZ => tables[3] = value,
                    elf::DT_NEEDED => return Err("it needs other libraries".to_owned()),
                    elf::DT_JMPREL => return Err("it calls functions of other libraries".to_owned()),
                    _ => {}
                }
            }
        }
        let rela = self.bytes(tables[0], tables[1]).ok_or("relocations are cut off")?;
        let entries =
            object::slice_from_all_bytes::<elf::Rela64<LittleEndian>>(rela).map_err(|()| "relocations are cut off")?;
        let mut relocations = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.r_type(endian, false) {
                elf::R_X86_64_RELATIVE => relocations.push((entry.r_offset(endian), entry.r_addend(endian) as u64)),
                elf::R_X86_64_NONE => {}
                kind => return Err(format!("a relocation of type {kind} can't be applied")),
            }
        }
        relocations.extend(self.compact_relocations(tables[2], tables[3]).ok_or("relocations are cut off")?);
        self.relocations = relocations;
        Ok(())
    }

    /// `DT_RELR`: an even word is an address, an odd one a bitmap of the 63 words behind the last.
    fn compact_relocations(&self, table: u64, size: u64) -> Option<Vec<(u64, u64)>> {
        let mut relocations = Vec::new();
        let mut next = 0;
        for word in self.bytes(table, size)?.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().ok()?);
            let places: Vec<u64> = if word & 1 == 0 {
                next = word + 8;
                vec![word]
            } else {
                let base = next;
                next += 63 * 8;
                (0..63).filter(|bit| word >> (bit + 1) & 1 == 1).map(|bit| base + bit * 8).collect()
            };
            for place in places {
                let addend = u64::from_le_bytes(self.bytes(place, 8)?.try_into().ok()?);
                relocations.push((place, addend));
            }
        }
        Some(relocations)
    }

    fn bytes(&self, address: u64, size: u64) -> Option<&[u8]> {
        if size == 0 {
            return Some(&[]);
        }
        self.segments.iter().find_map(|segment| {
            let at = usize::try_from(address.checked_sub(segment.at)?).ok()?;
            segment.bytes.get(at..at.checked_add(usize::try_from(size).ok()?)?)
        })
    }

    /// Virtual address of an exported symbol.
    ///
    /// # Errors
    /// [`AttachError::Image`] if it is not exported: the file belongs to another version.
    pub fn symbol(&self, name: &str) -> Result<u64, AttachError> {
        self.symbols
            .get(name)
            .copied()
            .ok_or_else(|| AttachError::Image { path: self.path.clone(), problem: format!("it has no symbol {name}") })
    }

    /// Maps memory for it, with a call of a held thread for each segment, two in a stop. Nothing is in it yet:
    /// [`Image::fill`].
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`].
    pub fn map(&self, target: &Target) -> Result<LoadedImage, AttachError> {
        self.map_telling(target, &mut |_| ())
    }

    /// The same; `tell` hears where it is as soon as its addresses are taken.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`].
    pub fn map_telling(&self, target: &Target, tell: &mut dyn FnMut(LoadedImage)) -> Result<LoadedImage, AttachError> {
        let address = target.in_short_stop(|stop| stop.map_anonymous(0, self.size, libc::PROT_NONE))?;
        let loaded = LoadedImage { address, size: self.size };
        tell(loaded);
        let made = self.segments.chunks(2).try_for_each(|pair| {
            target.in_short_stop(|stop| {
                pair.iter().try_for_each(|segment| {
                    let (at, size) = (address + segment.start, segment.end - segment.start);
                    stop.map_anonymous(at, size, segment.protection).map(drop)
                })
            })
        });
        if made.is_err() {
            loaded.unmap(target);
        }
        made.map(|()| loaded)
    }

    /// Writes its contents, relocated.
    ///
    /// # Errors
    /// If the process ends.
    pub fn fill(&self, memory: &Memory, loaded: LoadedImage) -> Result<(), AttachError> {
        for segment in &self.segments {
            memory.write(loaded.address + segment.at, &self.relocated(segment, loaded))?;
        }
        // Relocated words of zero-filled parts are not among the bytes above.
        for &(place, target) in &self.relocations {
            if self.bytes(place, 8).is_none() {
                memory.write(loaded.address + place, &(loaded.address + target).to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// True if this very image stands there: its unwritable segments are compared.
    pub fn is_loaded_at(&self, memory: &Memory, loaded: LoadedImage) -> bool {
        loaded.size == self.size
            && self.segments.iter().filter(|s| s.protection & libc::PROT_EXEC != 0).all(|segment| {
                let mut found = vec![0; segment.bytes.len()];
                memory.read(loaded.address + segment.at, &mut found).is_ok() && found == self.relocated(segment, loaded)
            })
    }

    fn relocated(&self, segment: &Segment, loaded: LoadedImage) -> Vec<u8> {
        let mut bytes = segment.bytes.clone();
        for &(place, target) in &self.relocations {
            let word = place.checked_sub(segment.at).and_then(|at| bytes.get_mut(at as usize..)?.get_mut(..8));
            if let Some(word) = word {
                word.copy_from_slice(&(loaded.address + target).to_le_bytes());
            }
        }
        bytes
    }
}

impl Stop<'_> {
    /// Private memory: anywhere (`address` 0) or at a place that is reserved for it.
    pub(crate) fn map_anonymous(&mut self, address: u64, size: u64, protection: i32) -> Result<u64, AttachError> {
        let fixed = if address == 0 { 0 } else { libc::MAP_FIXED };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
        self.call("mmap", libc::SYS_mmap, [address, size, protection as u64, flags as u64, u64::MAX, 0])
    }

    /// Maps private writable memory of the process' own: zero, taking space only where it is written to, and not in
    /// core files. Gives its address.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`]; `ENOMEM` if the process' address space is limited.
    pub fn map_private(&mut self, size: u64) -> Result<u64, AttachError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let locked = self.locks_memory();
        let address = self.map_anonymous(0, size, if locked { libc::PROT_NONE } else { access })?;
        let opened = self.open_mapping(address, size, locked.then_some(access as u64));
        if opened.is_err() {
            let _ = self.unmap(address, size);
        }
        opened.map(|()| address)
    }

    /// Has the kernel fill private memory with zeros in children that the process forks from now on.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`]; `EINVAL` before Linux 4.14.
    pub fn wipe_in_children(&mut self, address: u64, size: u64) -> Result<(), AttachError> {
        self.call("madvise", libc::SYS_madvise, [address, size, libc::MADV_WIPEONFORK as u64, 0, 0, 0]).map(drop)
    }

    /// Under mlockall(MCL_FUTURE) a new mapping would be filled with memory at once, if it can be accessed.
    pub(crate) fn locks_memory(&self) -> bool {
        Status::read(self.target.task()).is_ok_and(|s| s.locked_kib > 0)
    }

    /// Unlocks a mapping that was made without access, and gives it `access`; nothing to be done if it has been made with
    /// access (`None`). Leaves it out of core files.
    pub(crate) fn open_mapping(&mut self, address: u64, size: u64, access: Option<u64>) -> Result<(), AttachError> {
        if let Some(access) = access {
            self.call("munlock", libc::SYS_munlock, [address, size, 0, 0, 0, 0])?;
            self.call("mprotect", libc::SYS_mprotect, [address, size, access, 0, 0, 0])?;
        }
        // Without consequence if the kernel refuses.
        let _ = self.call("madvise", libc::SYS_madvise, [address, size, libc::MADV_DONTDUMP as u64, 0, 0, 0]);
        Ok(())
    }

    /// Unmaps memory of the process.
    ///
    /// # Errors
    /// [`AttachError::RemoteCall`].
    pub fn unmap(&mut self, address: u64, size: u64) -> Result<(), AttachError> {
        self.call("munmap", libc::SYS_munmap, [address, size, 0, 0, 0, 0]).map(|_| ())
    }
}
