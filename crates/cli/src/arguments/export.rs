//! Arguments of `transect export` and `transect top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use transect_analyze::SortKey;
use transect_profile_export::Format;

use super::{Color, parse_duration, parse_own_view};

/// `transect export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect export p.transect --format pprof --output p.pb.gz && go tool pprof -http=: p.pb.gz
  transect export p.transect --format collapsed | inferno-flamegraph > p.svg
  transect export p.transect --format firefox --output p.json        open at profiler.firefox.com
  transect export p.transect --format speedscope --output p.speedscope.json
  transect export p.transect --format chrome --output p.trace.json   open at ui.perfetto.dev
  transect export p.transect --format perfetto --output p.pftrace    the same, smaller: threads and feature regions
  transect export p.transect --format csv > flows.csv
  transect export p.transect --view criticality --format collapsed | inferno-flamegraph > critical.svg")]
pub struct ExportArguments {
    /// Profile folder [default: the newest *.transect here]
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Format
    #[arg(long, value_name = "FORMAT", value_parser = export_formats())]
    pub format: String,
    /// Stacks and their weights: flows by self time, call paths by criticality, the joined call tree of a walk, or the
    /// nested regions of features by time [default: flows if the profile has them, else what it has]
    #[arg(long, value_name = "VIEW", value_parser = ["flows", "criticality", "walk", "features"])]
    pub view: Option<String>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `transect top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect top p.transect           while transect record -o p.transect -- ./server runs
  transect top 4711                 by the pid of the recorder or of the recorded program
  transect top --delta --delay 1s p.transect
  transect top -n 1 p.transect      once, without clearing the screen")]
pub struct TopArguments {
    /// Profile folder of the running recording, or pid of the recorder or of its program
    #[arg(value_name = "DIR|PID")]
    pub recording: PathBuf,
    /// Redraw this often
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    pub delay: Duration,
    /// End after this number of redraws
    #[arg(short = 'n', value_name = "N")]
    pub iterations: Option<u64>,
    /// View [default: flows if the recording has them, else the first that it has of criticality, walk, latency and features]
    #[arg(long, value_name = "VIEW", value_parser = parse_own_view())]
    pub view: Option<String>,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", value_parser = SortKey::ALL.map(SortKey::as_str))]
    pub sort: Option<String>,
    /// Show what happened since the last redraw instead of since the start
    #[arg(long)]
    pub delta: bool,
    /// Colour [default: auto]
    #[arg(long, value_enum)]
    pub color: Option<Color>,
}

fn export_formats() -> clap::builder::PossibleValuesParser {
    Format::ALL.map(Format::as_str).into()
}
