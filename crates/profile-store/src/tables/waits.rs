use transect_profile_model::{Profile, Wait};

use super::{component, file_name, id, int32, int64, process, text, thread};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.waits.as_slice();
    vec![
        id("thread_id", rows, |w| w.thread),
        int32("pid", rows, |w| process(profile, thread(profile, w.thread).process).pid),
        int32("tid", rows, |w| thread(profile, w.thread).tid),
        text("thread", rows, |w| &thread(profile, w.thread).name),
        text("thread_group", rows, |w| &thread(profile, w.thread).group),
        text("api", rows, |w| &w.api),
        text("object", rows, |w| &w.object),
        int64("count", rows, |w| w.count),
        int64("ns", rows, |w| w.ns),
        id("caller_id", rows, |w| w.caller),
        text("caller", rows, |w| file_name(&component(profile, w.caller).path)),
    ]
}

pub(crate) fn read(table: &TableReader, threads: usize, components: usize) -> Result<Vec<Wait>, StoreError> {
    let mut thread = table.ids("thread_id", threads)?.into_iter();
    let mut api = table.text("api")?.into_iter();
    let mut object = table.text("object")?.into_iter();
    let mut count = table.int64("count")?.into_iter();
    let mut ns = table.int64("ns")?.into_iter();
    let mut caller = table.ids("caller_id", components)?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Wait {
            thread: thread.next()?,
            api: api.next()?,
            object: object.next()?,
            count: count.next()?,
            ns: ns.next()?,
            caller: caller.next()?,
        })
    })
    .collect())
}
