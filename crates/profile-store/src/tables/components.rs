use transect_profile_model::{Component, Profile};

use super::{boolean, file_name, optional_int64, own_id, text};
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
        optional_int64("static_in", rows, |c| c.static_in.map(i64::from)),
    ]
}

pub(crate) fn read(table: &TableReader) -> Result<Vec<Component>, StoreError> {
    let mut paths = table.text("path")?.into_iter();
    let mut build_ids = table.text("build_id")?.into_iter();
    let mut executables = table.boolean("executable")?.into_iter();
    let mut synthetics = table.boolean("synthetic")?.into_iter();
    // Profiles of earlier versions know of no static components.
    let static_in = if table.has("static_in") { table.optional_int64("static_in")? } else { vec![None; table.rows()] };
    let parent = |(row, id): (usize, Option<i64>)| {
        let known = |id: i64| u32::try_from(id).ok().filter(|&id| (id as usize) < table.rows());
        match id {
            None => Ok(None),
            Some(id) => known(id).map(Some).ok_or_else(|| table.bad_row(row, format!("static_in {id} does not exist"))),
        }
    };
    let mut parents = static_in.into_iter().enumerate().map(parent).collect::<Result<Vec<_>, _>>()?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Component {
            path: paths.next()?,
            build_id: build_ids.next()?,
            executable: executables.next()?,
            synthetic: synthetics.next()?,
            static_in: parents.next()?,
        })
    })
    .collect())
}
