use std::io;

use transect_analyze::View;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The output refused bytes (disk full, closed pipe).
    #[error("cannot write the report: {0}")]
    Write(#[from] io::Error),
    /// A row did not become JSON or CSV.
    #[error("cannot encode the report: {0}")]
    Encode(String),
    /// CSV holds one table, and no view was chosen.
    #[error(
        "csv is one table: choose it with --view (summary, components, flows, threads, waits, locks, latency, loss)"
    )]
    NoView,
    /// There is nothing to draw.
    #[error("nothing was recorded of it: there is no graph to draw")]
    Empty,
    /// The view has no rows to put into a table.
    #[error("the view `{}` is no table: use --format json or text", .0.as_str())]
    NoTable(View),
}
