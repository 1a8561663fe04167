use transect_profile_model::{FeatureVariable, Profile};

use super::super::{boolean, component, file_name, id, text};
use super::feature;
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.feature.variables.as_slice();
    vec![
        id("component_id", rows, |v| v.component),
        text("component", rows, |v| file_name(&component(profile, v.component).path)),
        id("feature_id", rows, |v| v.feature),
        text("feature", rows, |v| feature(profile, v.feature)),
        text("variable", rows, |v| &v.variable),
        boolean("found", rows, |v| v.lost.is_none()),
        text("lost_reason", rows, |v| v.lost.as_deref().unwrap_or_default()),
    ]
}

pub(crate) fn read(
    table: &TableReader,
    components: usize,
    features: usize,
) -> Result<Vec<FeatureVariable>, StoreError> {
    let mut component = table.ids("component_id", components)?.into_iter();
    let mut feature = table.ids("feature_id", features)?.into_iter();
    let mut variable = table.text("variable")?.into_iter();
    let mut found = table.boolean("found")?.into_iter();
    let mut reason = table.text("lost_reason")?.into_iter();
    Ok(std::iter::from_fn(|| {
        let reason = reason.next()?;
        Some(FeatureVariable {
            component: component.next()?,
            feature: feature.next()?,
            variable: variable.next()?,
            lost: (!found.next()?).then_some(reason),
        })
    })
    .collect())
}
