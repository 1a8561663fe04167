//! Arguments of the feature collector.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use transect_profile_model::{Dependence, RegionMethod};
use transect_record::feature::Overflow;

/// How feature regions are recorded (`--collect feature`).
#[derive(Debug, Args)]
#[command(next_help_heading = "Features")]
pub struct FeatureArguments {
    /// How regions are observed: by events that are compiled in (trace), by probes in the running program, by USDT probes
    /// of the kernel, or by stack samples; auto: trace where it is compiled in, else probe
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub feature_method: FeatureMethod,
    /// The program with regions, if COMMAND is another one that starts it (env, timeout, sh -c)
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pub feature_program: Option<PathBuf>,
    /// Only regions that depend on these features (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub feature: Vec<String>,
    /// Only these regions, by number as `transect feature regions` shows them (comma-separated)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub region: Vec<u32>,
    /// Only regions that depend on a feature so, or more strongly: the option or a copy is compared (direct), a value computed
    /// from it (computed), a constant stored under a branch on it (stored), data that it went into (content) [default: stored]
    #[arg(long, value_name = "HOW", value_parser = parse_dependence)]
    pub dependence: Option<Dependence>,
    /// File that says which regions are observed, and may change during the recording: a line each, `feature NAME` or
    /// `region N`; empty: all (by probes only)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["feature", "region"])]
    pub selection: Option<PathBuf>,
    /// What a thread does if it writes events faster than they are read: wait (block), or count them as lost (count)
    #[arg(long, value_enum, value_name = "WHAT", default_value = "block")]
    pub region_overflow: RegionOverflow,
    /// Feature model (XML or TOML) that the program must have been built with
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

/// Reads the word for a dependence of regions on features.
pub(super) fn parse_dependence(word: &str) -> Result<Dependence, String> {
    let words = || Dependence::ALL.map(Dependence::as_str).join(", ");
    Dependence::parse(word).ok_or_else(|| format!("expected one of {}", words()))
}

/// How regions are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FeatureMethod {
    /// What suits the program.
    Auto,
    /// Events compiled in.
    Trace,
    /// Sites switched on in the running program.
    Probe,
    /// Sites watched from the kernel.
    Usdt,
    /// Stack samples.
    Sample,
}

impl FeatureMethod {
    /// The method; `None` for what suits.
    pub fn wanted(self) -> Option<RegionMethod> {
        match self {
            Self::Auto => None,
            Self::Trace => Some(RegionMethod::Trace),
            Self::Probe => Some(RegionMethod::Probe),
            Self::Usdt => Some(RegionMethod::Usdt),
            Self::Sample => Some(RegionMethod::Sample),
        }
    }
}

/// What a thread does whose ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RegionOverflow {
    /// Waits.
    Block,
    /// Counts.
    Count,
}

impl From<RegionOverflow> for Overflow {
    fn from(overflow: RegionOverflow) -> Self {
        match overflow {
            RegionOverflow::Block => Self::Block,
            RegionOverflow::Count => Self::Count,
        }
    }
}
