use std::path::PathBuf;

use thiserror::Error;

/// Why there is no compiler command.
#[derive(Debug, Error)]
pub enum CompilerError {
    /// A tool of LLVM is not installed.
    #[error("{tool} is not installed: install the package {package} (Debian: apt install {package})")]
    MissingTool {
        /// Name of the executable.
        tool: String,
        /// Debian package that has it.
        package: String,
    },
    /// Part of Transect is not where it belongs.
    #[error("{part} is not beside {} nor in its ../lib/transect: run `make build` (or `make install`)", .executable.display())]
    MissingPart {
        /// File name.
        part: String,
        /// The running executable.
        executable: PathBuf,
    },
    /// The executable's own place is unknown.
    #[error("can't tell where this executable lies: {0}")]
    NoExecutable(std::io::Error),
    /// The compiler is there but can't be run.
    #[error("can't run {}: {source}", .compiler.display())]
    NotStarted {
        /// Its path.
        compiler: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The model's file can't be opened.
    #[error("TRANSECT_FEATURE_MODEL names {}: {source}{}", .path.display(), if .path.is_absolute() { "" } else {
        " (give an absolute path: builds change their directory)" })]
    Model {
        /// As set.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The labels of features can't be carried in such a build.
    #[error("TRANSECT_SITES=confirm: {0}")]
    Confirm(&'static str),
    /// A variable of the environment has a value that means nothing.
    #[error("{variable} is '{value}': choose {choices}")]
    Setting {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        choices: &'static str,
    },
}
