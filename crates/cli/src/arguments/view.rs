//! Arguments of `transect view`.

use std::path::PathBuf;

use clap::Args;

use super::Color;

/// `transect view`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect view --tui p.transect
  transect view --tui p.transect --source-dir ~/src/app

Keys: Enter goes down, Backspace up, d and m choose what is summed up and by what, / filters, y shows the
command that prints the same, ? lists all keys, q quits.")]
pub struct ShowArguments {
    /// Profile folder [default: the newest *.transect here]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// In the terminal [default, if standard output is one]
    #[arg(long)]
    pub tui: bool,
    /// Folder to search for source files first (repeatable)
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}
