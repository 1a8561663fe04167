//! Each table of the folder: its columns to write, its rows from what was read.
//!
//! Tables repeat readable names beside row numbers, so that one file can be queried without the others; dictionary
//! encoding makes the repetition nearly free. Reading goes by the row numbers only.

mod components;
mod events;
pub(crate) mod feature;
mod flows;
mod latency;
mod locks;
mod processes;
mod sched;
mod threads;
mod waits;
pub(crate) mod walk;

use std::path::Path;

use transect_profile_model::{Component, Process, Profile, Thread};

use crate::column::{Column, Values};

pub(crate) use components::read as read_components;
pub(crate) use events::read as read_events;
pub(crate) use flows::read as read_flows;
pub(crate) use latency::{
    read as read_latency, read_histogram as read_latency_histogram, read_slices as read_latency_slices,
};
pub(crate) use locks::read as read_locks;
pub(crate) use processes::read as read_processes;
pub(crate) use sched::{
    dangling as dangling_sched, frames, instructions, moments as sched_moments, parallelism, samples as sched_samples,
    slices, stack_addresses, stacks, tasks, waits as sched_waits,
};
pub(crate) use stack_addresses::StackNumbers;
pub(crate) use threads::read as read_threads;
pub(crate) use waits::read as read_waits;

/// Tables of a profile, in the order in which they are written. The file of table `T` is `T.parquet`.
pub const TABLES: [&str; 33] = [
    "components",
    "processes",
    "threads",
    "flows",
    "waits",
    "locks",
    "events",
    "latency",
    "latency_histogram",
    "latency_slices",
    "tasks",
    "parallelism",
    "frames",
    "stacks",
    STACK_INSTRUCTIONS,
    STACK_ADDRESSES,
    "sched_samples",
    "sched_moments",
    SCHED_WAITS,
    SLICES,
    walk::GROUPS,
    walk::NODES,
    walk::CHAINS,
    walk::FRAMES,
    walk::STEPS,
    walk::SYSTEM_CALLS,
    feature::FEATURES,
    feature::REGIONS,
    feature::REGION_FEATURES,
    feature::NODES,
    feature::SLICES,
    feature::CONTEXTS,
    feature::VARIABLES,
];

/// Instructions of stacks' frames: left out by readers that need none.
pub(crate) const STACK_INSTRUCTIONS: &str = "stack_instructions";
/// Waits seen by the scheduler: written block by block.
pub(crate) const SCHED_WAITS: &str = "sched_waits";
/// Where stacks were without a name or line.
pub(crate) const STACK_ADDRESSES: &str = "stack_addresses";
/// The timeline: written block by block.
pub(crate) const SLICES: &str = "slices";

/// Tables that profiles of earlier versions lack: as if they had no rows.
pub(crate) const ADDED_LATER: [&str; 26] = [
    "latency",
    "latency_histogram",
    "latency_slices",
    "tasks",
    "parallelism",
    "frames",
    "stacks",
    STACK_INSTRUCTIONS,
    STACK_ADDRESSES,
    "sched_samples",
    "sched_moments",
    SCHED_WAITS,
    SLICES,
    walk::GROUPS,
    walk::NODES,
    walk::CHAINS,
    walk::FRAMES,
    walk::STEPS,
    walk::SYSTEM_CALLS,
    feature::FEATURES,
    feature::REGIONS,
    feature::REGION_FEATURES,
    feature::NODES,
    feature::SLICES,
    feature::CONTEXTS,
    feature::VARIABLES,
];

/// Columns of the table called `name`, one of those that are not written block by block.
pub(crate) fn columns<'a>(name: &str, profile: &'a Profile, numbers: &StackNumbers) -> Vec<Column<'a>> {
    match name {
        "components" => components::columns(profile),
        "processes" => processes::columns(profile),
        "threads" => threads::columns(profile),
        "flows" => flows::columns(profile),
        "waits" => waits::columns(profile),
        "locks" => locks::columns(profile),
        "events" => events::columns(profile),
        "latency" => latency::columns(profile),
        "latency_histogram" => latency::histogram_columns(profile),
        "latency_slices" => latency::slice_columns(profile),
        "tasks" => tasks::columns(profile),
        "parallelism" => parallelism::columns(profile),
        "frames" => frames::columns(profile),
        "stacks" => stacks::columns(profile, numbers),
        STACK_INSTRUCTIONS => instructions::columns(profile, numbers),
        STACK_ADDRESSES => stack_addresses::columns(profile),
        "sched_samples" => sched_samples::columns(profile, numbers),
        "sched_moments" => sched_moments::columns(profile, numbers),
        walk::GROUPS => walk::groups::columns(profile),
        walk::NODES => walk::nodes::columns(profile),
        walk::CHAINS => walk::chains::columns(profile),
        walk::FRAMES => walk::frames::columns(profile),
        walk::STEPS => walk::steps::columns(profile),
        walk::SYSTEM_CALLS => walk::system_calls::columns(profile),
        feature::FEATURES => feature::features::columns(profile),
        feature::REGIONS => feature::regions::columns(profile),
        feature::REGION_FEATURES => feature::region_features::columns(profile),
        feature::NODES => feature::nodes::columns(profile),
        feature::SLICES => feature::slices::columns(profile),
        feature::CONTEXTS => feature::contexts::columns(profile),
        feature::VARIABLES => feature::variables::columns(profile),
        other => unreachable!("no table {other}"),
    }
}

/// First row that points to a row which does not exist, in words; of the tables that are not written block by block.
pub(crate) fn dangling(profile: &Profile) -> Option<String> {
    let (components, threads) = (profile.components.len(), profile.threads.len());
    let component = |id: u32| (id as usize) < components;
    let thread = |id: u32| (id as usize) < threads;
    let process = |id: u32| (id as usize) < profile.processes.len();
    let find = |table: &str, bad: Option<usize>| bad.map(|row| format!("{table} row {row} points to a missing row"));
    let parent = |c: &Component| c.static_in.is_none_or(component);
    find("components", profile.components.iter().position(|c| !parent(c)))
        .or_else(|| find("threads", profile.threads.iter().position(|t| !process(t.process))))
        .or_else(|| {
            let bad = |f: &transect_profile_model::Flow| {
                !(thread(f.thread) && component(f.caller) && component(f.callee)) || i32::try_from(f.context).is_err()
            };
            find("flows", profile.flows.iter().position(bad))
        })
        .or_else(|| find("waits", profile.waits.iter().position(|w| !(thread(w.thread) && component(w.caller)))))
        .or_else(|| find("locks", profile.locks.iter().position(|l| !process(l.process))))
        .or_else(|| find("events", profile.trace.iter().position(|e| !(thread(e.thread) && component(e.caller)))))
        .or_else(|| {
            let bad = |l: &transect_profile_model::Latency| !(process(l.process) && component(l.component));
            find("latency", profile.latency.iter().position(bad))
        })
        .or_else(|| {
            let missing = |s: &transect_profile_model::LatencySlice| s.latency as usize >= profile.latency.len();
            find("latency_slices", profile.latency_slices.iter().position(missing))
        })
        .or_else(|| dangling_sched(profile).and_then(|(table, row)| find(table, Some(row))))
        .or_else(|| walk::malformed(profile))
        .or_else(|| feature::malformed(profile))
}

fn int32<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> i32) -> Column<'a> {
    Column { name, values: Values::Int32(rows.iter().map(get).collect()) }
}

/// A row number; the tables hold it as a signed integer.
fn id<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> u32) -> Column<'a> {
    int32(name, rows, |row| i32::try_from(get(row)).unwrap_or(i32::MAX))
}

/// The table's own row numbers.
fn own_id<'a, R>(rows: &'a [R]) -> Column<'a> {
    Column {
        name: "id",
        values: Values::OwnIds((0..rows.len()).map(|id| i32::try_from(id).unwrap_or(i32::MAX)).collect()),
    }
}

fn int64<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> i64) -> Column<'a> {
    Column { name, values: Values::Int64(rows.iter().map(get).collect()) }
}

/// Integers that seldom repeat.
fn series<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> i64) -> Column<'a> {
    Column { name, values: Values::Series(rows.iter().map(get).collect()) }
}

fn optional_int64<'a, R>(name: &'static str, rows: &'a [R], get: impl Fn(&'a R) -> Option<i64>) -> Column<'a> {
    Column { name, values: Values::OptionalInt64(rows.iter().map(get).collect()) }
}

/// Numbers that are not finite become 0: other readers stumble over them.
fn double<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> f64) -> Column<'a> {
    Column { name, values: Values::Double(rows.iter().map(|row| finite(get(row))).collect()) }
}

fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

fn boolean<'a, R>(name: &'static str, rows: &'a [R], get: impl Fn(&'a R) -> bool) -> Column<'a> {
    Column { name, values: Values::Boolean(rows.iter().map(get).collect()) }
}

fn text<'a, 'r, R>(name: &'static str, rows: &'r [R], get: impl Fn(&'r R) -> &'a str) -> Column<'a> {
    Column { name, values: Values::Text(rows.iter().map(get).collect()) }
}

/// File name of a path; the whole text if it has none.
fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

fn component(profile: &Profile, id: u32) -> &Component {
    &profile.components[id as usize]
}

fn thread(profile: &Profile, id: u32) -> &Thread {
    &profile.threads[id as usize]
}

fn process(profile: &Profile, id: u32) -> &Process {
    &profile.processes[id as usize]
}
