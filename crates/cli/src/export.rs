//! `transect export`.

use transect_profile_export::{Format, Subject};

use crate::arguments::ExportArguments;
use crate::failure::Failure;
use crate::output::{self, Stream};
use crate::progress::Progress;
use crate::{dependence, newest};

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
    let folder = newest::profile(arguments.folder.as_deref())?;
    let _progress = Progress::start(format!("converting {}", folder.display()));
    let profile = dependence::read(&folder)?;
    let subject = match arguments.view.as_deref() {
        Some("criticality") => Subject::Criticality,
        Some("walk") => Subject::Walk,
        Some("features") => Subject::Features,
        Some(_) => Subject::Flows,
        None => Subject::of(&profile),
    };
    let write = |out: &mut dyn std::io::Write| transect_profile_export::export_subject(&profile, format, subject, out);
    match &arguments.output {
        Some(path) => output::write_file(path, write)?,
        None => Stream::Stdout.write(write)?,
    }
    Ok(0)
}
