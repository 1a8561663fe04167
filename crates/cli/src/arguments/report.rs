//! What is shown, and how: `transect report` and the flags of views.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use transect_analyze::{Dimensions, SortKey, View};

use super::parse_percent;

/// `transect report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect report p.transect
  transect report p.transect --view components
  transect report p.transect --component libz.so.1          APIs of a component
  transect report p.transect --api 'mem*' --sort calls      callers of an API
  transect report p.transect --view flows --by thread --format csv
  transect report p.transect --format json | jq '.components'
  transect report p.transect --html p.html")]
pub struct ReportArguments {
    /// Profile folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
}

/// Which rows to show, and how.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "View")]
pub struct ViewArguments {
    /// View [default: all of them, in short]
    #[arg(long, value_name = "VIEW", value_parser = parse_view())]
    pub view: Option<String>,
    /// Only flows, waits and locks of this component: a name or glob
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,
    /// Only this API: a name or glob
    #[arg(long, value_name = "NAME")]
    pub api: Option<String>,
    /// Sort by this column, largest first; views without it sort by their time
    #[arg(long, value_name = "COLUMN", value_parser = SortKey::ALL.map(SortKey::as_str))]
    pub sort: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave out rows below this share of the time
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_percent: Option<f64>,
    /// Split flows by thread, process, feature (comma-separated)
    #[arg(long, value_name = "DIMENSIONS")]
    pub by: Option<Dimensions>,
    /// Format [default: text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the view to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write all views to one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

/// Format of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// One table of comma-separated values.
    Csv,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    /// If the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

pub(super) fn parse_view() -> clap::builder::PossibleValuesParser {
    View::ALL.map(View::as_str).into()
}
