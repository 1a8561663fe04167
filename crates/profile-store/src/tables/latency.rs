use transect_profile_model::{Latency, LatencyBucket, LatencyId, LatencySlice, Meta, Profile};

use super::{component, file_name, id, int32, int64, optional_int64, own_id, process, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

/// Names of the columns that hold amounts: who takes counts for nanoseconds shall find no column.
struct Amounts {
    total: &'static str,
    estimated: &'static str,
    max: &'static str,
    low: &'static str,
    high: &'static str,
}

const TIMES: Amounts =
    Amounts { total: "total_ns", estimated: "total_estimated_ns", max: "max_ns", low: "low_ns", high: "high_ns" };
const COUNTS: Amounts = Amounts { total: "total", estimated: "total_estimated", max: "max", low: "low", high: "high" };

fn amounts(meta: &Meta) -> Amounts {
    if meta.latency.as_ref().is_none_or(|session| session.metric.is_time()) { TIMES } else { COUNTS }
}

pub(super) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.latency.as_slice();
    let Amounts { total, estimated, max, .. } = amounts(&profile.meta);
    vec![
        own_id(rows),
        id("process_id", rows, |l| l.process),
        int32("pid", rows, |l| process(profile, l.process).pid),
        id("component_id", rows, |l| l.component),
        text("component", rows, |l| component_name(profile, l)),
        text("component_path", rows, |l| &component(profile, l.component).path),
        text("function", rows, |l| &l.function),
        text("symbol", rows, |l| &l.symbol),
        int64("address", rows, |l| l.address),
        text("file", rows, |l| &l.file),
        int32("line", rows, |l| l.line),
        int64("calls_seen", rows, |l| l.calls_seen),
        int64("samples", rows, |l| l.samples),
        int64(total, rows, |l| l.total),
        int64(max, rows, |l| l.max),
        optional_int64(estimated, rows, |l| l.total_estimated),
        optional_int64("calls_estimated", rows, |l| l.calls_estimated),
        optional_int64("calls_error", rows, |l| l.calls_error),
    ]
}

/// One row per function and bucket.
pub(super) fn histogram_columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows: Vec<(LatencyId, &LatencyBucket)> = (0_u32..)
        .zip(&profile.latency)
        .flat_map(|(id, latency)| latency.histogram.iter().map(move |bucket| (id, bucket)))
        .collect();
    let of = |id: LatencyId| &profile.latency[id as usize];
    let Amounts { low, high, .. } = amounts(&profile.meta);
    vec![
        id("latency_id", &rows, |r| r.0),
        id("process_id", &rows, |r| of(r.0).process),
        text("component", &rows, |r| component_name(profile, of(r.0))),
        text("function", &rows, |r| of(r.0).function.as_str()),
        int64(low, &rows, |r| r.1.low),
        int64(high, &rows, |r| r.1.high),
        int64("count", &rows, |r| r.1.count),
    ]
}

/// One row per function, slice of time and bucket.
pub(super) fn slice_columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.latency_slices.as_slice();
    let of = |row: &LatencySlice| &profile.latency[row.latency as usize];
    let Amounts { low, high, .. } = amounts(&profile.meta);
    vec![
        id("latency_id", rows, |s| s.latency),
        id("process_id", rows, |s| of(s).process),
        text("component", rows, |s| component_name(profile, of(s))),
        text("function", rows, |s| of(s).function.as_str()),
        int64("start_ns", rows, |s| s.start_ns),
        int64("end_ns", rows, |s| s.end_ns),
        int64(low, rows, |s| s.bucket.low),
        int64(high, rows, |s| s.bucket.high),
        int64("count", rows, |s| s.bucket.count),
    ]
}

fn component_name<'a>(profile: &'a Profile, latency: &Latency) -> &'a str {
    file_name(&component(profile, latency.component).path)
}

/// The rows, without histograms.
pub(crate) fn read(
    table: &TableReader,
    meta: &Meta,
    processes: usize,
    components: usize,
) -> Result<Vec<Latency>, StoreError> {
    let Amounts { total, estimated, max, .. } = amounts(meta);
    let mut process = table.ids("process_id", processes)?.into_iter();
    let mut component = table.ids("component_id", components)?.into_iter();
    let mut function = table.text("function")?.into_iter();
    let mut symbol = table.text("symbol")?.into_iter();
    let mut address = table.int64("address")?.into_iter();
    let mut file = table.text("file")?.into_iter();
    let mut line = table.int32("line")?.into_iter();
    let mut calls_seen = table.int64("calls_seen")?.into_iter();
    let mut samples = table.int64("samples")?.into_iter();
    let mut total = table.int64(total)?.into_iter();
    let mut max = table.int64(max)?.into_iter();
    // Profiles of earlier versions lack some.
    let newer = |name: &str| match table.has(name) {
        true => table.optional_int64(name),
        false => Ok(vec![None; table.rows()]),
    };
    let mut total_estimated = newer(estimated)?.into_iter();
    let mut calls_error = newer("calls_error")?.into_iter();
    let mut calls_estimated = table.optional_int64("calls_estimated")?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(Latency {
            process: process.next()?,
            component: component.next()?,
            function: function.next()?,
            symbol: symbol.next()?,
            address: address.next()?,
            file: file.next()?,
            line: line.next()?,
            calls_seen: calls_seen.next()?,
            samples: samples.next()?,
            total: total.next()?,
            max: max.next()?,
            total_estimated: total_estimated.next()?,
            calls_estimated: calls_estimated.next()?,
            calls_error: calls_error.next()?,
            histogram: Vec::new(),
        })
    })
    .collect())
}

/// Puts each bucket into its function's histogram.
pub(crate) fn read_histogram(table: &TableReader, meta: &Meta, latency: &mut [Latency]) -> Result<(), StoreError> {
    let ids = table.ids("latency_id", latency.len())?;
    for (id, bucket) in ids.into_iter().zip(buckets(table, meta)?) {
        latency[id as usize].histogram.push(bucket);
    }
    Ok(())
}

/// The slices, given the number of functions.
pub(crate) fn read_slices(table: &TableReader, meta: &Meta, functions: usize) -> Result<Vec<LatencySlice>, StoreError> {
    let ids = table.ids("latency_id", functions)?.into_iter();
    let times = table.int64("start_ns")?.into_iter().zip(table.int64("end_ns")?);
    let slice = |((latency, (start_ns, end_ns)), bucket)| LatencySlice { latency, start_ns, end_ns, bucket };
    Ok(ids.zip(times).zip(buckets(table, meta)?).map(slice).collect())
}

fn buckets(table: &TableReader, meta: &Meta) -> Result<impl Iterator<Item = LatencyBucket> + use<>, StoreError> {
    let Amounts { low, high, .. } = amounts(meta);
    let bounds = table.int64(low)?.into_iter().zip(table.int64(high)?);
    let bucket = |((low, high), count)| LatencyBucket { low, high, count };
    Ok(bounds.zip(table.int64("count")?).map(bucket))
}
