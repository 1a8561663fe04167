//! Files that were mapped by any process, kept open so that their names can be read when the processes are gone.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{BufReader, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use transect_attach::Memory;
use transect_binary_info::{LastLink, Object, open_plain};
use transect_bpf_collect::living_task;

use super::jit_dump;
use super::place::FileId;

/// Files that are kept open: a limit that leaves the recorder descriptors for the rest.
const MAX_OPEN: usize = 384;

/// Code that the kernel gives to every process, without a file.
const VDSO: &str = "[vdso]";
/// It has a few pages.
const MOST_VDSO: u64 = 1 << 20;

/// Whether what is mapped under a path is code that can be named.
pub fn has_names(path: &str, inode: u64) -> bool {
    inode != 0 || path == VDSO
}

/// What tells files apart: two containers may have different files at one path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    path: String,
    device: u64,
    inode: u64,
}

/// One file.
#[derive(Debug, Clone)]
pub struct MappedFile {
    /// Path as the process sees it.
    pub path: String,
    device: u64,
    inode: u64,
    held: Option<Arc<File>>,
    /// The vDSO's bytes.
    image: Option<Arc<[u8]>>,
}

/// Data of a file, as it lies beside its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRange {
    /// What has to be added to the address of the code's mapping.
    pub distance: u64,
    /// Its bytes, with those that begin as zero.
    pub size: u64,
    /// Where it begins in the file.
    pub offset: u64,
}

impl MappedFile {
    /// A file of which nothing but the path is known.
    #[cfg(test)]
    pub fn named(path: &str) -> Self {
        Self { path: path.to_owned(), device: 0, inode: 0, held: None, image: None }
    }

    /// True if it begins as ELF files do.
    pub fn is_elf(&self) -> bool {
        let mut begin = [0; 4];
        self.held.as_ref().is_some_and(|file| file.read_exact_at(&mut begin, 0).is_ok()) && begin == *b"\x7fELF"
    }

    /// What tells it from others.
    pub fn key(&self) -> FileKey {
        FileKey { path: self.path.clone(), device: self.device, inode: self.inode }
    }

    /// The ELF file. By its path where that still leads to it, since debug files are looked for beside it.
    pub fn object(&self) -> Option<Object> {
        if let Some(image) = &self.image {
            return Object::of_image(&self.path, image.to_vec()).ok();
        }
        let held = self.held.as_ref();
        let same = |path: &str| {
            let found = std::fs::metadata(path).ok()?;
            let (device, inode) = match held.map(|held| held.metadata()) {
                // File systems in layers number files in maps otherwise than in stat.
                Some(Ok(held)) => (held.dev(), held.ino()),
                _ => (self.device, self.inode),
            };
            (found.ino() == inode && (held.is_none() || found.dev() == device)).then_some(())
        };
        if same(&self.path).is_some() {
            return Object::open(&self.path).ok();
        }
        Object::open(PathBuf::from(format!("/proc/self/fd/{}", held?.as_raw_fd()))).ok()
    }
}

/// Opens a file that a process has mapped.
fn open(tgid: i32, path: &str, inode: u64, range: Option<(u64, u64)>) -> Option<File> {
    let same = |place: String| {
        // Looked at before it is opened: opening a device does something.
        let is_it = |found: &Metadata| found.is_file() && found.ino() == inode;
        std::fs::metadata(&place).ok().filter(is_it)?;
        open_plain(place, LastLink::Follow).ok().filter(|file| file.metadata().is_ok_and(|found| is_it(&found)))
    };
    let task = living_task(tgid);
    // Through the process' own root: it may be in a container.
    same(format!("/proc/{task}/root{path}"))
        .or_else(|| same(path.to_owned()))
        .or_else(|| range.and_then(|(start, end)| same(format!("/proc/{task}/map_files/{start:x}-{end:x}"))))
        // Without the privilege for that at least the program itself can be had.
        .or_else(|| same(format!("/proc/{task}/exe")))
}

/// Reads the vDSO that a process has mapped there.
fn read_vdso(tgid: i32, (start, end): (u64, u64)) -> Option<Arc<[u8]>> {
    let mut image = vec![0; end.checked_sub(start).filter(|size| *size <= MOST_VDSO)? as usize];
    Memory::open(living_task(tgid)).ok()?.read(start, &mut image).ok()?;
    Some(image.into())
}

/// All of them by number.
#[derive(Debug, Clone, Default)]
pub struct MappedFiles {
    numbers: HashMap<FileKey, FileId>,
    files: Vec<MappedFile>,
    open: usize,
    /// By file and the offset in it from which its code is mapped.
    data: HashMap<(FileId, u64), Arc<[DataRange]>>,
}

impl MappedFiles {
    /// Number of the file that process `tgid` has mapped from `path`.
    pub fn number(&mut self, tgid: i32, path: &str, device: u64, inode: u64) -> FileId {
        self.number_mapped(tgid, path, device, inode, None)
    }

    /// The same for a file that may have another at its path by now, or none: it can be opened through the mapping, whose
    /// `range` is this.
    pub fn number_mapped(
        &mut self,
        tgid: i32,
        path: &str,
        device: u64,
        inode: u64,
        range: Option<(u64, u64)>,
    ) -> FileId {
        let key = FileKey { path: path.to_owned(), device, inode };
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let held = (self.open < MAX_OPEN && path.starts_with('/')).then(|| open(tgid, path, inode, range)).flatten();
        let held = held.map(Arc::new);
        self.open += usize::from(held.is_some());
        let number = self.files.len() as FileId;
        let image = range.filter(|_| path == VDSO).and_then(|range| read_vdso(tgid, range));
        self.files.push(MappedFile { path: path.to_owned(), device, inode, held, image });
        self.numbers.insert(key, number);
        number
    }

    /// Copies of the files from a number on: for who names places while more files come.
    pub fn since(&self, first: usize) -> Vec<MappedFile> {
        self.files[first.min(self.files.len())..].to_vec()
    }

    /// Adds files by the next numbers.
    pub fn append(&mut self, files: Vec<MappedFile>) {
        self.files.extend(files);
    }

    /// Where a file's data lies, if its code is mapped from `code_offset` on.
    pub fn data_beside(&mut self, file: FileId, code_offset: u64) -> Arc<[DataRange]> {
        let files = &self.files;
        let found = self.data.entry((file, code_offset)).or_insert_with(|| {
            let object = files[file as usize].object();
            let bias = object.as_ref().and_then(|object| object.load_bias(0, code_offset)).unwrap_or(0);
            let ranges = object.iter().flat_map(Object::data_segments);
            let beside =
                |(vaddr, size, offset): (u64, u64, u64)| DataRange { distance: bias.wrapping_add(vaddr), size, offset };
            ranges.map(beside).collect()
        });
        Arc::clone(found)
    }

    /// What the just-in-time compiler of a process, which sees itself as `pid`, wrote for profilers.
    pub fn jit_dump(&self, pid: i32) -> Option<impl Read> {
        let file = self.files.iter().rev().find(|file| jit_dump::is_dump(&file.path, pid))?;
        let held = file.held.as_ref()?.try_clone().ok()?;
        // The copy shares its place in the file with the original.
        let mut reader = BufReader::with_capacity(1 << 16, held);
        reader.rewind().ok()?;
        Some(reader)
    }

    /// A file by its number.
    pub fn get(&self, number: FileId) -> &MappedFile {
        &self.files[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use transect_attach::Mapping;

    use super::*;

    /// It has no file: its names and tables are read from the memory of a process.
    #[test]
    fn the_vdso_has_names_and_tables() {
        let own = std::process::id().cast_signed();
        let mappings = Mapping::all(own).unwrap();
        let Some(vdso) = mappings.iter().find(|mapping| mapping.path.as_os_str() == VDSO) else { return };
        assert!(has_names(VDSO, vdso.inode));
        let mut files = MappedFiles::default();
        files.number_mapped(own, VDSO, 0, 0, Some((vdso.start, vdso.end)));
        let object = files.since(0)[0].object().unwrap();
        let symbols = (0..object.dynamic_symbol_count()).filter_map(|index| object.dynamic_symbol(index));
        let clock = symbols.into_iter().find(|symbol| symbol.name == "__vdso_clock_gettime").unwrap();
        assert!(object.symbol_at(clock.address).is_some_and(|symbol| symbol.name.ends_with("clock_gettime")));
        assert!(object.frame_rule(clock.address).is_some());
    }
}
