use std::path::PathBuf;

/// Why the static components that were asked for can't be made.
#[derive(Debug, thiserror::Error)]
pub enum StaticError {
    /// A file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file of static components has a mistake.
    #[error("{path}: {problem}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A pattern names nothing in the object.
    #[error("static component {component:?}: {key} = {pattern:?} names nothing in {object}{hint}")]
    NoMatch {
        /// The component.
        component: String,
        /// Which kind of pattern.
        key: &'static str,
        /// The pattern.
        pattern: String,
        /// The ELF file.
        object: String,
        /// What would have matched, or what is missing; begins with punctuation.
        hint: String,
    },
    /// The ELF file that is to hold the component is not there.
    #[error("static component {component:?}: {within} was not found ({looked}); give its path")]
    NoObject {
        /// The component.
        component: String,
        /// What the file says.
        within: String,
        /// Where it was looked for.
        looked: String,
    },
    /// An ELF file can't be read.
    #[error(transparent)]
    Binary(#[from] transect_binary_info::BinaryError),
    /// Plans can't be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
