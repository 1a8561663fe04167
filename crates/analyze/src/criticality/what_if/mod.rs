//! What a speed-up would save.

use serde::{Serialize, Serializer};
use transect_profile_model::WaitKind;

/// What is sped up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIfScope {
    /// A function without its callees (what runtime libraries do for it is its own).
    #[default]
    Own,
    /// A function and its callees.
    Inclusive,
    /// Waits: a faster disk, a shorter sleep.
    Wait,
}

/// Predicted saving if a path ran faster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhatIfRow {
    /// The function; of a wait the place that waits.
    pub path: String,
    /// What of it is sped up.
    pub scope: WhatIfScope,
    /// Kind of the wait.
    pub kind: Option<WaitKind>,
    /// Object of the wait; empty if it has none.
    pub object: String,
    /// Its most critical call path, root first.
    pub stack: Vec<String>,
    /// How many times as fast; infinite (in JSON the string `"inf"`) if it took no time.
    #[serde(serialize_with = "speedup")]
    pub speedup: f64,
    /// Saving as a share of the elapsed time, 0.0–1.0: best estimate.
    pub saving: f64,
    /// Lower bound.
    pub saving_low: f64,
    /// Upper bound.
    pub saving_high: f64,
    /// `saving` in ns.
    pub saving_ns: i64,
    /// `saving_low` in ns.
    pub saving_low_ns: i64,
    /// `saving_high` in ns.
    pub saving_high_ns: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn speedup<S: Serializer>(speedup: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if speedup.is_finite() { serializer.serialize_f64(*speedup) } else { serializer.serialize_str("inf") }
}
