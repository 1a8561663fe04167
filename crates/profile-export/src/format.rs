use std::fmt;
use std::str::FromStr;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Gzip-compressed [`profile.proto`](https://github.com/google/pprof/tree/main/proto), for `go tool pprof`,
    /// Pyroscope, Polar Signals and others.
    Pprof,
    /// Brendan Gregg's folded stacks, one `frame;frame;frame weight` a line; weights are self time in ns. For inferno,
    /// `flamegraph.pl`, speedscope.
    Collapsed,
    /// Processed profile of the [Firefox Profiler](https://profiler.firefox.com).
    Firefox,
    /// [speedscope](https://www.speedscope.app)'s own file format.
    Speedscope,
    /// Chrome trace events (JSON object format): life spans of threads and the traced calls, for Perfetto and
    /// `chrome://tracing`.
    Chrome,
    /// Perfetto's own trace format: life spans of threads and the regions in which they were, for
    /// [ui.perfetto.dev](https://ui.perfetto.dev) and `trace_processor`.
    Perfetto,
    /// Flow rows as comma-separated values (RFC 4180) with a header line.
    Csv,
}

impl Format {
    /// Every format, in the order of the help text.
    pub const ALL: [Self; 7] =
        [Self::Pprof, Self::Collapsed, Self::Firefox, Self::Speedscope, Self::Chrome, Self::Perfetto, Self::Csv];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Collapsed => "collapsed",
            Self::Firefox => "firefox",
            Self::Speedscope => "speedscope",
            Self::Chrome => "chrome",
            Self::Perfetto => "perfetto",
            Self::Csv => "csv",
        }
    }

    /// The file name extension that the format's readers expect, without a leading dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pprof => "pb.gz",
            Self::Collapsed => "folded",
            Self::Firefox => "json",
            Self::Speedscope => "speedscope.json",
            Self::Chrome => "trace.json",
            Self::Perfetto => "pftrace",
            Self::Csv => "csv",
        }
    }

    /// True if the output is not text: a terminal should not be written to.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Perfetto)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word is none of [`Format::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown export format `{0}`: choose pprof, collapsed, firefox, speedscope, chrome, perfetto or csv")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|f| f.as_str() == word).ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}
