use transect_profile_model::{Process, Profile};

use super::{int32, int64, own_id, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.processes.as_slice();
    vec![
        own_id(rows),
        int32("pid", rows, |p| p.pid),
        int32("parent_pid", rows, |p| p.parent_pid),
        text("executable", rows, |p| &p.executable),
        int64("start_ns", rows, |p| p.start_ns),
        int64("wall_ns", rows, |p| p.wall_ns),
    ]
}

pub(crate) fn read(table: &TableReader) -> Result<Vec<Process>, StoreError> {
    let mut pids = table.int32("pid")?.into_iter();
    let mut parents = table.int32("parent_pid")?.into_iter();
    let mut executables = table.text("executable")?.into_iter();
    let mut starts = table.int64("start_ns")?.into_iter();
    let mut walls = table.int64("wall_ns")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Process {
            pid: pids.next()?,
            parent_pid: parents.next()?,
            executable: executables.next()?,
            start_ns: starts.next()?,
            wall_ns: walls.next()?,
        })
    })
    .collect())
}
