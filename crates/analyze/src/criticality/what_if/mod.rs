//! What a speed-up would save.
//!
//! The recording is replayed with less of the work (or waiting) in question: each thread's active stretches keep their
//! order and wait for the same wake-ups, starts and meetings of other threads, on as many CPUs. So slack up to
//! the second-latest at a barrier, the next-busiest stage of a pipeline, and a lock's serial part limit the saving as
//! they would in a run. What cannot be known from a recording makes the bounds: how much of a stretch is in question (its
//! samples), whether threads woken together must meet, and whether what comes from outside would come earlier.

mod candidate;
mod chain;
mod demand;
mod density;
mod fixed_rate;
mod hidden;
mod hold;
mod lock;
mod made_for;
mod meeting;
mod polling;
mod pooling;
mod replay;
mod scenario;
pub(super) mod timeline;
mod trace;

pub(crate) use candidate::{CONTENTION, CPUS, PINNED};
use serde::{Serialize, Serializer};
use transect_profile_model::WaitKind;

use super::Source;
use super::runtime_library::GO_SCHEDULER;

/// What is sped up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIfScope {
    /// A function without its callees (what runtime libraries and the disk do for it is its own).
    #[default]
    Own,
    /// A function and its callees.
    Inclusive,
    /// Waits: a faster disk, a shorter sleep; kind `run-queue`: more CPUs.
    Wait,
}

/// Predicted saving if a path ran faster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhatIfRow {
    /// The function; of a wait the place that waits; `[CPUs]`.
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

/// The speed-ups that are predicted.
const SPEEDUPS: [f64; 3] = [1.1, 2.0, f64::INFINITY];

/// From the first thread's start to the last one's end: a cgroup may be empty for the rest of the recording.
fn span(source: &Source<'_>) -> (i64, i64) {
    let tasks = &source.tables.tasks;
    let first = tasks.iter().map(|task| task.start_ns).min();
    let last = tasks.iter().map(|task| task.end_ns).max();
    let start = source.session.start_ns.max(first.unwrap_or(i64::MIN));
    (start, source.session.end_ns.min(last.unwrap_or(i64::MAX)).max(start))
}

/// Predictions for the candidates, those that could save most first, each for all speed-ups. Of Go programs there are none: their
/// goroutines move between threads, so that which thread waited for which says nothing of what depends on what.
pub(super) fn rows(source: &Source<'_>) -> Vec<WhatIfRow> {
    if source.paths.functions.iter().any(|function| function.name == GO_SCHEDULER) {
        return Vec::new();
    }
    let (start_ns, end_ns) = span(source);
    let elapsed_ns = end_ns - start_ns;
    if elapsed_ns <= 0 || source.session.busy_ns + source.session.idle_ns <= 0 || source.tables.tasks.is_empty() {
        return Vec::new();
    }
    let candidates = candidate::candidates(source);
    let savings = scenario::savings(source, &candidates, &SPEEDUPS);
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let most = |candidate: usize| savings[candidate].last().map_or(0.0, |saving| saving.best);
    order.sort_by(|&a, &b| most(b).total_cmp(&most(a)).then(a.cmp(&b)));
    let mut rows = Vec::with_capacity(candidates.len() * SPEEDUPS.len());
    for candidate in order {
        for (saving, &speedup) in savings[candidate].iter().zip(&SPEEDUPS) {
            let candidate = &candidates[candidate];
            let ns = |share: f64| (share * elapsed_ns as f64).round() as i64;
            rows.push(WhatIfRow {
                path: candidate.path.clone(),
                scope: candidate.scope,
                kind: candidate.kind,
                object: candidate.object.clone(),
                stack: candidate.stack.clone(),
                speedup,
                saving: saving.best,
                saving_low: saving.low,
                saving_high: saving.high,
                saving_ns: ns(saving.best),
                saving_low_ns: ns(saving.low),
                saving_high_ns: ns(saving.high),
            });
        }
    }
    rows
}
