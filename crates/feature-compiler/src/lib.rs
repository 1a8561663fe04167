//! `transect-cc` and `transect-c++`, and `transect feature cc|c++`: clang with the feature-region plugin, in place of the
//! compiler of a program's own build (`./configure CC=transect-cc`, `make CC=transect-cc`, CMake).
//!
//! A compile makes an ordinary object that also carries the code as the front end made it; at the link lld puts that code
//! together to one module, in which the plugin finds and marks the regions before anything is optimised.

mod arguments;
mod command;
mod confirmation;
mod error;
mod installation;
mod settings;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub use error::CompilerError;
pub use installation::Installation;
pub use settings::{LlvmVersion, Scope, Settings, Sites};

/// Which driver of clang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `clang`.
    C,
    /// `clang++`: links the C++ library.
    Cxx,
}

/// The compiler command for a build's arguments, found beside the running executable and set up by the environment
/// ([`Settings`]).
///
/// # Errors
///
/// Something that the command needs is missing or set wrongly; the text says what to install or change.
pub fn compiler_command(language: Language, arguments: &[OsString]) -> Result<Command, CompilerError> {
    let settings = Settings::from_environment()?;
    let installation = Installation::find(settings.llvm)?;
    command::compose(language, arguments, &settings, &installation)
}

/// Becomes the compiler; comes back only if that fails.
pub fn become_compiler(language: Language, arguments: &[OsString]) -> CompilerError {
    match compiler_command(language, arguments) {
        Ok(mut command) => {
            let source = command.exec();
            CompilerError::NotStarted { compiler: command.get_program().into(), source }
        }
        Err(problem) => problem,
    }
}
