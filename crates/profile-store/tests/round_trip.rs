//! What is written is what is read, for every value that a profile can hold.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use transect_analyze::synthetic::{empty, image_server, large, large_latency, latency_service, walked_proxy};
use transect_profile_model::{
    ApiClass, Component, Flow, Latency, LatencyBucket, LatencySampling, LatencySlice, Lock, Loss, LossKind, Metric,
    Process, Profile, Thread, Timing, TraceEvent, Wait,
};
use transect_profile_store::{TABLES, read, write};

fn round_trip(profile: &Profile) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, profile).unwrap();
    read(&path).unwrap()
}

#[test]
fn realistic_profiles_come_back_unchanged() {
    for profile in [empty(), image_server(), large(500, 3), latency_service(), large_latency(400), walked_proxy()] {
        assert!(round_trip(&profile) == profile, "{:?}", profile.meta);
    }
}

#[test]
fn counts_are_in_no_column_of_nanoseconds() {
    let mut profile = latency_service();
    profile.meta.latency.as_mut().unwrap().metric = Metric::PageFaults;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, &profile).unwrap();
    assert!(read(&path).unwrap() == profile);
    let names = std::fs::read(path.join("latency.parquet")).unwrap();
    let has = |name: &[u8]| names.windows(name.len()).any(|window| window == name);
    assert!(!has(b"total_ns") && !has(b"max_ns") && has(b"total") && has(b"max"));
}

#[test]
fn every_timing_mode_comes_back() {
    let modes = [Timing::Adaptive { budget: 0.03 }, Timing::Full, Timing::Count, Timing::Every { period: 64 }];
    for timing in modes {
        let mut profile = empty();
        profile.meta.timing = timing;
        profile.meta.exit_status = None;
        assert_eq!(round_trip(&profile), profile);
    }
}

#[test]
fn numbers_that_json_cannot_hold_become_zero_instead_of_breaking_the_profile() {
    let mut profile = empty();
    profile.meta.overhead_estimate = f64::NAN;
    profile.meta.clock.ticks_per_ns = f64::INFINITY;
    let mut session = latency_service().meta.latency.unwrap();
    session.toggles_per_second = f64::NAN;
    session.samples_per_second = f64::INFINITY;
    session.sampling = LatencySampling::Budget { share: f64::NAN };
    profile.meta.latency = Some(session);
    let read = round_trip(&profile);
    let session = read.meta.latency.as_ref().unwrap();
    assert_eq!((session.toggles_per_second, session.samples_per_second), (0.0, 0.0));
    assert_eq!(session.sampling, LatencySampling::Budget { share: 0.0 });
    assert_eq!((read.meta.overhead_estimate, read.meta.clock.ticks_per_ns), (0.0, 0.0));
}

/// Folders of versions that knew no latencies: the tables are neither listed nor there.
#[test]
fn profiles_without_the_latency_tables_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.transect");
    write(&path, &image_server()).unwrap();
    let meta = path.join("meta.json");
    let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
    for table in ["latency", "latency_histogram", "latency_slices"] {
        value["tables"].as_object_mut().unwrap().remove(table).unwrap();
        std::fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
    }
    std::fs::write(&meta, transect_profile_store::sealed_meta(value)).unwrap();
    assert_eq!(read(&path).unwrap(), image_server());
    write(&path, &latency_service()).unwrap();
    assert!(read(&path).unwrap() == latency_service(), "and replaced");
}

#[test]
fn only_the_user_may_read_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, &image_server()).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    let mut expected: Vec<String> = TABLES.iter().map(|table| format!("{table}.parquet")).collect();
    expected.push("meta.json".into());
    expected.sort();
    assert_eq!(names, expected);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,12}", Just("a\0b\n\u{1b}[31m\u{202e}<script>".to_owned())]
}

fn class() -> impl Strategy<Value = ApiClass> {
    prop::sample::select(vec![ApiClass::Compute, ApiClass::Io, ApiClass::Lock, ApiClass::Wait, ApiClass::CountOnly])
}

fn flow() -> impl Strategy<Value = Flow> {
    let ids = (0_u32..2, 0_u32..1000, 0_u32..3, 0_u32..3);
    let times = prop::collection::vec(any::<Option<i64>>(), 12);
    (ids, (text(), text(), text()), class(), any::<[i64; 5]>(), times, any::<bool>()).prop_map(
        |((thread, context, caller, callee), (api, symbol, version), class, calls, times, dlsym)| Flow {
            thread,
            context,
            caller,
            callee,
            api,
            symbol,
            version,
            class,
            calls: calls[0],
            timed_calls: calls[1],
            abandoned_calls: calls[2],
            total_ns: times[0],
            total_ns_low: times[1],
            total_ns_high: times[2],
            self_ns: times[3],
            self_ns_low: times[4],
            self_ns_high: times[5],
            called_back_ns: calls[3],
            called_back_same_edge_ns: calls[4],
            attributed_ns: times[6],
            criticality_ns: times[11],
            p50_ns: times[7],
            p99_ns: times[8],
            max_ns: times[9],
            bytes: times[10],
            dlsym,
        },
    )
}

fn bucket() -> impl Strategy<Value = LatencyBucket> {
    any::<[i64; 3]>().prop_map(|n| LatencyBucket { low: n[0], high: n[1], count: n[2] })
}

fn buckets() -> impl Strategy<Value = Vec<LatencyBucket>> {
    prop::collection::vec(bucket(), 0..5)
}

prop_compose! {
    fn profile()(
        components in prop::collection::vec((text(), text(), any::<bool>(), any::<bool>()), 3),
        threads in prop::collection::vec((any::<i32>(), text(), text(), text(), any::<[i64; 8]>()), 2),
        executable in text(),
        flows in prop::collection::vec(flow(), 0..20),
        waits in prop::collection::vec((0_u32..2, text(), text(), any::<[i64; 2]>(), 0_u32..3), 0..4),
        locks in prop::collection::vec((text(), text(), any::<[i64; 4]>()), 0..4),
        trace in prop::collection::vec((any::<i64>(), 0_u32..2, 0_u32..3, text(), any::<[i64; 6]>()), 0..4),
        latency in prop::collection::vec((0_u32..3, text(), text(), text(), any::<[i64; 5]>(), any::<Option<i64>>(), buckets()), 1..4),
        slices in prop::collection::vec((0_u32..1, any::<[i64; 2]>(), bucket()), 0..6),
        loss in prop::collection::vec((text(), any::<i64>(), text()), 0..3),
    ) -> Profile {
        let mut profile = empty();
        profile.components = components.into_iter()
            .enumerate()
            .map(|(row, (path, build_id, executable, synthetic))| Component {
                path,
                build_id,
                executable,
                synthetic,
                static_in: (synthetic && row > 0).then(|| row as u32 - 1),
            })
            .collect();
        profile.processes = vec![Process { pid: 7, parent_pid: 1, executable, start_ns: -1, wall_ns: i64::MAX }];
        profile.threads = threads.into_iter().map(|(tid, name, group, start_routine, n)| Thread {
            process: 0, tid, name, group, start_routine, start_ns: n[0], wall_ns: n[1], busy_ns: n[2], wait_ns: n[3],
            calls: n[4], outermost_ns: n[5], outermost_attributed_ns: n[6], attributed_ns: n[7],
        }).collect();
        profile.flows = flows;
        profile.waits = waits.into_iter()
            .map(|(thread, api, object, n, caller)| Wait { thread, api, object, count: n[0], ns: n[1], caller }).collect();
        profile.locks = locks.into_iter().map(|(object, path, n)| Lock {
            process: 0, object, path, acquisitions: n[0], contended: n[1], wait_ns: n[2], hold_ns: n[3],
            hold_ns_low: (n[0] > 1).then_some(n[1]), hold_ns_high: (n[0] > 1).then_some(n[2]),
        }).collect();
        profile.trace = trace.into_iter()
            .map(|(time_ns, thread, caller, api, args)| TraceEvent { time_ns, thread, caller, api, args }).collect();
        profile.latency = latency.into_iter().map(|(component, function, symbol, file, n, calls_estimated, histogram)| Latency {
            process: 0, component, function, symbol, address: n[0], file, line: n[0] as i32, calls_seen: n[1],
            samples: n[2], total: n[3], total_estimated: calls_estimated.map(|calls: i64| calls / 2), max: n[4], calls_estimated, calls_error: calls_estimated.map(|calls| calls / 7), histogram,
        }).collect();
        profile.latency_slices = slices.into_iter()
            .map(|(latency, n, bucket)| LatencySlice { latency, start_ns: n[0], end_ns: n[1], bucket }).collect();
        profile.loss = loss.into_iter()
            .map(|(place, count, reason)| Loss { what: LossKind::SkippedFunctions, place, count, reason }).collect();
        profile
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(transect_testkit::cases(16, 200)))]

    #[test]
    fn any_profile_comes_back_unchanged(profile in profile()) {
        prop_assert_eq!(round_trip(&profile), profile);
    }
}

#[test]
fn writing_is_part_of_a_recordings_end() {
    let mut profile = image_server();
    let overhead = profile.meta.overhead.get_or_insert_default();
    overhead.end_ns = 1_000;
    let share = overhead.share;
    let written = round_trip(&profile).meta.overhead.unwrap();
    assert!(written.end_ns > 1_000 && written.share != share, "{written:?}");
    // Where nobody waits for it there is none.
    profile.meta.overhead.get_or_insert_default().end_ns = 0;
    assert_eq!(round_trip(&profile), profile);
}
