//! `transect feature`: programs whose feature regions are marked.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Color, DependenceArguments};

/// `transect feature`.
#[derive(Debug, Args)]
pub struct FeatureCommandArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: FeatureAction,
}

/// The subcommands of `transect feature`.
#[derive(Debug, Subcommand)]
pub enum FeatureAction {
    /// Compile or link C so that feature regions are marked, as `transect-cc` does.
    #[command(disable_help_flag = true)]
    Cc(CompilerArguments),
    /// Compile or link C++ so that feature regions are marked, as `transect-c++` does.
    #[command(name = "c++", disable_help_flag = true)]
    Cxx(CompilerArguments),
    /// Show the feature regions of a program: its source with regions marked
    Regions(RegionsArguments),
    /// Run a program built with TRANSECT_SITES=confirm, and note which features its regions are seen to depend on
    #[command(after_help = CONFIRM_HELP)]
    Confirm(ConfirmArguments),
}

const CONFIRM_HELP: &str = "\
Examples:
  TRANSECT_SITES=confirm TRANSECT_FEATURE_MODEL=app.toml make CC=transect-cc
  transect feature confirm -o app.confirmed.toml -- ./app --option input
  transect feature confirm -o app.confirmed.toml -- make check
  transect feature regions ./app --confirmed app.confirmed.toml

Runs add up in the file. A run follows eight features; with more of them the
command is run again for each eight.";

/// `transect feature confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArguments {
    /// File to write, or to add to [default: PROGRAM.confirmed.toml beside each program]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Command that runs the program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `transect feature regions`.
#[derive(Debug, Args)]
pub struct RegionsArguments {
    /// Program or library that transect-cc or transect-c++ has built
    #[arg(value_name = "BINARY")]
    pub binary: PathBuf,
    /// Only regions that depend on these features (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub feature: Vec<String>,
    /// Which dependence counts.
    #[command(flatten)]
    pub regions: DependenceArguments,
    /// Folder of the sources, if they are no longer where they were compiled [default: the current one]
    #[arg(long, value_name = "FOLDER")]
    pub sources: Option<PathBuf>,
    /// File of `transect feature confirm` [default: BINARY.confirmed.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub confirmed: Option<PathBuf>,
    /// Write a page with the sources to this file instead
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// When to use colour
    #[arg(long, value_enum, value_name = "WHEN")]
    pub color: Option<Color>,
}

/// `transect feature cc` and `transect feature c++`.
#[derive(Debug, Args)]
pub struct CompilerArguments {
    /// Arguments of clang; TRANSECT_FEATURE_MODEL names the feature model (XML or TOML)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
