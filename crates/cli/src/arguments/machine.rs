//! Arguments of the commands about the machine and the command itself: doctor, calibrate, completions, man.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::Color;

/// `transect doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect doctor
  transect doctor --format json | jq '.doctor[] | select(.status != \"ok\")'

Exit status: 0 if programs can be profiled here, 1 if not.")]
pub struct DoctorArguments {
    /// Format
    #[arg(long, value_enum, default_value = "text")]
    pub format: DoctorFormat,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// `transect calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect calibrate
  transect calibrate --output curve.svg
  transect calibrate --quick --format json | jq .toggle

All figures are in ticks of the time-stamp counter, without the clock's own cost. Other work on the machine makes
them larger. The waiting protocol is tried in a process of its own; Transect itself never relies on waiting.")]
pub struct CalibrateArguments {
    /// Format
    #[arg(long, value_enum, default_value = "text")]
    pub format: CalibrateFormat,
    /// File to write instead of standard output; NAME.svg gets the picture, and standard output the tables
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a picture of the waiting protocol's failures
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure for about a second instead of several
    #[arg(long)]
    pub quick: bool,
    /// Be the process that tries the waiting protocol, from this trial on
    #[arg(long, value_name = "TRIAL", hide = true)]
    pub trials_from: Option<usize>,
}

/// Formats of `transect calibrate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalibrateFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// The picture alone.
    Svg,
}

/// `transect completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect completions bash > ~/.local/share/bash-completion/completions/transect
  transect completions zsh > ~/.zfunc/_transect
  transect completions fish > ~/.config/fish/completions/transect.fish")]
pub struct CompletionsArguments {
    /// Shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `transect man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect man ~/.local/share/man/man1 && man transect-run")]
pub struct ManArguments {
    /// Folder for the pages (made if missing)
    #[arg(value_name = "DIR", required_unless_present = "markdown")]
    pub folder: Option<PathBuf>,

    /// Print the help of all commands as one page of Markdown instead
    #[arg(long, hide = true, conflicts_with = "folder")]
    pub markdown: bool,
}

/// Format of `doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}
