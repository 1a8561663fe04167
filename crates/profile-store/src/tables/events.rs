use transect_profile_model::{Profile, TraceEvent};

use super::{component, file_name, id, int32, int64, process, text, thread};
use crate::StoreError;
use crate::column::{Column, TableReader};

const ARGUMENTS: [&str; 6] = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.trace.as_slice();
    let mut columns = vec![
        int64("time_ns", rows, |e| e.time_ns),
        id("thread_id", rows, |e| e.thread),
        int32("pid", rows, |e| process(profile, thread(profile, e.thread).process).pid),
        int32("tid", rows, |e| thread(profile, e.thread).tid),
        text("thread", rows, |e| &thread(profile, e.thread).name),
        id("caller_id", rows, |e| e.caller),
        text("caller", rows, |e| file_name(&component(profile, e.caller).path)),
        text("api", rows, |e| &e.api),
    ];
    columns.extend(ARGUMENTS.iter().enumerate().map(|(index, name)| int64(name, rows, move |e| e.args[index])));
    columns
}

pub(crate) fn read(table: &TableReader, threads: usize, components: usize) -> Result<Vec<TraceEvent>, StoreError> {
    let mut time_ns = table.int64("time_ns")?.into_iter();
    let mut thread = table.ids("thread_id", threads)?.into_iter();
    let mut caller = table.ids("caller_id", components)?.into_iter();
    let mut api = table.text("api")?.into_iter();
    let args = ARGUMENTS.iter().map(|name| table.int64(name)).collect::<Result<Vec<_>, _>>()?;
    let mut row = 0..table.rows();
    Ok(std::iter::from_fn(|| {
        let row = row.next()?;
        Some(TraceEvent {
            time_ns: time_ns.next()?,
            thread: thread.next()?,
            caller: caller.next()?,
            api: api.next()?,
            args: std::array::from_fn(|argument| args[argument][row]),
        })
    })
    .collect())
}
