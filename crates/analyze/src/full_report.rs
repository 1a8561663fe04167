use serde::Serialize;
use transect_profile_model::{Meta, Profile};

use crate::prepared::Prepared;
use crate::{
    ComponentRow, CriticalityView, FeaturesView, FindingRow, FlowRow, GroupRow, LatencyRow, LockRow, LossRow,
    Selection, ThreadRow, Totals, WaitRow, WalkView,
};

/// Every view at once: what `--format json` prints without `--view`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FullReport {
    /// Facts about the recording.
    pub meta: Meta,
    /// Findings, weightiest first.
    pub summary: Vec<FindingRow>,
    /// Component view.
    pub components: Vec<ComponentRow>,
    /// Flows, longest first.
    pub flows: Vec<FlowRow>,
    /// Threads, busiest first.
    pub threads: Vec<ThreadRow>,
    /// Waiting, longest first.
    pub waits: Vec<WaitRow>,
    /// Locks.
    pub locks: Vec<LockRow>,
    /// Sampled latencies of functions, longest estimated time first.
    pub latency: Vec<LatencyRow>,
    /// Which code runs while the others wait; `None` without the scheduler collector.
    pub criticality: Option<CriticalityView>,
    /// Chains from `main` down to where the time is; `None` without a walk.
    pub walk: Option<WalkView>,
    /// Time per feature and region: the keys `features` and `regions`, empty without the feature collector.
    #[serde(flatten)]
    pub features: FeaturesView,
    /// Everything the recording did not see.
    pub loss: Vec<LossRow>,
    /// Thread groups, for renderers; not a key of the JSON object.
    #[serde(skip)]
    pub groups: Vec<GroupRow>,
    /// Denominators of the percentages, for renderers; not a key of the JSON object.
    #[serde(skip)]
    pub totals: Totals,
}

/// Every view of `profile`, each narrowed by `selection` (its `view` is ignored).
pub fn full_report(profile: &Profile, selection: &Selection) -> FullReport {
    let prepared = Prepared::new(profile);
    let threads = crate::threads(profile, selection);
    let mut criticality = crate::criticality::of(profile, &prepared.names);
    let mut walk = crate::walk::of(profile, &prepared.names);
    let mut features = crate::feature::of(&prepared);
    let summary = crate::finding::of(&prepared, criticality.as_ref(), walk.as_ref(), &features);
    crate::feature::narrow(&mut features, profile, &prepared.names, selection);
    if let Some(view) = &mut walk {
        crate::walk::narrow(view, profile, &prepared.names, selection);
    }
    if let Some(view) = &mut criticality {
        crate::criticality::narrow(view, profile, &prepared.names, selection);
    }
    FullReport {
        meta: profile.meta.clone(),
        summary,
        components: crate::component::of(&prepared, selection),
        flows: crate::flow::of(&prepared, selection),
        threads: threads.threads,
        waits: crate::waits(profile, selection),
        locks: crate::locks(profile, selection),
        latency: crate::latency::of(&prepared, selection),
        criticality,
        walk,
        features,
        loss: crate::loss(profile),
        groups: threads.groups,
        totals: prepared.totals,
    }
}
