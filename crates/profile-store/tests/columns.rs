//! Columns hold the fields that they are named after, read here by what knows of no profile: a reader of ours that mixes up
//! what the writer mixed up would find nothing wrong.

mod scheduled;

use std::collections::BTreeMap;
use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use transect_analyze::synthetic::image_server;
use transect_profile_model::Profile;
use transect_profile_store::write;

/// Gives each of these fields a number of its own; which column must hold which.
macro_rules! numbered {
    ($row:expr; $($field:ident)*) => {{
        let (row, mut number) = (&mut $row, 1000_i64);
        vec![$({
            number += 1;
            row.$field = number.into();
            (stringify!($field), number)
        }),*]
    }};
}

/// Compares columns of the first row of a table.
fn check(profile: &Profile, table: &str, expected: &[(&str, i64)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, profile).unwrap();
    let reader = SerializedFileReader::new(File::open(path.join(format!("{table}.parquet"))).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let found: BTreeMap<&str, &Field> = row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
    for (column, number) in expected {
        assert_eq!(found.get(column), Some(&&Field::Long(*number)), "{table}: {column}");
    }
}

#[test]
fn flows_threads_waits_and_locks() {
    let mut profile = image_server();
    let flow = numbered!(profile.flows[0];
        calls timed_calls abandoned_calls total_ns total_ns_low total_ns_high self_ns self_ns_low self_ns_high
        attributed_ns criticality_ns p50_ns p99_ns max_ns bytes);
    let thread = numbered!(profile.threads[0];
        start_ns wall_ns busy_ns wait_ns calls outermost_ns outermost_attributed_ns attributed_ns);
    let wait = numbered!(profile.waits[0]; count ns);
    let lock = numbered!(profile.locks[0]; acquisitions contended wait_ns hold_ns hold_ns_low hold_ns_high);
    for (table, expected) in [("flows", flow), ("threads", thread), ("waits", wait), ("locks", lock)] {
        check(&profile, table, &expected);
    }
}

#[test]
fn the_schedulers_tables() {
    let mut profile = scheduled::scheduled(1, 1);
    let task = numbered!(profile.sched.tasks[0];
        start_ns end_ns criticality_ns running_ns runnable_ns blocked_ns unattributed_ns);
    let sample = numbered!(profile.sched.samples[0]; samples criticality_ns active_ns);
    let wait = numbered!(profile.sched.waits[0]; count begin_ns end_ns ns idle_ns holder_gain_ns);
    let slice = numbered!(profile.sched.slices[0]; start_ns active_ns runnable_ns criticality_ns);
    for (table, expected) in [("tasks", task), ("sched_samples", sample), ("sched_waits", wait), ("slices", slice)] {
        check(&profile, table, &expected);
    }
}
