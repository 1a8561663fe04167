//! Regions as rows of a profile.

use transect_binary_info::demangle;
use transect_profile_model::{
    ComponentId, Dependence, Feature, FeatureId, FeatureRegion, FeatureTables, FeatureVariable, RegionId,
};

use crate::{RegionIndex, RegionTable};

/// Where a component's features and regions stand in a profile's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureNumbers {
    /// Row of the component's first region; the others follow in their order.
    pub first_region: RegionId,
    /// By unit: rows of its features.
    pub features: Vec<Vec<FeatureId>>,
}

impl FeatureNumbers {
    /// Row of a region.
    pub fn region(&self, region: RegionIndex) -> RegionId {
        self.first_region + region
    }
}

impl RegionTable {
    /// Adds this object's features, regions and variables to a profile's tables. Features of the same name are one.
    pub fn add_to(&self, component: ComponentId, tables: &mut FeatureTables) -> FeatureNumbers {
        let mut feature_row = |name: &str| {
            let known = tables.features.iter().position(|feature| feature.name == name);
            known.unwrap_or_else(|| {
                tables.features.push(Feature { name: name.to_owned() });
                tables.features.len() - 1
            }) as FeatureId
        };
        let features: Vec<Vec<FeatureId>> =
            self.units.iter().map(|unit| unit.features.iter().map(|name| feature_row(name)).collect()).collect();
        let first_region = tables.regions.len() as RegionId;
        let mut sites = vec![0i64; self.regions.len()];
        for region in self.sites.iter().filter_map(|site| site.region) {
            sites[region as usize] += 1;
        }
        for (number, region) in self.regions.iter().enumerate() {
            let of_unit = &features[region.unit as usize];
            let rows = region.features.iter().map(|&feature| of_unit[feature as usize]);
            let mut uses: Vec<(FeatureId, Dependence)> = rows.zip(region.dependences.iter().copied()).collect();
            uses.sort_unstable();
            let (features, dependences): (Vec<_>, Vec<_>) = uses.into_iter().unzip();
            tables.regions.push(FeatureRegion {
                component,
                number: number as i64,
                verdicts: vec![None; features.len()],
                features,
                dependences,
                kind: region.kind,
                function: demangle(&region.function),
                file: region.file.clone(),
                line: region.line.into(),
                end_line: region.end_line.into(),
                parent: region.parent.map(|parent| first_region + parent),
                sites: sites[number],
                irregular: region.irregular.clone(),
                // Whoever records says how.
                method: None,
            });
        }
        for (unit, of_unit) in self.units.iter().zip(&features) {
            tables.variables.extend(unit.variables.iter().map(|variable| FeatureVariable {
                component,
                feature: of_unit[variable.feature as usize],
                variable: variable.variable.clone(),
                lost: variable.lost.clone(),
            }));
        }
        FeatureNumbers { first_region, features }
    }
}
