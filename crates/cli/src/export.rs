//! `transect export`.

use transect_profile_export::Format;

use crate::arguments::ExportArguments;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::progress::Progress;

/// Reads the profile and writes it in another tool's format.
pub fn export(arguments: &ExportArguments) -> Result<u8, Failure> {
    let format: Format = arguments
        .format
        .parse()
        .map_err(|error: transect_profile_export::UnknownFormat| Failure::Usage(error.to_string()))?;
    if format.is_binary() && arguments.output.is_none() && Stream::Stdout.is_terminal() {
        let extension = format.extension();
        return Err(Failure::Usage(format!(
            "{format} is binary and standard output is a terminal; write it to a file: --output profile.{extension}"
        )));
    }
    let _progress = Progress::start(format!("converting {}", arguments.folder.display()));
    let profile = transect_profile_store::read(&arguments.folder).map_err(Failure::Read)?;
    match &arguments.output {
        Some(path) => output::write_file(path, |out| transect_profile_export::export(&profile, format, out))?,
        None => Stream::Stdout.write(|out| transect_profile_export::export(&profile, format, out))?,
    }
    Ok(0)
}
