//! `transect completions`.

use clap::CommandFactory;

use crate::arguments::{Cli, CompletionsArguments};
use crate::failure::Failure;
use crate::output::Stream;

/// Prints the completion script.
pub fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "transect", &mut script);
    Stream::Stdout.write(|out| {
        out.write_all(&script).map_err(|source| Failure::Write { place: "standard output".to_owned(), source })
    })?;
    Ok(0)
}
