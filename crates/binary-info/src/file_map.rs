use std::fs::File;
use std::io;
use std::ops::Deref;

/// The bytes of a file: mapped, or unpacked into memory.
#[derive(Debug)]
pub(crate) enum FileMap {
    /// A private read-only mapping.
    Mapped(memmap2::Mmap),
    /// Bytes that no file holds as they are (an unpacked section).
    Owned(Vec<u8>),
}

impl FileMap {
    /// Maps `file` read-only; pages are read as they are touched.
    #[allow(unsafe_code)]
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private and read-only, so nothing in this process writes to it; that nobody truncates
        // the file meanwhile is the caller's documented duty, as with every mapped object of the running program.
        unsafe { memmap2::Mmap::map(file) }.map(Self::Mapped)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}
