use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use crate::plain_file::{MOST_COPIED, is_ours};

/// The bytes of a file: mapped, or unpacked into memory.
#[derive(Debug)]
pub(crate) enum FileMap {
    /// A private read-only mapping.
    Mapped(memmap2::Mmap),
    /// Bytes that no file holds as they are (an unpacked section), or that another user may take away.
    Owned(Vec<u8>),
}

impl FileMap {
    /// Maps `file` read-only; pages are read as they are touched. What belongs to another user is read whole.
    #[allow(unsafe_code)]
    pub(crate) fn map(mut file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !is_ours(&metadata) {
            if metadata.len() > MOST_COPIED {
                let why = format!("it is another user's and larger than {} MiB", MOST_COPIED >> 20);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            let mut bytes = Vec::with_capacity(metadata.len() as usize);
            file.by_ref().take(MOST_COPIED).read_to_end(&mut bytes)?;
            return Ok(Self::Owned(bytes));
        }
        // SAFETY: the mapping is private and read-only, so nothing in this process writes to it; that this user and
        // root don't truncate the file meanwhile is the caller's documented duty, and others can't.
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
