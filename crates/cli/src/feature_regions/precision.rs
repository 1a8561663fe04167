//! How much the regions of a program say: a region that depends on most options says little.

use std::collections::BTreeMap;

use transect_feature_region::{RegionIndex, RegionTable};
use transect_profile_model::Dependence;

/// Regions by the features that count.
pub(super) struct Precision<'a> {
    /// Regions of each feature that has some, the most first.
    of_feature: Vec<(&'a str, usize)>,
    /// Regions with any feature.
    regions: usize,
    /// Of these, with more than half of the features.
    broad: usize,
}

impl<'a> Precision<'a> {
    /// Of the features that regions depend on by `weakest` or more strongly.
    pub(super) fn of(table: &'a RegionTable, weakest: Dependence) -> Self {
        let sets: Vec<Vec<&str>> = (0..table.regions.len() as RegionIndex)
            .map(|region| table.features_at(region, weakest))
            .filter(|set| !set.is_empty())
            .collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in sets.iter().flatten() {
            *counts.entry(name).or_default() += 1;
        }
        let broad = sets.iter().filter(|set| 2 * set.len() > counts.len()).count();
        let mut of_feature: Vec<(&str, usize)> = counts.into_iter().collect();
        of_feature.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self { of_feature, regions: sets.len(), broad }
    }

    /// `level 3, quick 2 · 0 of 4 regions depend on more than half of the features`; the second part from four features on,
    /// of which half is not two.
    pub(super) fn summary(&self) -> String {
        let each: Vec<String> = self.of_feature.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let mut text = each.join(", ");
        if self.of_feature.len() >= 4 {
            text += &format!(" · {} of {} regions depend on more than half of the features", self.broad, self.regions);
        }
        text
    }
}
