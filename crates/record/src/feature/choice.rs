//! Which regions are to be observed.

use std::path::Path;

use transect_feature_region::{RegionTable, Site, SiteKind};
use transect_profile_model::Dependence;

use super::settings::FeatureSettings;
use crate::RecordError;

/// The regions asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    features: Vec<String>,
    regions: Vec<u32>,
    dependence: Dependence,
}

impl Choice {
    /// Regions that depend on one of the features, and are among the regions; what is empty leaves nothing out.
    pub fn new(features: Vec<String>, regions: Vec<u32>) -> Self {
        Self { features, regions, dependence: Dependence::default() }
    }

    /// Of these, regions whose decision depends on a feature so, or more strongly.
    pub fn at(self, dependence: Dependence) -> Self {
        Self { dependence, ..self }
    }

    /// The weakest dependence that is wanted.
    pub fn dependence(&self) -> Dependence {
        self.dependence
    }

    /// As the settings have it.
    pub fn of(settings: &FeatureSettings) -> Self {
        Self::new(settings.features.clone(), settings.regions.clone()).at(settings.dependence)
    }

    /// Whether a region of an object is asked for.
    pub fn wants(&self, table: &RegionTable, region: u32) -> bool {
        let by_number = self.regions.is_empty() || self.regions.contains(&region);
        let is_wanted = |name: &&str| self.features.is_empty() || self.features.iter().any(|wanted| wanted == name);
        by_number && table.features_at(region, self.dependence).iter().any(is_wanted)
    }

    /// Whether a site of an object is to be on. Who restores says what is left of other regions than its own, too.
    pub fn wants_site(&self, table: &RegionTable, site: &Site) -> bool {
        site.kind == SiteKind::Restore || site.region.is_none_or(|region| self.wants(table, region))
    }

    /// Looks whether the program has what is asked for.
    ///
    /// # Errors
    /// [`RecordError::NoFeature`], [`RecordError::NoRegion`].
    pub fn check(&self, path: &Path, table: &RegionTable) -> Result<(), RecordError> {
        let known = || table.units.iter().flat_map(|unit| &unit.features);
        if let Some(unknown) = self.features.iter().find(|name| !known().any(|feature| feature == *name)) {
            let mut features: Vec<String> = known().cloned().collect();
            features.sort();
            features.dedup();
            return Err(RecordError::NoFeature {
                program: path.to_owned(),
                feature: unknown.clone(),
                features: features.join(", "),
            });
        }
        match self.regions.iter().find(|&&region| region as usize >= table.regions.len()) {
            Some(&region) => {
                Err(RecordError::NoRegion { program: path.to_owned(), region, count: table.regions.len() })
            }
            None => Ok(()),
        }
    }
}
