use std::path::PathBuf;

use transect_binary_info::BinaryError;

/// Why an object's feature regions can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The object itself can't be read.
    #[error(transparent)]
    Object(#[from] BinaryError),
    /// It has no feature regions.
    #[error(
        "{path} has no feature regions: compile and link it with transect-cc or transect-c++ (./configure CC=transect-cc; \
         make CC=transect-cc, and LD=transect-cc if its Makefile has one) and a feature model in TRANSECT_FEATURE_MODEL; if it was, no \
         option of the model decides anything in it (TRANSECT_FEATURE_REPORT=1 at the link says what was looked for)",
        path = path.display()
    )]
    NotMarked {
        /// The file.
        path: PathBuf,
    },
    /// It doesn't note which features' labels reach its decisions.
    #[error("{path} doesn't confirm its regions by running: link it with TRANSECT_SITES=confirm transect-cc", path = path.display())]
    NotConfirming {
        /// The file.
        path: PathBuf,
    },
    /// Not linked yet: its addresses are not final.
    #[error("{path} is an object file: link it with transect-cc, and name the program", path = path.display())]
    NotLinked {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of the compiler plugin.
    #[error(
        "{path}: its feature regions have version {found}, this transect reads {known}: build it again with the \
         transect-cc beside this transect",
        path = path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        found: String,
        /// Version that is read.
        known: u32,
    },
    /// A section is not what the format says.
    #[error(
        "{path}: section {section} is damaged at byte {offset}: {what}; build the program again",
        path = path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which section.
        section: &'static str,
        /// Where in it.
        offset: usize,
        /// What is wrong.
        what: String,
    },
}
