use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a profile could not be written or read. Every message names the path and says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is nothing at the path.
    #[error("{path}: no profile here; record one with `transect record -o {path} -- COMMAND`", path = .path.display())]
    NotFound {
        /// The profile folder asked for.
        path: PathBuf,
    },
    /// Something is there, but Transect did not write it.
    #[error("{path}: not a Transect profile ({why}); give the folder that `transect record -o` wrote", path = .path.display())]
    Foreign {
        /// The path asked for.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Writing here would destroy files that Transect did not write.
    #[error("{path}: will not overwrite ({why}); choose another folder with `-o`, or remove this one yourself", path = .path.display())]
    WouldOverwrite {
        /// The output path.
        path: PathBuf,
        /// What is there.
        why: String,
    },
    /// A profile by its mark, but damaged.
    #[error("{path}: the profile is damaged ({why}); restore it from a copy, or record again", path = .path.display())]
    Corrupt {
        /// The damaged file, or the folder if a file is missing.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Written by a version with another table layout.
    #[error("{path}: schema version {found}, this Transect reads 1 to {known}; read it with a newer Transect", path = .path.display())]
    UnknownSchema {
        /// The profile folder.
        path: PathBuf,
        /// Version that the profile says it has.
        found: i64,
        /// Newest version known here.
        known: u32,
    },
    /// Another profile has come to the place of the one that was to be revised.
    #[error("{path}: another profile was written there meanwhile, and it was left as it is; run the command again", path = .path.display())]
    Replaced {
        /// The profile folder.
        path: PathBuf,
    },
    /// There is no folder that it could be written into.
    #[error("{path}: there is no folder {parent} to write into; make it first, or correct the path", path = .path.display(), parent = .parent.display())]
    NoParent {
        /// The output path.
        path: PathBuf,
        /// The folder around it.
        parent: PathBuf,
    },
    /// No space, or quota reached.
    #[error("{path}: no space left for the profile; free some, or choose a folder on another disk with `-o`", path = .path.display())]
    DiskFull {
        /// The file or folder being written.
        path: PathBuf,
    },
    /// The limit of file sizes is reached.
    #[error("cannot write {path}: the limit of file sizes is too low; raise it: ulimit -f unlimited", path = .path.display())]
    FileLimit {
        /// The file.
        path: PathBuf,
    },
    /// The file system is mounted read-only.
    #[error("{path}: on a read-only file system; choose another folder with `-o`", path = .path.display())]
    ReadOnly {
        /// The file or folder being written.
        path: PathBuf,
    },
    /// The user may not read or write there.
    #[error("{path}: permission denied; record into a folder of your own with `-o`; only who recorded a profile may read it", path = .path.display())]
    PermissionDenied {
        /// The file or folder.
        path: PathBuf,
    },
    /// The profile to write contradicts itself; a fault of the caller.
    #[error("{path}: the recording is inconsistent ({why}); nothing was written, please report this as a bug", path = .path.display())]
    Inconsistent {
        /// The output path.
        path: PathBuf,
        /// Which table and row.
        why: String,
    },
    /// Any other failure of the operating system.
    #[error("{path}: {source}; check the path and try again", path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// Sorts an error of the operating system into the cases a user can act on.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::DiskFull { path },
            Some(Errno::FBIG) => Self::FileLimit { path },
            Some(Errno::ROFS) => Self::ReadOnly { path },
            Some(Errno::ACCESS | Errno::PERM) => Self::PermissionDenied { path },
            _ => Self::Io { path, source },
        }
    }

    pub(crate) fn corrupt(path: &Path, why: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), why: why.into() }
    }
}
