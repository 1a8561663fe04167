//! Tables of features, their regions and the time in them.

pub(crate) mod contexts;
pub(crate) mod features;
pub(crate) mod nodes;
pub(crate) mod region_features;
pub(crate) mod regions;
pub(crate) mod slices;
pub(crate) mod variables;

use transect_profile_model::{FeatureId, FeatureRegion, Profile, RegionId, RegionNode};

pub(crate) const FEATURES: &str = "features";
pub(crate) const REGIONS: &str = "regions";
pub(crate) const REGION_FEATURES: &str = "region_features";
pub(crate) const NODES: &str = "region_nodes";
pub(crate) const SLICES: &str = "region_slices";
pub(crate) const CONTEXTS: &str = "region_contexts";
pub(crate) const VARIABLES: &str = "feature_variables";

fn feature(profile: &Profile, id: FeatureId) -> &str {
    &profile.feature.features[id as usize].name
}

fn function(profile: &Profile, region: Option<RegionId>) -> &str {
    region.map_or("", |id| &profile.feature.regions[id as usize].function)
}

/// Names of features for one cell, separated by commas.
fn set(profile: &Profile, features: &[FeatureId]) -> String {
    features.iter().map(|&id| feature(profile, id)).collect::<Vec<_>>().join(",")
}

/// What is wrong with a node's place in its tree, if anything.
fn misplaced(nodes: &[RegionNode], row: usize) -> Option<&'static str> {
    let node = &nodes[row];
    let Some(parent) = node.parent else {
        return node.region.is_some().then_some("has a region but no parent");
    };
    if node.region.is_none() {
        return Some("has a parent but no region");
    }
    let parent = parent as usize;
    if parent >= row {
        return Some("does not come after its parent");
    }
    (nodes[parent].thread != node.thread).then_some("is of another thread than its parent")
}

/// What is wrong with a region's set of features, if anything.
fn disordered(features: &[FeatureId]) -> Option<&'static str> {
    (!features.is_sorted_by(|a, b| a < b)).then_some("has features out of order")
}

/// What is wrong with what is known of a region's features, if anything.
fn unmatched(region: &FeatureRegion) -> Option<&'static str> {
    let each = [region.dependences.len(), region.verdicts.len()];
    each.iter()
        .any(|&len| len != region.features.len())
        .then_some("has not one dependence and verdict for each feature")
}

/// First row that contradicts others, in words.
pub(crate) fn malformed(profile: &Profile) -> Option<String> {
    let tables = &profile.feature;
    let component = |id: u32| (id as usize) < profile.components.len();
    let thread = |id: u32| (id as usize) < profile.threads.len();
    let feature = |id: u32| (id as usize) < tables.features.len();
    let region = |id: u32| (id as usize) < tables.regions.len();
    let find = |table: &str, bad: Option<usize>| bad.map(|row| format!("{table} row {row} points to a missing row"));
    let wrong = |table: &str, rows: usize, why: &dyn Fn(usize) -> Option<&'static str>| {
        (0..rows).find_map(|row| Some(format!("{table} row {row} {}", why(row)?)))
    };
    let regions = tables.regions.iter().position(|r| {
        !(component(r.component) && r.features.iter().all(|&id| feature(id)) && r.parent.is_none_or(region))
    });
    find(REGIONS, regions)
        .or_else(|| wrong(REGIONS, tables.regions.len(), &|row| disordered(&tables.regions[row].features)))
        .or_else(|| wrong(REGIONS, tables.regions.len(), &|row| unmatched(&tables.regions[row])))
        .or_else(|| find(NODES, tables.nodes.iter().position(|n| !(thread(n.thread) && n.region.is_none_or(region)))))
        .or_else(|| wrong(NODES, tables.nodes.len(), &|row| misplaced(&tables.nodes, row)))
        .or_else(|| find(SLICES, tables.slices.iter().position(|s| s.node as usize >= tables.nodes.len())))
        .or_else(|| find(CONTEXTS, tables.contexts.iter().position(|c| !c.regions.iter().all(|&id| region(id)))))
        .or_else(|| {
            find(VARIABLES, tables.variables.iter().position(|v| !(component(v.component) && feature(v.feature))))
        })
}
