//! Arguments of `transect view`.

use std::path::PathBuf;

use clap::Args;

use super::Color;

/// `transect view`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect view p.transect                        its page in the browser
  transect view --port 8080 a.transect b.transect
  transect view --tui p.transect --source-dir ~/src/app

The page is served on the loopback interface of this machine, under an address with a secret word. From another
machine: ssh -L 8080:127.0.0.1:8080 HOST. Reloading it shows what a running recording has written since.

Keys of --tui: Enter goes down, Backspace up, d and m choose what is summed up and by what, / filters, y shows
the command that prints the same, ? lists all keys, q quits.")]
pub struct ShowArguments {
    /// Profile folders [default: the newest *.transect here]
    #[arg(value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// In the terminal, instead of the browser
    #[arg(long)]
    pub tui: bool,
    /// Serve on this port [default: a free one]
    #[arg(long, value_name = "N", conflicts_with = "tui", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Only print the address, do not open a browser
    #[arg(long, conflicts_with = "tui")]
    pub no_browser: bool,
    /// Folder to search for source files first (repeatable)
    #[arg(long, value_name = "DIR", requires = "tui")]
    pub source_dir: Vec<PathBuf>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}
