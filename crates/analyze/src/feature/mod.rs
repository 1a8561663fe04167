//! Time per feature: which features the program's time belongs to, alone and together, and by which regions of code.
//!
//! At each instant the *active set* of a thread is the union of the features of its open regions. Rows of features
//! partition the threads' time by it; rows of regions go by decision.

mod active_set;
mod dependence;
mod place;
mod region;
mod row;
mod strip;
mod timeline;
mod tree;

use serde::Serialize;
use transect_profile_model::{FeatureSession, Profile};

pub(crate) use active_set::{ActiveSets, names, set_in_words};
pub use dependence::keep_dependence;
pub use place::{FeatureApiRow, FeatureComponentRow};
pub use region::RegionRow;
pub use row::FeatureRow;
pub use strip::{RegionStrip, StripCell};
pub use timeline::{RegionTimeline, TimelineThread, region_timeline};
pub use tree::{RegionTree, region_tree};

use crate::matching::{Pattern, chosen_components};
use crate::prepared::Prepared;
use crate::{Names, Selection, SortKey};

/// Time per feature and per region.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FeaturesView {
    /// Time by active set: one row per set that was seen and per feature that has a region, most inclusive time first;
    /// the first is the set of no feature. Their `exclusive_ns` add up to the threads' time.
    pub features: Vec<FeatureRow>,
    /// Regions, most inclusive time first; those that were never entered, or not observed, last.
    pub regions: Vec<RegionRow>,
    /// Regions without any time; for renderers, also where rows are left out by `top` and `min_percent`.
    #[serde(skip)]
    pub silent: Vec<RegionRow>,
    /// How it was recorded; `None` without the feature collector. Not a key of the JSON object: it is in `meta`.
    #[serde(skip)]
    pub session: Option<FeatureSession>,
    /// Time of all threads, ns; for renderers.
    #[serde(skip)]
    pub whole_ns: i64,
    /// Variables of the model that were not found, each with its feature and the reason; for renderers.
    #[serde(skip)]
    pub lost: Vec<LostVariable>,
    /// Variables of the model.
    #[serde(skip)]
    pub variables: usize,
    /// Features of the model that have no region at all, by name; for renderers.
    #[serde(skip)]
    pub without_regions: Vec<String>,
    /// APIs called per active set: the key `feature_apis`, if calls between components were recorded too.
    #[serde(rename = "feature_apis", skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<FeatureApiRow>,
    /// Time in components per active set: the key `feature_components`, likewise.
    #[serde(rename = "feature_components", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<FeatureComponentRow>,
    /// When the regions of the busiest threads ran, coarsely; for terminals.
    #[serde(skip)]
    pub strips: Vec<RegionStrip>,
}

/// A variable of the model that the compiler did not find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostVariable {
    /// Its feature.
    pub feature: String,
    /// As the model names it.
    pub variable: String,
    /// Why.
    pub reason: String,
}

/// Time per feature; without rows and session for a recording without the feature collector. `selection.component` and
/// `selection.api` keep regions in a component and of a function, and calls of an API; `top`, `min_percent` and `sort` work on features and
/// regions alike.
pub fn features(profile: &Profile, selection: &Selection) -> FeaturesView {
    let prepared = Prepared::new(profile);
    let mut view = of(&prepared);
    narrow(&mut view, profile, &prepared.names, selection);
    view
}

/// The view of all of the profile.
pub(crate) fn of(prepared: &Prepared<'_>) -> FeaturesView {
    let profile = prepared.profile;
    let Some(session) = profile.meta.feature.clone() else { return FeaturesView::default() };
    let tables = &profile.feature;
    let name = |feature: u32| tables.features.get(feature as usize).map_or("?", |feature| feature.name.as_str());
    let lost = tables.variables.iter().filter_map(|variable| {
        Some(LostVariable {
            feature: name(variable.feature).to_owned(),
            variable: variable.variable.clone(),
            reason: variable.lost.clone()?,
        })
    });
    let mut has_region = vec![false; tables.features.len()];
    for &feature in tables.regions.iter().flat_map(|region| &region.features) {
        has_region[feature as usize] = true;
    }
    let without = tables.features.iter().zip(&has_region).filter(|(_, has)| !**has).map(|(of, _)| of.name.clone());
    FeaturesView {
        features: row::rows(profile, &prepared.active, &has_region, &session),
        regions: region::rows(profile, &prepared.names),
        whole_ns: tables.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.exclusive_ns)),
        lost: lost.collect(),
        variables: tables.variables.len(),
        without_regions: without.collect(),
        apis: place::apis(prepared),
        components: place::components(prepared),
        strips: strip::strips(profile, &prepared.active),
        silent: Vec::new(),
        session: Some(session),
    }
}

/// Leaves out what is not selected, and sorts.
pub(crate) fn narrow(view: &mut FeaturesView, profile: &Profile, names: &Names, selection: &Selection) {
    if let Some(chosen) = chosen_components(profile, names, selection.component.as_deref()) {
        let chosen: Vec<&str> = (0..).zip(chosen).filter(|(_, chosen)| *chosen).map(|(id, _)| names.get(id)).collect();
        view.regions.retain(|region| chosen.contains(&region.component.as_str()));
        view.apis.retain(|row| chosen.contains(&row.callee.as_str()));
        view.components.retain(|row| chosen.contains(&row.component.as_str()));
    }
    if let Some(pattern) = selection.api.as_deref().map(Pattern::new) {
        view.regions.retain(|region| pattern.matches_api(&region.function, &region.function));
        view.apis.retain(|row| pattern.matches_api(&row.api, &row.api));
    }
    view.silent = view.regions.iter().filter(|row| !row.has_run()).cloned().collect();
    if let Some(least) = selection.min_percent {
        let least_ns = least / 100.0 * view.whole_ns as f64;
        view.features.retain(|row| row.inclusive_ns as f64 >= least_ns);
        view.regions.retain(|row| row.inclusive_ns as f64 >= least_ns);
    }
    match selection.sort {
        None
        | Some(SortKey::Total | SortKey::Attributed | SortKey::Wait | SortKey::Bytes | SortKey::P99 | SortKey::Max) => {
        }
        Some(SortKey::SelfTime) => {
            view.features.sort_by_key(|row| std::cmp::Reverse(row.exclusive_ns));
            view.regions.sort_by_key(|row| std::cmp::Reverse(row.exclusive_ns));
            view.apis.sort_by_key(|row| std::cmp::Reverse(row.self_ns));
        }
        Some(SortKey::Calls) => {
            view.features.sort_by_key(|row| std::cmp::Reverse(row.entries));
            view.regions.sort_by_key(|row| std::cmp::Reverse(row.entries));
            view.apis.sort_by_key(|row| std::cmp::Reverse(row.calls));
            view.components.sort_by_key(|row| std::cmp::Reverse(row.calls));
        }
        Some(SortKey::Mean) => {
            let mean = |ns: i64, entries: Option<i64>| std::cmp::Reverse(entries.map(|entries| ns / entries.max(1)));
            view.features.sort_by_key(|row| mean(row.exclusive_ns, row.entries));
            view.regions.sort_by_key(|row| mean(row.inclusive_ns, row.entries));
        }
        Some(SortKey::Name) => {
            view.features.sort_by(|a, b| a.features.cmp(&b.features));
            view.regions.sort_by(|a, b| (&a.function, a.line, a.id).cmp(&(&b.function, b.line, b.id)));
            view.apis.sort_by(|a, b| (&a.api, &a.features).cmp(&(&b.api, &b.features)));
            view.components.sort_by(|a, b| (&a.component, &a.features).cmp(&(&b.component, &b.features)));
        }
    }
    if let Some(top) = selection.top {
        // Code of no feature is the rest, and no row of its own.
        let mut left = top;
        view.features.retain(|row| {
            let is_kept = row.features.is_empty() || left > 0;
            left -= usize::from(is_kept && !row.features.is_empty());
            is_kept
        });
        view.regions.truncate(top);
        view.apis.truncate(top);
        view.components.truncate(top);
    }
}
