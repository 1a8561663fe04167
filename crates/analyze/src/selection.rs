use std::str::FromStr;

/// A view of `report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// Findings.
    Summary,
    /// Each component: self, others, wait.
    Components,
    /// APIs of a component, all callers together.
    Apis,
    /// Who calls an API.
    Callers,
    /// (Caller, callee, API) rows.
    Flows,
    /// Threads and groups.
    Threads,
    /// Waiting per group, API and object.
    Waits,
    /// Locks per call path.
    Locks,
    /// Sampled durations of functions.
    Latency,
    /// Which code runs while the others wait.
    Criticality,
    /// Chains from `main` down to the function that finally holds the time.
    Walk,
    /// Time per feature of a configurable program.
    Features,
    /// Facts about the recording.
    Meta,
    /// What was not seen.
    Loss,
}

impl View {
    /// Every view, in the order in which a report shows them.
    pub const ALL: [Self; 14] = [
        Self::Summary,
        Self::Components,
        Self::Apis,
        Self::Callers,
        Self::Flows,
        Self::Threads,
        Self::Waits,
        Self::Locks,
        Self::Latency,
        Self::Criticality,
        Self::Walk,
        Self::Features,
        Self::Meta,
        Self::Loss,
    ];

    /// The word given to `--view`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Components => "components",
            Self::Apis => "apis",
            Self::Callers => "callers",
            Self::Flows => "flows",
            Self::Threads => "threads",
            Self::Waits => "waits",
            Self::Locks => "locks",
            Self::Latency => "latency",
            Self::Criticality => "criticality",
            Self::Walk => "walk",
            Self::Features => "features",
            Self::Meta => "meta",
            Self::Loss => "loss",
        }
    }

    /// The JSON key under which the view's rows stand.
    pub fn json_key(self) -> &'static str {
        match self {
            Self::Apis | Self::Callers | Self::Flows => "flows",
            other => other.as_str(),
        }
    }
}

/// A word that names no view, sort key or dimension.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: use one of {choices}", if word.is_empty() { format!("no {what}") } else { format!("unknown {what} `{word}`") })]
pub struct SelectionError {
    /// What was parsed: `view`, `sort key`, `measure` or `dimension`.
    pub what: &'static str,
    /// The word given.
    pub word: String,
    /// Words that are known, joined by commas.
    pub choices: String,
}

pub(crate) fn parse_word<T: Copy>(
    what: &'static str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    word: &str,
) -> Result<T, SelectionError> {
    all.iter().copied().find(|&item| name(item) == word).ok_or_else(|| SelectionError {
        what,
        word: word.to_owned(),
        choices: all.iter().map(|&item| name(item)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for View {
    type Err = SelectionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        parse_word("view", &Self::ALL, Self::as_str, word)
    }
}

/// Column by which rows are sorted, largest first (names: A to Z).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortKey {
    /// Total time; in views without it, the view's main time.
    #[default]
    Total,
    /// Self time.
    SelfTime,
    /// Attributed time.
    Attributed,
    /// Waiting time.
    Wait,
    /// Calls (acquisitions, waits).
    Calls,
    /// Bytes asked for.
    Bytes,
    /// Mean duration.
    Mean,
    /// 99th percentile of durations.
    P99,
    /// Longest duration.
    Max,
    /// Name.
    Name,
}

impl SortKey {
    /// Every key.
    pub const ALL: [Self; 10] = [
        Self::Total,
        Self::SelfTime,
        Self::Attributed,
        Self::Wait,
        Self::Calls,
        Self::Bytes,
        Self::Mean,
        Self::P99,
        Self::Max,
        Self::Name,
    ];

    /// The word given to `--sort`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::SelfTime => "self",
            Self::Attributed => "attributed",
            Self::Wait => "wait",
            Self::Calls => "calls",
            Self::Bytes => "bytes",
            Self::Mean => "mean",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Name => "name",
        }
    }
}

impl FromStr for SortKey {
    type Err = SelectionError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        parse_word("sort key", &Self::ALL, Self::as_str, word)
    }
}

/// Dimensions by which views split flows instead of summing them (`--by thread,process,feature`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dimensions {
    /// One row per thread.
    pub thread: bool,
    /// One row per process.
    pub process: bool,
    /// One row per context (feature).
    pub feature: bool,
}

/// Which rows a view shows, and in which order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// The view; `None` is the full report.
    pub view: Option<View>,
    /// Component: display name, file name, path, name up to `.so`, or a glob over these. Views of flows show flows
    /// from it and into it (`callers`: into it), waits those it calls for, locks paths that go through it.
    pub component: Option<String>,
    /// API (in `latency`: function): name, raw symbol, name up to the parameter list, or a glob over these.
    pub api: Option<String>,
    /// Sort column; `None` is the view's own order.
    pub sort: Option<SortKey>,
    /// At most this many rows.
    pub top: Option<usize>,
    /// Drop rows below this share of all threads' attributed lifetime, 0–100.
    pub min_percent: Option<f64>,
    /// How flows are split.
    pub by: Dimensions,
}
