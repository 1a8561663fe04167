use transect_profile_model::{Dependence, FeatureId, FeatureRegion, Profile, RegionId};

use super::super::{id, text};
use super::{disordered, feature};
use crate::StoreError;
use crate::column::{Column, TableReader};

/// One feature of one region.
struct Row {
    region: RegionId,
    feature: FeatureId,
    dependence: Dependence,
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let of = |(region, row)| {
        let row: &FeatureRegion = row;
        let uses = row.features.iter().zip(&row.dependences);
        uses.map(move |(&feature, &dependence)| Row { region, feature, dependence })
    };
    let rows: Vec<Row> = (0_u32..).zip(&profile.feature.regions).flat_map(of).collect();
    vec![
        id("region_id", &rows, |r| r.region),
        id("feature_id", &rows, |r| r.feature),
        text("feature", &rows, |r| feature(profile, r.feature)),
        text("dependence", &rows, |r| r.dependence.as_str()),
    ]
}

/// Puts each feature into its regions.
pub(crate) fn read(table: &TableReader, features: usize, regions: &mut [FeatureRegion]) -> Result<(), StoreError> {
    let region = table.ids("region_id", regions.len())?;
    let feature = table.ids("feature_id", features)?;
    let dependence = table.words("dependence", Dependence::parse)?;
    for (row, ((region, feature), dependence)) in region.into_iter().zip(feature).zip(dependence).enumerate() {
        let region = &mut regions[region as usize];
        region.dependences.push(dependence);
        let set = &mut region.features;
        set.push(feature);
        if disordered(&set[set.len().saturating_sub(2)..]).is_some() {
            return Err(table.bad_row(row, "features of regions out of order"));
        }
    }
    Ok(())
}
