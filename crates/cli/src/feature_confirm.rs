//! `transect feature confirm`: runs programs that note which features' labels reach their regions.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use transect_feature_confirm::{ConfirmError, Confirmation, ConfirmedProgram, Counts};
use transect_record::RecordError;

use crate::arguments::ConfirmArguments;
use crate::failure::Failure;
use crate::output::{say, write_file};

/// Says to the programs where their counts are, and which eight labels they follow (`compiler-plugin/confirm/runtime.c`).
const FOLDER: &str = "TRANSECT_CONFIRM";
const GROUP: &str = "TRANSECT_CONFIRM_GROUP";
/// The sanitizer's own settings. Functions from outside are no news; what `strcmp` says of an option's text depends on which
/// text that is.
const SANITIZER: &str = "DFSAN_OPTIONS";
const SANITIZER_OPTIONS: &str = "warn_unimplemented=0:strict_data_dependencies=0";

/// Beside a program.
const SUFFIX: &str = ".confirmed.toml";

/// Runs the subcommand.
pub fn confirm(arguments: &ConfirmArguments) -> Result<u8, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("transect-confirm-")
        .tempdir()
        .map_err(|source| Failure::Write { place: "the counts".to_owned(), source })?;
    let status = run(&arguments.command, folder.path(), 0)?;
    let mut counts = Counts::of_folder(folder.path())?;
    if counts.is_empty() {
        return Err(ConfirmError::NothingRan { status }.into());
    }
    let mut groups = 1;
    for counts in &counts {
        groups = groups.max(ConfirmedProgram::groups(counts).unwrap_or(1));
    }
    for group in 1..groups {
        say(&format!("run {} of {groups}: the features from the {}th on", group + 1, group * 8 + 1));
        run(&arguments.command, folder.path(), group)?;
    }
    if groups > 1 {
        counts = Counts::of_folder(folder.path())?;
    }
    for runs in counts.chunk_by(|a, b| a.program == b.program && a.identity == b.identity) {
        match ConfirmedProgram::of(runs) {
            Ok(program) => keep(program, arguments.output.as_deref())?,
            Err(problem) => say(&format!("left out: {problem}")),
        }
    }
    Ok(status)
}

/// The command's status, as a shell gives it.
fn run(command: &[OsString], folder: &Path, group: usize) -> Result<u8, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Usage("name the command to run, after --".to_owned()));
    };
    let mut options = std::env::var_os(SANITIZER).unwrap_or_default();
    options.push(if options.is_empty() { "" } else { ":" });
    options.push(SANITIZER_OPTIONS);
    let status = Command::new(program)
        .args(arguments)
        .env(FOLDER, folder)
        .env(GROUP, group.to_string())
        .env(SANITIZER, options)
        .status()
        .map_err(|source| RecordError::Spawn { program: program.to_string_lossy().into_owned(), source })?;
    Ok(status_of(status))
}

fn status_of(status: ExitStatus) -> u8 {
    let shown = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    shown.and_then(|shown| u8::try_from(shown).ok()).unwrap_or(u8::MAX)
}

/// Where `feature regions` looks for what was confirmed of a binary.
pub fn beside(binary: &Path) -> PathBuf {
    let mut path = binary.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Adds a program's runs to its file.
fn keep(program: ConfirmedProgram, output: Option<&Path>) -> Result<(), Failure> {
    let path = output.map_or_else(|| beside(Path::new(&program.program)), Path::to_owned);
    let mut confirmation = if path.is_file() { Confirmation::read(&path)? } else { Confirmation::default() };
    let name = program.program.clone();
    if confirmation.add(program) {
        say(&format!("{name} was built anew: its earlier runs in {} are dropped", path.display()));
    }
    let text = confirmation.text()?;
    write_file(&path, |out| {
        out.write_all(text.as_bytes()).map_err(|source| Failure::Write { place: path.display().to_string(), source })
    })?;
    let Some(known) = confirmation.programs.iter().find(|known| known.program == name) else { return Ok(()) };
    let [unseen, unconfirmed, confirmed] = known.sums();
    let name = Path::new(&name).file_name().map_or(name.clone(), |name| name.to_string_lossy().into_owned());
    say(&format!(
        "{name}: {} regions, {} pairs of region and feature: {confirmed} confirmed, {unconfirmed} unconfirmed, {unseen} \
         unseen; in {}",
        known.regions.len(),
        confirmed + unconfirmed + unseen,
        path.display()
    ));
    Ok(())
}
