//! `transect man`.

use std::fs;

use clap::CommandFactory;

use crate::arguments::{Cli, ManArguments};
use crate::failure::Failure;

/// Writes `transect.1` and one page for each subcommand.
pub fn manual(arguments: &ManArguments) -> Result<u8, Failure> {
    fs::create_dir_all(&arguments.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &arguments.folder))
        .map_err(|source| Failure::Write { place: arguments.folder.display().to_string(), source })?;
    Ok(0)
}
