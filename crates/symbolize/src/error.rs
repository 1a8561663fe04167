use std::path::PathBuf;

use transect_binary_info::BinaryError;

/// Why the places that were given can't be searched.
#[derive(Debug, thiserror::Error)]
pub enum SymbolizeError {
    /// A file can't be read, or is no ELF file.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// A file has no build-id, so nobody knows whether it is what was recorded.
    #[error(
        "{path}: it has no build-id, so it can't be told whether it is what was recorded; give the file that was recorded, or a \
         debug file of its build",
        path = .path.display()
    )]
    NoBuildId {
        /// The file.
        path: PathBuf,
    },
    /// A file is of another build than all components.
    #[error(
        "{path}: its build-id {found} is that of no component of the profile{nearest}; give the file that was recorded, or a debug \
         file of its build",
        path = .path.display()
    )]
    OtherBuild {
        /// The file.
        path: PathBuf,
        /// Its build-id.
        found: String,
        /// In words: the component of its name, and that one's build-id; empty if there is none.
        nearest: String,
    },
    /// A folder can't be read.
    #[error("{path}: {source}; give a folder of debug files, such as /usr/lib/debug", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}
