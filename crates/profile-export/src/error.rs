use std::io;

use crate::Format;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output refused bytes (disk full, closed pipe).
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
    /// The format shows times, and the profile holds only counts.
    #[error(
        "the profile holds call counts but no times, and {format} shows times: export pprof, speedscope or csv instead, \
         or record again without `--timing count`"
    )]
    NoTimes {
        /// The format asked for.
        format: Format,
    },
    /// The format shows stacks, and the profile holds sampled latencies alone.
    #[error(
        "the profile holds latencies of functions and no calls between components, which are what {format} shows: \
         export chrome or csv instead, or see the latencies with: transect report --view latency"
    )]
    NoFlows {
        /// The format asked for.
        format: Format,
    },
    /// The format would have no row.
    #[error("{format} would be empty: {shows}; {instead}")]
    NoRows {
        /// The format asked for.
        format: Format,
        /// What it shows, of which the profile has nothing.
        shows: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Critical paths were asked for, and the profile holds nothing of the scheduler.
    #[error(
        "the profile holds nothing of the scheduler: record it with --collect sched, or with: transect criticality"
    )]
    NoSchedule,
    /// The profile holds no walk.
    #[error("the profile holds no walk: record one with `transect walk`")]
    NoWalk,
    /// The profile holds no time of features.
    #[error(
        "the profile holds no time of features: build the program with transect-cc and record it with --collect feature"
    )]
    NoFeatures,
    /// An encoder of another crate refused the data.
    #[error("cannot encode the profile as {format}: {reason}")]
    Encode {
        /// The format asked for.
        format: Format,
        /// The encoder's words.
        reason: String,
    },
}

impl ExportError {
    /// Tells a failed write inside a JSON encoder from refused data.
    pub(crate) fn json(format: Format, error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(kind) => Self::Write(io::Error::new(kind, error)),
            None => Self::Encode { format, reason: error.to_string() },
        }
    }
}
