//! `transect man`: the man pages, and the guide's page of commands, both from the declarations of the flags.

use std::fmt::Write;
use std::fs;

use clap::{Command, CommandFactory};

use crate::arguments::{Cli, ManArguments};
use crate::failure::Failure;
use crate::output::Stream;

/// Columns of the help in the Markdown page.
const WIDTH: usize = 100;

/// Writes `transect.1` and one page for each subcommand, or prints the page of Markdown.
pub fn manual(arguments: &ManArguments) -> Result<u8, Failure> {
    if let Some(folder) = &arguments.folder {
        fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
            .map_err(|source| Failure::Write { place: folder.display().to_string(), source })?;
    } else {
        let failure = |source| Failure::Write { place: "standard output".to_owned(), source };
        Stream::Stdout.write(|out| out.write_all(markdown().as_bytes()).map_err(failure))?;
    }
    Ok(0)
}

/// The help of every command as one page: `docs/guide/src/commands.md`.
fn markdown() -> String {
    let mut page = "# Commands\n\n\
        The help of each command, as `transect COMMAND --help` prints it. Man pages and shell completions have the same \
        source.\nThis page is made by `transect man --markdown`.\n"
        .to_owned();
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    append(&mut page, &mut root, 2);
    page
}

/// A section for `command`, and one below it for each of its subcommands.
fn append(page: &mut String, command: &mut Command, level: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n{} {name}\n\n```text\n{}\n```\n", "#".repeat(level), lines.join("\n").trim_end());
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        append(page, inner, level + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_commands_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/commands.md");
        let page = markdown();
        if std::env::var_os("TRANSECT_BLESS").is_some_and(|v| v == "1") {
            fs::write(path, &page).unwrap();
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        let line = committed.lines().zip(page.lines()).position(|(old, new)| old != new);
        assert!(committed == page, "{path} differs first after line {line:?}; TRANSECT_BLESS=1 rewrites it");
    }
}
