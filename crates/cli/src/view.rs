//! `transect view`: a profile in the browser, or in the terminal.

use std::io::IsTerminal;
use std::path::PathBuf;

use transect_report::terminal::escape;
use transect_tui::{End, Opened, Theme};

use crate::arguments::ShowArguments;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Stream;
use crate::progress::Progress;
use crate::{cut, dependence, newest, serve};

/// Exit status of who was ended by signal N, less N.
const BY_SIGNAL: i32 = 128;

/// Shows profiles until the user quits.
pub fn view(arguments: &ShowArguments, config: &Config) -> Result<u8, Failure> {
    let folders = match arguments.folders.as_slice() {
        [] => vec![newest::profile(None)?],
        named => named.to_vec(),
    };
    match (arguments.tui, folders.as_slice()) {
        (false, _) => serve::pages(folders, arguments.port, !arguments.no_browser),
        (true, [folder]) => in_terminal(folder.clone(), arguments, config),
        (true, _) => Err(Failure::Usage("--tui shows one profile".to_owned())),
    }
}

/// Shows the profile until the user quits, then prints the commands that were asked for.
fn in_terminal(folder: PathBuf, arguments: &ShowArguments, config: &Config) -> Result<u8, Failure> {
    if !Stream::Stdout.is_terminal() || !std::io::stdin().is_terminal() {
        let shown = crate::output::shell_path(&folder);
        return Err(Failure::Usage(format!(
            "view needs a terminal for its keys, and standard input or output is none; print views with: transect report {shown}"
        )));
    }
    let profile = {
        let _progress = Progress::start(format!("reading {}", folder.display()));
        let mut profile = transect_profile_store::read_without_slices(&folder).map_err(Failure::Read)?;
        dependence::apply(&mut profile, None)?;
        profile
    };
    let recorded_unix_ns = profile.meta.started_unix_ns;
    let source_folders = arguments.source_dir.clone();
    let opened = Opened {
        profile,
        read_timeline: Box::new({
            let folder = folder.clone();
            move || dependence::read(&folder).map_err(|error| error.to_string())
        }),
        sources: Box::new(move |view| cut::sources(view, &source_folders, recorded_unix_ns)),
    };
    let theme = Theme { color: Stream::Stdout.style(arguments.color.or(config.report.color)).color };
    match transect_tui::run(&folder.to_string_lossy(), opened, theme)? {
        End::Signal(number) => Ok(u8::try_from(BY_SIGNAL + number).unwrap_or(u8::MAX)),
        End::User(commands) => {
            Stream::Stdout.write::<Failure>(|out| {
                let mut commands = commands.iter();
                let written = commands.try_for_each(|command| writeln!(out, "{}", escape(command)));
                written.map_err(|source| Failure::Write { place: "standard output".to_owned(), source })
            })?;
            Ok(0)
        }
    }
}
