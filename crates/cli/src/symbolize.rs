//! `transect symbolize`: completes the names of a profile.

use std::fmt::Write;

use transect_binary_info::Fetched;
use transect_profile_model::Profile;
use transect_profile_store::Revision;
use transect_report::terminal::escape;
use transect_symbolize::{Completed, Completion, Missing, SymbolPlaces, complete};

use crate::arguments::SymbolizeArguments;
use crate::failure::Failure;
use crate::newest;
use crate::output::Stream;

/// Completes the profile in the folder and prints a line for each component of which addresses were kept.
///
/// # Errors
/// If the profile can't be read or written, or what was given is not of its builds; it is left as it was then.
pub fn symbolize(arguments: &SymbolizeArguments) -> Result<u8, Failure> {
    let folder = newest::profile(arguments.folder.as_deref())?;
    let mut revision = Revision::read(&folder).map_err(Failure::Read)?;
    let profile = &mut revision.profile;
    let places = SymbolPlaces::new(arguments.debug_dir.clone(), &arguments.binary, &profile.components)?;
    let completion = complete(profile, &places);
    let text = described(profile, &completion);
    if completion.is_more() {
        revision.replace().map_err(Failure::Keep)?;
    }
    Stream::Stdout.write(|out| out.write_all(text.as_bytes()).map_err(stdout_failure))?;
    Ok(0)
}

fn stdout_failure(source: std::io::Error) -> Failure {
    Failure::Write { place: "standard output".to_owned(), source }
}

fn described(profile: &Profile, completion: &Completion) -> String {
    if completion.components.is_empty() {
        return "nothing to complete: the profile keeps no address without a function or line\n".to_owned();
    }
    let mut text = String::new();
    for completed in &completion.components {
        let path = &profile.components[completed.component as usize].path;
        let _ = writeln!(text, "{}", escape(&format!("{path}: {}", line(path, completed))));
    }
    text
}

fn line(path: &str, completed: &Completed) -> String {
    let Completed { addresses, before, after, from, missing, .. } = completed;
    let es = if *addresses == 1 { "" } else { "es" };
    let mut line = format!(
        "{addresses} address{es}; with function {} before, {} now; with line {} before, {} now",
        before.functions, after.functions, before.lines, after.lines
    );
    if !from.is_empty() {
        let from: Vec<String> = from.iter().map(|path| path.display().to_string()).collect();
        let _ = write!(line, "; from {}", from.join(", "));
    }
    if let Some(missing) = missing {
        let _ = write!(line, "; {}", why(path, missing));
    }
    line
}

fn why(path: &str, missing: &Missing) -> String {
    match missing {
        Missing::NoBuildId => {
            "it was recorded without a build-id, so no file can be told to be the one that ran: build it with -Wl,--build-id and \
             record again"
                .to_owned()
        }
        Missing::NotDescribed => "the others were compiled without debug information (-g)".to_owned(),
        Missing::NoFile { build_id, other_build, fetched } => {
            let other = match other_build {
                Some(_) => format!(" ({path} is another build)"),
                None => String::new(),
            };
            let servers = match fetched {
                Fetched::NoServer => "set DEBUGINFOD_URLS",
                Fetched::NoClient => "install debuginfod-find for the servers in DEBUGINFOD_URLS",
                Fetched::NotFound | Fetched::Kept => "ask another server than those in DEBUGINFOD_URLS, which do not have it",
            };
            format!(
                "no debug information of build-id {build_id}{other}: install its debug package, {servers}, or give the file with \
                 --binary or --debug-dir"
            )
        }
    }
}
