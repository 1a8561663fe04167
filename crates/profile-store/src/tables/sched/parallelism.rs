use transect_profile_model::{Parallelism, Profile};

use super::super::{int32, int64, optional_int64};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.sched.parallelism.as_slice();
    let pid = |row: &Parallelism| row.process.map(|process| i64::from(profile.processes[process as usize].pid));
    vec![
        optional_int64("process_id", rows, |p| p.process.map(i64::from)),
        optional_int64("pid", rows, pid),
        int32("n", rows, |p| p.n),
        int64("ns", rows, |p| p.ns),
    ]
}

pub(crate) fn read(table: &TableReader, processes: usize) -> Result<Vec<Parallelism>, StoreError> {
    let process = table.optional_ids("process_id", processes)?.into_iter();
    let time = table.int32("n")?.into_iter().zip(table.int64("ns")?);
    Ok(process.zip(time).map(|(process, (n, ns))| Parallelism { process, n, ns }).collect())
}
