//! What is shown, and how: `transect report` and the flags of views.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use transect_analyze::{CutDimensions, CutFilter, CutMeasure, CutViewKind, SortKey, View, parse_duration};
use transect_binary_info::Syntax;
use transect_profile_model::Dependence;

use super::feature::parse_dependence;
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
  transect report p.transect --by thread-group,component,function --tree
  transect report p.transect --by function --measure critical --where 'wait = page-fault' --from 2s --to 3s
  transect report p.transect --view hot                     functions by self and total time
  transect report p.transect --view annotate --function inflate
  transect report p.transect --view annotate --function inflate --disassemble
  transect report p.transect --flame p.svg --measure time --where 'thread-group = worker'
  transect report p.transect --format json | jq '.components'
  transect report p.transect --html p.html")]
pub struct ReportArguments {
    /// Profile folder [default: the newest *.transect here]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// What to show.
    #[command(flatten)]
    pub view: ViewArguments,
    /// A sum by any dimensions.
    #[command(flatten)]
    pub cut: CutArguments,
    /// Which dependence counts.
    #[command(flatten)]
    pub regions: DependenceArguments,
}

/// Which regions of features count in a profile, or a program.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Features")]
pub struct DependenceArguments {
    /// Regions count that depend on a feature so, or more strongly: direct, computed, stored, content [default: stored]
    #[arg(long, value_name = "HOW", value_parser = parse_dependence)]
    pub dependence: Option<Dependence>,
}

/// A cut: what is summed up, of which part of the run. Its dimensions are `--by`.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "Cut")]
pub struct CutArguments {
    /// Measure to sum by the dimensions of --by [default: time]
    #[arg(long, value_name = "MEASURE", value_parser = CutMeasure::ALL.map(CutMeasure::as_str))]
    pub measure: Option<String>,
    /// Only what matches this filter: `DIMENSION = VALUE`, also != ~ in, joined by and, or, not; `stack` is any function of
    /// the stack
    #[arg(long = "where", value_name = "FILTER", value_parser = CutFilter::parse)]
    pub filter: Option<CutFilter>,
    /// Only from this time on, since the recording's start (2s, 150ms)
    #[arg(long, value_name = "TIME", value_parser = parse_instant, allow_hyphen_values = true)]
    pub from: Option<i64>,
    /// Only up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_instant, allow_hyphen_values = true)]
    pub to: Option<i64>,
    /// Nest the rows in the order of the dimensions
    #[arg(long)]
    pub tree: bool,
    /// Draw a flame graph (SVG): stacks, below them the dimensions of --by [default: --measure on-cpu]
    #[arg(long, value_name = "FILE")]
    pub flame: Option<PathBuf>,
    /// A cut of the configuration file by its name (`[cut.NAME]` with by, measure, where)
    #[arg(long, value_name = "NAME")]
    pub cut: Option<String>,
    /// For --view annotate: the function whose lines to show
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub function: Option<String>,
    /// For --view annotate: the instructions of each line with their time, as AT&T (`att`) or Intel (`intel`) write them [default:
    /// att]
    #[arg(long, value_name = "SYNTAX", num_args = 0..=1, require_equals = true, default_missing_value = "att", value_enum)]
    pub disassemble: Option<AssemblySyntax>,
    /// For --view annotate: folder to search for source files first (repeatable)
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
}

impl CutArguments {
    /// The first of its flags that was given.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--measure", self.measure.is_some()),
            ("--where", self.filter.is_some()),
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--tree", self.tree),
            ("--flame", self.flame.is_some()),
            ("--cut", self.cut.is_some()),
            ("--function", self.function.is_some()),
            ("--disassemble", self.disassemble.is_some()),
            ("--source-dir", !self.source_dir.is_empty()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// Which rows to show, and how.
#[derive(Debug, Args, Default)]
#[command(next_help_heading = "View")]
pub struct ViewArguments {
    /// View [default: all of them, in short]
    #[arg(long, value_name = "VIEW", value_parser = parse_view())]
    pub view: Option<String>,
    /// Only flows, waits and locks of this component: a name or glob
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub component: Option<String>,
    /// Only this API: a name or glob
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub api: Option<String>,
    /// Sort by this column, largest first; views without it sort by their time
    #[arg(long, value_name = "COLUMN", value_parser = SortKey::ALL.map(SortKey::as_str))]
    pub sort: Option<String>,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave out rows below this share of the time
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_percent: Option<f64>,
    /// Without a view, sum by these dimensions (comma-separated): service, version, host, run, process, thread, thread-group,
    /// feature, component, api, caller, function, line, kernel-function, system-call, state, wait, object, holder, waker,
    /// stack, time/DURATION. With one, split flows by thread, process, feature
    #[arg(long, value_name = "DIMENSIONS")]
    pub by: Option<CutDimensions>,
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
    /// The tables in GitHub-flavoured Markdown.
    Markdown,
}

/// How instructions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AssemblySyntax {
    /// `mov %rsp,%rbp`
    Att,
    /// `mov rbp,rsp`
    Intel,
}

impl AssemblySyntax {
    /// As disassemblers name it.
    pub fn syntax(self) -> Syntax {
        match self {
            Self::Att => Syntax::Att,
            Self::Intel => Syntax::Intel,
        }
    }
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

fn parse_instant(text: &str) -> Result<i64, String> {
    let seconds = text.ends_with(|last: char| last.is_ascii_digit()).then(|| parse_duration(&format!("{text}s")));
    seconds
        .unwrap_or_else(|| parse_duration(text))
        .ok_or_else(|| "expected a time since the recording's start, such as 2s or 150ms".to_owned())
}

/// Views of collectors' own rows.
pub(super) fn parse_own_view() -> clap::builder::PossibleValuesParser {
    View::ALL.map(View::as_str).into()
}

fn parse_view() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(
        View::ALL.iter().map(|view| view.as_str()).chain(CutViewKind::ALL.iter().map(|kind| kind.as_str())),
    )
}
