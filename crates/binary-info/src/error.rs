use std::path::PathBuf;

/// Why an object could not be read, or its plan not be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryError {
    /// The file could not be opened, read or mapped.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file does not start as an ELF object does.
    #[error("{path} is not an ELF object", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// An ELF object, but not of this machine.
    #[error("{path} is {found}; Transect reads x86-64 objects (ELF64, little-endian)", path = path.display())]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// Class and machine in words.
        found: String,
    },
    /// The file's tables contradict each other or its length.
    #[error("{path} is a damaged ELF object: {what}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which table.
        what: String,
    },
    /// The cache of linkage plans can't be written.
    #[error(
        "cannot write the linkage plan {path}: {source}; set XDG_CACHE_HOME to a folder you can write",
        path = path.display()
    )]
    WriteCache {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` says where the cache belongs.
    #[error("no folder for caches: set XDG_CACHE_HOME, or HOME to a folder that exists")]
    NoCacheFolder,
    /// The bytes are not a linkage plan of this version.
    #[error("not a linkage plan of this version: {0}")]
    NotAPlan(&'static str),
}
