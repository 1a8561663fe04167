use transect_profile_model::{Component, Profile};

use super::{boolean, file_name, own_id, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.components.as_slice();
    vec![
        own_id(rows),
        text("name", rows, |c| file_name(&c.path)),
        text("path", rows, |c| &c.path),
        text("build_id", rows, |c| &c.build_id),
        boolean("executable", rows, |c| c.executable),
        boolean("synthetic", rows, |c| c.synthetic),
    ]
}

pub(crate) fn read(table: &TableReader) -> Result<Vec<Component>, StoreError> {
    let mut paths = table.text("path")?.into_iter();
    let mut build_ids = table.text("build_id")?.into_iter();
    let mut executables = table.boolean("executable")?.into_iter();
    let mut synthetics = table.boolean("synthetic")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Component {
            path: paths.next()?,
            build_id: build_ids.next()?,
            executable: executables.next()?,
            synthetic: synthetics.next()?,
        })
    })
    .collect())
}
