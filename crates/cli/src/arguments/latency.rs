//! Arguments of `transect latency`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{
    Color, MetricWord, ReportFormat, SnapshotArguments, ViewArguments, parse_own_view, parse_percent,
    parse_positive_duration, parse_share,
};

/// `transect latency`.
#[derive(Debug, Args)]
#[command(after_help = "\
A probe at a function's entry times so many calls, then switches itself off until the next epoch,
so that the cost is bounded however often a function is called. Text goes to stderr for a command,
whose own output is not changed, and to stdout for a process.

Examples:
  transect latency -- ./server --port 8080
  transect latency --functions 'parse_*' --functions 'Codec::*' -- ./app
  transect latency -p 4711 --for 10s --component libssl.so.3
  transect latency -p 4711 --hot --overhead 1%
  transect latency --metric page-faults -- ./app
  transect latency --sample-size 10 --epoch 10ms --format json --output app.json -- ./app
  transect latency --format html --output app.html -- ./app     a picture of latency over time")]
pub struct LatencyArguments {
    /// Measure these running processes instead of a command (comma-separated); no probe is left
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "command")]
    pub pid: Vec<i32>,
    /// End after this time [default: when the processes end, or at Ctrl-C]
    #[arg(long = "for", visible_alias = "duration", value_name = "TIME", value_parser = parse_positive_duration)]
    #[arg(conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Only functions whose name matches: demangled, raw, or without parameters (repeatable) [default: all]
    #[arg(long, value_name = "GLOB")]
    pub functions: Vec<String>,
    /// Only functions of this component: path, file name, or file name up to .so (repeatable) [default: all]
    #[arg(long, value_name = "GLOB")]
    pub component: Vec<String>,
    /// Only functions that are hot in a sample of the first second
    #[arg(long)]
    pub hot: bool,
    /// Metric of calls: the thread's wall time, its CPU time, or its page faults (only transect walk samples hardware
    /// counters) [default: wall]
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = true)]
    pub metric: Option<MetricWord>,
    /// Calls to time per function and epoch, instead of as many as --overhead allows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "overhead")]
    pub sample_size: Option<u32>,
    /// Length of an epoch, after which probes are switched on again [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    pub epoch: Option<Duration>,
    /// Share of run time that measuring may take [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub overhead: Option<f64>,
    /// Do not follow child processes of the command
    #[arg(long, conflicts_with = "pid")]
    pub no_follow: bool,
    /// Snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotArguments,
    /// Profile folder to write [default: ./transect-PROGRAM-TIME.transect]
    #[arg(short = 'o', value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// View [default: all of them, in short]
    #[arg(long, value_name = "VIEW", value_parser = parse_own_view())]
    pub view: Option<String>,
    /// Format [default: text]
    #[arg(long, value_enum)]
    pub format: Option<LatencyFormat>,
    /// Write all views to one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the view to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", value_parser = ["total", "calls", "mean", "p99", "max", "name"])]
    pub sort: Option<String>,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave out rows below this share of the time
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_percent: Option<f64>,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "pid",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

impl LatencyArguments {
    /// What is shown, as other recordings are asked for it.
    pub fn shown(&self, format: LatencyFormat) -> ViewArguments {
        ViewArguments {
            // One table, or the whole report: for text its overview, in which long latencies are findings.
            view: self.view.clone().or((format == LatencyFormat::Csv).then(|| "latency".to_owned())),
            component: None,
            api: None,
            sort: self.sort.clone(),
            top: self.top,
            min_percent: self.min_percent,
            by: None,
            format: Some(match format {
                LatencyFormat::Json => ReportFormat::Json,
                LatencyFormat::Csv => ReportFormat::Csv,
                LatencyFormat::Markdown => ReportFormat::Markdown,
                LatencyFormat::Text | LatencyFormat::Html => ReportFormat::Text,
            }),
            output: self.output.clone(),
            html: self.html.clone(),
            color: self.color,
        }
    }
}

/// Format of `latency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LatencyFormat {
    /// Tables for people.
    Text,
    /// One JSON object.
    Json,
    /// One table of comma-separated values.
    Csv,
    /// The tables in GitHub-flavoured Markdown.
    Markdown,
    /// One page for the browser.
    Html,
}

impl From<Option<ReportFormat>> for LatencyFormat {
    /// What the configuration asks for.
    fn from(format: Option<ReportFormat>) -> Self {
        match format {
            None | Some(ReportFormat::Text) => Self::Text,
            Some(ReportFormat::Json) => Self::Json,
            Some(ReportFormat::Csv) => Self::Csv,
            Some(ReportFormat::Markdown) => Self::Markdown,
        }
    }
}
