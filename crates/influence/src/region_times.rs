use std::collections::{BTreeMap, BTreeSet};

use transect_profile_model::FeatureTables;

/// Thread time by active set of features: the union of the features of all regions on the stack (names, ascending), ns.
/// All of them add up to the threads' lifetimes.
pub fn set_times(tables: &FeatureTables) -> BTreeMap<Vec<String>, f64> {
    let mut sets: Vec<BTreeSet<u32>> = Vec::with_capacity(tables.nodes.len());
    let mut times = BTreeMap::new();
    for node in &tables.nodes {
        // A node comes after its parent.
        let mut set = node.parent.and_then(|parent| sets.get(parent as usize)).cloned().unwrap_or_default();
        if let Some(region) = node.region.and_then(|region| tables.regions.get(region as usize)) {
            set.extend(&region.features);
        }
        let name = |id: &u32| tables.features.get(*id as usize).map(|feature| feature.name.clone());
        let mut names: Vec<String> = set.iter().filter_map(name).collect();
        names.sort();
        *times.entry(names).or_insert(0.0) += node.exclusive_ns as f64;
        sets.push(set);
    }
    times
}
