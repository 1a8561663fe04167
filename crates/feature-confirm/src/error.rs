use std::path::PathBuf;

use transect_feature_region::RegionError;

/// Why runs confirm nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfirmError {
    /// No program noted anything.
    #[error(
        "the command ended with status {status}, and no program ran in it that TRANSECT_SITES=confirm transect-cc has linked \
         and that has feature regions"
    )]
    NothingRan {
        /// The command's status, as a shell gives it.
        status: u8,
    },
    /// A file can't be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file has not the content that it should have.
    #[error("{}: {what}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file is of another version.
    #[error("{} has version {found}, this transect reads {known}: confirm the program again", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that is read.
        known: u32,
    },
    /// The program that ran is not there any more.
    #[error("{} was built anew or replaced while it ran", .path.display())]
    Replaced {
        /// The program.
        path: PathBuf,
    },
    /// Its tables can't be read.
    #[error(transparent)]
    Regions(#[from] RegionError),
}
