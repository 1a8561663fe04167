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
