use serde::Serialize;
use transect_profile_model::Profile;

/// What kind of thing stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A library takes an unusual share of the time.
    HeavyComponent,
    /// One API takes a large share of the time.
    HeavyApi,
    /// An API is called very often for very little each time.
    TinyCalls,
    /// Input or output in tiny pieces.
    TinyIo,
    /// Waiting takes more than a third of the time.
    Waiting,
    /// Groups of threads, or threads of one group, differ widely in busy time.
    Imbalance,
    /// A lock that is taken very often without contention, at a cost.
    HotLock,
    /// A lock that threads wait for.
    ContendedLock,
    /// Memory is returned to the kernel again and again.
    EagerMemoryReturn,
    /// Nothing stands out.
    Nothing,
}

/// One thing that stands out, in plain words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FindingRow {
    /// What stands out.
    pub finding: String,
    /// The numbers behind it, with units.
    pub evidence: String,
    /// View that shows it, a value of `--view`.
    pub view: String,
    /// What to run or do next.
    pub next: String,
    /// Kind of finding, for programs that filter.
    pub kind: FindingKind,
    /// Estimated share of the run's time that it concerns, 0–100; findings are ranked by it.
    pub percent: f64,
}

/// What stands out in the run, weightiest first.
pub fn summary(_profile: &Profile) -> Vec<FindingRow> {
    Vec::new()
}
