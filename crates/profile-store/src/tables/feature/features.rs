use transect_profile_model::{Feature, Profile};

use super::super::{own_id, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.feature.features.as_slice();
    vec![own_id(rows), text("name", rows, |f| &f.name)]
}

pub(crate) fn read(table: &TableReader) -> Result<Vec<Feature>, StoreError> {
    Ok(table.text("name")?.into_iter().map(|name| Feature { name }).collect())
}
