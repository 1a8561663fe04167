use transect_profile_model::{Lock, Profile};

use super::{id, int32, int64, optional_int64, process, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.locks.as_slice();
    vec![
        id("process_id", rows, |l| l.process),
        int32("pid", rows, |l| process(profile, l.process).pid),
        text("object", rows, |l| &l.object),
        text("path", rows, |l| &l.path),
        int64("acquisitions", rows, |l| l.acquisitions),
        int64("contended", rows, |l| l.contended),
        int64("wait_ns", rows, |l| l.wait_ns),
        int64("hold_ns", rows, |l| l.hold_ns),
        optional_int64("hold_ns_low", rows, |l| l.hold_ns_low),
        optional_int64("hold_ns_high", rows, |l| l.hold_ns_high),
    ]
}

pub(crate) fn read(table: &TableReader, processes: usize) -> Result<Vec<Lock>, StoreError> {
    let mut process = table.ids("process_id", processes)?.into_iter();
    let mut object = table.text("object")?.into_iter();
    let mut path = table.text("path")?.into_iter();
    let mut acquisitions = table.int64("acquisitions")?.into_iter();
    let mut contended = table.int64("contended")?.into_iter();
    let mut wait_ns = table.int64("wait_ns")?.into_iter();
    let mut hold_ns = table.int64("hold_ns")?.into_iter();
    // Recordings of older versions have none.
    let optional = |name| if table.has(name) { table.optional_int64(name) } else { Ok(vec![None; table.rows()]) };
    let mut hold_ns_low = optional("hold_ns_low")?.into_iter();
    let mut hold_ns_high = optional("hold_ns_high")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Lock {
            process: process.next()?,
            object: object.next()?,
            path: path.next()?,
            acquisitions: acquisitions.next()?,
            contended: contended.next()?,
            wait_ns: wait_ns.next()?,
            hold_ns: hold_ns.next()?,
            hold_ns_low: hold_ns_low.next()?,
            hold_ns_high: hold_ns_high.next()?,
        })
    })
    .collect())
}
