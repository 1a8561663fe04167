use transect_profile_model::{Dependence, FeatureId, FeatureRegion, Profile, RegionId, Verdict};

use super::super::{id, text};
use super::{disordered, feature};
use crate::StoreError;
use crate::column::{Column, TableReader};

/// One feature of one region.
struct Row {
    region: RegionId,
    feature: FeatureId,
    dependence: Dependence,
    verdict: Option<Verdict>,
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let of = |(region, row)| {
        let row: &FeatureRegion = row;
        let uses = row.features.iter().zip(&row.dependences).zip(&row.verdicts);
        uses.map(move |((&feature, &dependence), &verdict)| Row { region, feature, dependence, verdict })
    };
    let rows: Vec<Row> = (0_u32..).zip(&profile.feature.regions).flat_map(of).collect();
    vec![
        id("region_id", &rows, |r| r.region),
        id("feature_id", &rows, |r| r.feature),
        text("feature", &rows, |r| feature(profile, r.feature)),
        text("dependence", &rows, |r| r.dependence.as_str()),
        text("verdict", &rows, |r| r.verdict.map_or("", Verdict::as_str)),
    ]
}

/// Puts each feature into its regions.
pub(crate) fn read(table: &TableReader, features: usize, regions: &mut [FeatureRegion]) -> Result<(), StoreError> {
    let region = table.ids("region_id", regions.len())?;
    let feature = table.ids("feature_id", features)?;
    let dependence = table.words("dependence", Dependence::parse)?;
    let verdict =
        table.words("verdict", |word| if word.is_empty() { Some(None) } else { Verdict::parse(word).map(Some) })?;
    let uses = feature.into_iter().zip(dependence).zip(verdict);
    for (row, (region, ((feature, dependence), verdict))) in region.into_iter().zip(uses).enumerate() {
        let region = &mut regions[region as usize];
        region.dependences.push(dependence);
        region.verdicts.push(verdict);
        let set = &mut region.features;
        set.push(feature);
        if disordered(&set[set.len().saturating_sub(2)..]).is_some() {
            return Err(table.bad_row(row, "features of regions out of order"));
        }
    }
    Ok(())
}
