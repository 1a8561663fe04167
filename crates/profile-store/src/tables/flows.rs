use transect_profile_model::{ApiClass, Flow, Profile};

use super::{boolean, component, file_name, id, int32, int64, optional_int64, process, text, thread};
use crate::StoreError;
use crate::column::{Column, TableReader};

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.flows.as_slice();
    vec![
        id("thread_id", rows, |f| f.thread),
        int32("pid", rows, |f| process(profile, thread(profile, f.thread).process).pid),
        int32("tid", rows, |f| thread(profile, f.thread).tid),
        text("thread", rows, |f| &thread(profile, f.thread).name),
        text("thread_group", rows, |f| &thread(profile, f.thread).group),
        id("context", rows, |f| f.context),
        id("caller_id", rows, |f| f.caller),
        text("caller", rows, |f| file_name(&component(profile, f.caller).path)),
        text("caller_path", rows, |f| &component(profile, f.caller).path),
        id("callee_id", rows, |f| f.callee),
        text("callee", rows, |f| file_name(&component(profile, f.callee).path)),
        text("callee_path", rows, |f| &component(profile, f.callee).path),
        text("api", rows, |f| &f.api),
        text("symbol", rows, |f| &f.symbol),
        text("version", rows, |f| &f.version),
        text("class", rows, |f| f.class.as_str()),
        boolean("wait", rows, |f| f.class.is_wait()),
        int64("calls", rows, |f| f.calls),
        int64("timed_calls", rows, |f| f.timed_calls),
        int64("abandoned_calls", rows, |f| f.abandoned_calls),
        optional_int64("total_ns", rows, |f| f.total_ns),
        optional_int64("total_ns_low", rows, |f| f.total_ns_low),
        optional_int64("total_ns_high", rows, |f| f.total_ns_high),
        optional_int64("self_ns", rows, |f| f.self_ns),
        optional_int64("self_ns_low", rows, |f| f.self_ns_low),
        optional_int64("self_ns_high", rows, |f| f.self_ns_high),
        int64("called_back_ns", rows, |f| f.called_back_ns),
        int64("called_back_same_edge_ns", rows, |f| f.called_back_same_edge_ns),
        optional_int64("attributed_ns", rows, |f| f.attributed_ns),
        optional_int64("criticality_ns", rows, |f| f.criticality_ns),
        optional_int64("p50_ns", rows, |f| f.p50_ns),
        optional_int64("p99_ns", rows, |f| f.p99_ns),
        optional_int64("max_ns", rows, |f| f.max_ns),
        optional_int64("bytes", rows, |f| f.bytes),
        boolean("dlsym", rows, |f| f.dlsym),
    ]
}

pub(crate) fn read(table: &TableReader, threads: usize, components: usize) -> Result<Vec<Flow>, StoreError> {
    let classes = table
        .text("class")?
        .into_iter()
        .enumerate()
        .map(|(row, word)| ApiClass::parse(&word).ok_or_else(|| table.bad_row(row, format!("class {word:?}"))))
        .collect::<Result<Vec<_>, _>>()?;
    let mut class = classes.into_iter();
    let mut thread = table.ids("thread_id", threads)?.into_iter();
    // A context is a number of its own; the tables of later collectors name it.
    let mut context = table.ids("context", i32::MAX as usize)?.into_iter();
    let mut caller = table.ids("caller_id", components)?.into_iter();
    let mut callee = table.ids("callee_id", components)?.into_iter();
    let mut api = table.text("api")?.into_iter();
    let mut symbol = table.text("symbol")?.into_iter();
    let mut version = table.text("version")?.into_iter();
    let mut calls = table.int64("calls")?.into_iter();
    let mut timed_calls = table.int64("timed_calls")?.into_iter();
    let mut abandoned_calls = table.int64("abandoned_calls")?.into_iter();
    let mut total_ns = table.optional_int64("total_ns")?.into_iter();
    let mut total_ns_low = table.optional_int64("total_ns_low")?.into_iter();
    let mut total_ns_high = table.optional_int64("total_ns_high")?.into_iter();
    let mut self_ns = table.optional_int64("self_ns")?.into_iter();
    let mut self_ns_low = table.optional_int64("self_ns_low")?.into_iter();
    let mut self_ns_high = table.optional_int64("self_ns_high")?.into_iter();
    // Absent in profiles of versions that did not tell calls by callbacks apart.
    let called_back = |name: &str| if table.has(name) { table.int64(name) } else { Ok(vec![0; table.rows()]) };
    let mut called_back_ns = called_back("called_back_ns")?.into_iter();
    let mut called_back_same_edge_ns = called_back("called_back_same_edge_ns")?.into_iter();
    let mut attributed_ns = table.optional_int64("attributed_ns")?.into_iter();
    // Absent in profiles of versions without the scheduler collector.
    let criticality = table.has("criticality_ns").then(|| table.optional_int64("criticality_ns")).transpose()?;
    let mut criticality_ns = criticality.unwrap_or_else(|| vec![None; table.rows()]).into_iter();
    let mut p50_ns = table.optional_int64("p50_ns")?.into_iter();
    let mut p99_ns = table.optional_int64("p99_ns")?.into_iter();
    let mut max_ns = table.optional_int64("max_ns")?.into_iter();
    let mut bytes = table.optional_int64("bytes")?.into_iter();
    let mut dlsym = table.boolean("dlsym")?.into_iter();
    let mut flows = Vec::with_capacity(table.rows());
    flows.extend(std::iter::from_fn(|| {
        Some(Flow {
            thread: thread.next()?,
            context: context.next()?,
            caller: caller.next()?,
            callee: callee.next()?,
            api: api.next()?,
            symbol: symbol.next()?,
            version: version.next()?,
            class: class.next()?,
            calls: calls.next()?,
            timed_calls: timed_calls.next()?,
            abandoned_calls: abandoned_calls.next()?,
            total_ns: total_ns.next()?,
            total_ns_low: total_ns_low.next()?,
            total_ns_high: total_ns_high.next()?,
            self_ns: self_ns.next()?,
            self_ns_low: self_ns_low.next()?,
            self_ns_high: self_ns_high.next()?,
            called_back_ns: called_back_ns.next()?,
            called_back_same_edge_ns: called_back_same_edge_ns.next()?,
            attributed_ns: attributed_ns.next()?,
            criticality_ns: criticality_ns.next()?,
            p50_ns: p50_ns.next()?,
            p99_ns: p99_ns.next()?,
            max_ns: max_ns.next()?,
            bytes: bytes.next()?,
            dlsym: dlsym.next()?,
        })
    }));
    Ok(flows)
}
