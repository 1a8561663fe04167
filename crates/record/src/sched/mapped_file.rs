//! Files that were mapped by any process, kept open so that their names can be read when the processes are gone.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use transect_binary_info::Object;

use super::place::FileId;

/// Files that are kept open: a limit that leaves the recorder descriptors for the rest.
const MAX_OPEN: usize = 384;

/// What tells files apart: two containers may have different files at one path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    path: String,
    device: u64,
    inode: u64,
}

/// One file.
#[derive(Debug)]
pub struct MappedFile {
    /// Path as the process sees it.
    pub path: String,
    device: u64,
    inode: u64,
    held: Option<File>,
}

impl MappedFile {
    /// The ELF file. By its path where that still leads to it, since debug files are looked for beside it.
    pub fn object(&self) -> Option<Object> {
        let held = self.held.as_ref();
        let same = |path: &str| {
            let found = std::fs::metadata(path).ok()?;
            let (device, inode) = match held.map(File::metadata) {
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

/// All of them by number.
#[derive(Debug, Default)]
pub struct MappedFiles {
    numbers: HashMap<Key, FileId>,
    files: Vec<MappedFile>,
    open: usize,
}

impl MappedFiles {
    /// Number of the file that process `tgid` has mapped from `path`.
    pub fn number(&mut self, tgid: i32, path: &str, device: u64, inode: u64) -> FileId {
        let key = Key { path: path.to_owned(), device, inode };
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        // Through the process' own root: it may be in a container.
        let held = (self.open < MAX_OPEN && path.starts_with('/'))
            .then(|| File::open(format!("/proc/{tgid}/root{path}")).or_else(|_| File::open(path)).ok())
            .flatten()
            .filter(|file| file.metadata().is_ok_and(|found| found.is_file() && found.ino() == inode));
        self.open += usize::from(held.is_some());
        let number = self.files.len() as FileId;
        self.files.push(MappedFile { path: path.to_owned(), device, inode, held });
        self.numbers.insert(key, number);
        number
    }

    /// Copies of the files from a number on: for who names places while more files come.
    pub fn since(&self, first: usize) -> Vec<MappedFile> {
        let copy = |file: &MappedFile| MappedFile {
            path: file.path.clone(),
            held: file.held.as_ref().and_then(|held| held.try_clone().ok()),
            ..*file
        };
        self.files[first.min(self.files.len())..].iter().map(copy).collect()
    }

    /// Adds files by the next numbers.
    pub fn append(&mut self, files: Vec<MappedFile>) {
        self.files.extend(files);
    }

    /// A file by its number.
    pub fn get(&self, number: FileId) -> &MappedFile {
        &self.files[number as usize]
    }
}
