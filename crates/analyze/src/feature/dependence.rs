//! Which dependences count: regions that depend on features only in weaker ways are as if they were not there.

use rustc_hash::FxHashMap;
use transect_profile_model::{Dependence, FeatureTables, RegionId, RegionNode, RegionNodeId};

/// Leaves in `tables` only the features that regions depend on by `weakest` or more strongly. Regions without any go: their
/// time is that of the stack around them, their slices and their place in contexts vanish. Times still add up to the
/// threads' lives.
pub fn keep_dependence(tables: &mut FeatureTables, weakest: Dependence) {
    let regions = keep_regions(tables, weakest);
    keep_nodes(tables, &regions);
    for context in &mut tables.contexts {
        context.regions = context.regions.iter().filter_map(|&region| number(&regions, region)).collect();
    }
}

/// The new number of what has one.
fn number(numbers: &[Option<u32>], old: u32) -> Option<u32> {
    numbers.get(old as usize).copied().flatten()
}

/// Gives the regions' new numbers; `None` for those that went.
fn keep_regions(tables: &mut FeatureTables, weakest: Dependence) -> Vec<Option<RegionId>> {
    let mut kept = 0;
    let numbers: Vec<Option<RegionId>> = tables
        .regions
        .iter()
        .map(|region| {
            region.features_at(weakest).next()?;
            kept += 1;
            Some(kept - 1)
        })
        .collect();
    let parents: Vec<Option<RegionId>> = tables.regions.iter().map(|region| region.parent).collect();
    // A damaged profile's regions may lie in each other.
    let nearest = |region: Option<RegionId>| {
        let around = std::iter::successors(region, |&outer| parents.get(outer as usize).copied().flatten());
        around.take(parents.len()).find_map(|outer| number(&numbers, outer))
    };
    for region in &mut tables.regions {
        region.parent = nearest(region.parent);
        let verdicts = std::mem::take(&mut region.verdicts).into_iter().zip(&region.dependences);
        region.verdicts =
            verdicts.filter(|(_, dependence)| **dependence <= weakest).map(|(verdict, _)| verdict).collect();
        let uses = region.features.iter().copied().zip(region.dependences.iter().copied());
        (region.features, region.dependences) = uses.filter(|(_, dependence)| *dependence <= weakest).unzip();
    }
    tables.regions.retain(|region| !region.features.is_empty());
    numbers
}

/// Stacks that differ only in regions that went are one.
fn keep_nodes(tables: &mut FeatureTables, regions: &[Option<RegionId>]) {
    let mut nodes: Vec<RegionNode> = Vec::with_capacity(tables.nodes.len());
    let mut numbers: Vec<RegionNodeId> = Vec::with_capacity(tables.nodes.len());
    let mut with_own_slices = Vec::with_capacity(tables.nodes.len());
    let mut known: FxHashMap<(RegionNodeId, RegionId), RegionNodeId> = FxHashMap::default();
    for node in std::mem::take(&mut tables.nodes) {
        // A node comes after its parent.
        let parent = node.parent.and_then(|parent| numbers.get(parent as usize)).copied();
        let region = node.region.and_then(|region| number(regions, region));
        let same = match (parent, region) {
            (Some(parent), None) => Some(parent),
            (Some(parent), Some(region)) => known.get(&(parent, region)).copied(),
            (None, _) => None,
        };
        with_own_slices.push(parent.is_none() || region.is_some());
        if let Some(same) = same {
            add(&mut nodes[same as usize], &node, region.is_some());
            numbers.push(same);
            continue;
        }
        let own = nodes.len() as RegionNodeId;
        if let (Some(parent), Some(region)) = (parent, region) {
            known.insert((parent, region), own);
        }
        nodes.push(RegionNode { parent, region, ..node });
        numbers.push(own);
    }
    tables.nodes = nodes;
    tables.slices.retain_mut(|slice| {
        let old = slice.node as usize;
        slice.node = numbers.get(old).copied().unwrap_or(slice.node);
        with_own_slices.get(old).copied().unwrap_or(false)
    });
}

/// Adds another stack's numbers; its entries only if it is one of the same region.
fn add(to: &mut RegionNode, other: &RegionNode, same_region: bool) {
    to.exclusive_ns = to.exclusive_ns.saturating_add(other.exclusive_ns);
    to.exclusive_ns_low = to.exclusive_ns_low.saturating_add(other.exclusive_ns_low);
    to.exclusive_ns_high = to.exclusive_ns_high.saturating_add(other.exclusive_ns_high);
    to.cpu_ns = to.cpu_ns.zip(other.cpu_ns).map(|(own, more)| own.saturating_add(more));
    to.samples = to.samples.saturating_add(other.samples);
    if same_region {
        to.entries = to.entries.zip(other.entries).map(|(own, more)| own.saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use transect_profile_model::Verdict;

    use super::*;
    use crate::synthetic;

    /// The synthetic profile in which every second region depends on its features by content only.
    fn profile() -> FeatureTables {
        let mut tables = synthetic::feature_packer().feature;
        for (row, region) in tables.regions.iter_mut().enumerate() {
            if row % 2 == 1 {
                region.dependences.fill(Dependence::Content);
            }
        }
        tables
    }

    fn time(tables: &FeatureTables) -> FxHashMap<u32, i64> {
        let mut sums = FxHashMap::default();
        for node in &tables.nodes {
            *sums.entry(node.thread).or_default() += node.exclusive_ns;
        }
        sums
    }

    #[test]
    fn all_dependences_leave_all_as_it_is() {
        let mut tables = profile();
        let before = tables.clone();
        keep_dependence(&mut tables, Dependence::Content);
        assert_eq!(tables, before);
    }

    #[test]
    fn regions_by_content_only_go_and_times_still_add_up() {
        let before = profile();
        let mut tables = before.clone();
        keep_dependence(&mut tables, Dependence::Stored);
        assert_eq!(tables.regions.len(), before.regions.len().div_ceil(2));
        assert!(before.nodes.len() > tables.nodes.len() && !tables.nodes.is_empty());
        assert_eq!(time(&tables), time(&before));
        for (row, node) in (0..).zip(&tables.nodes) {
            assert!(node.parent.is_none_or(|parent| parent < row) && node.parent.is_some() == node.region.is_some());
            assert!(node.region.is_none_or(|region| (region as usize) < tables.regions.len()));
        }
        assert!(tables.slices.iter().all(|slice| (slice.node as usize) < tables.nodes.len()));
        assert!(tables.slices.len() < before.slices.len());
    }

    #[test]
    fn a_region_keeps_its_stronger_features() {
        let mut tables = profile();
        let region = &mut tables.regions[0];
        (region.features, region.dependences) = (vec![0, 1], vec![Dependence::Computed, Dependence::Direct]);
        region.verdicts = vec![Some(Verdict::Unseen), Some(Verdict::Confirmed)];
        keep_dependence(&mut tables, Dependence::Direct);
        assert_eq!(
            (&tables.regions[0].features, &tables.regions[0].dependences),
            (&vec![1], &vec![Dependence::Direct])
        );
        assert_eq!(tables.regions[0].verdicts, [Some(Verdict::Confirmed)]);
    }
}
