//! The JSON that users are promised: keys, their order, and every number of a known profile.
//!
//! `TRANSECT_BLESS=1 cargo test` rewrites the golden files; look at the difference before committing it.

use std::path::Path;

use serde_json::Value;
use transect_analyze::synthetic::{Do, Program, Script, image_server, latency_service, walked_proxy};
use transect_analyze::{FullReport, Selection, full_report};

fn check(name: &str, report: &FullReport) {
    let text = serde_json::to_string_pretty(report).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let line = golden.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(golden == text, "{name} differs first at line {:?}; TRANSECT_BLESS=1 rewrites it", line.map(|n| n + 1));
}

#[test]
fn full_report_is_as_blessed() {
    check("image_server.json", &full_report(&image_server(), &Selection::default()));
}

#[test]
fn report_split_by_thread_and_cut_is_as_blessed() {
    let selection = Selection {
        component: Some("libz".into()),
        min_percent: Some(0.5),
        top: Some(6),
        by: transect_analyze::Dimensions { thread: true, process: true, feature: true },
        ..Selection::default()
    };
    check("image_server_libz_by_thread.json", &full_report(&image_server(), &selection));
}

#[test]
fn every_promised_key_is_there() {
    let value = serde_json::to_value(full_report(&image_server(), &Selection::default())).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut found = keys(&value);
    found.sort();
    assert_eq!(
        found,
        [
            "components",
            "criticality",
            "features",
            "flows",
            "latency",
            "locks",
            "loss",
            "meta",
            "regions",
            "summary",
            "threads",
            "waits",
            "walk"
        ]
    );
    let promised: [(&str, &[&str]); 8] = [
        ("summary", &["finding", "evidence", "view", "next"]),
        ("components", &["component", "path", "build_id", "self_ns", "wait_ns", "calls_in", "calls_out", "others"]),
        (
            "flows",
            &[
                "caller",
                "callee",
                "api",
                "symbol",
                "version",
                "class",
                "wait",
                "calls",
                "timed_calls",
                "abandoned_calls",
                "total_ns",
                "self_ns",
                "attributed_ns",
                "dlsym",
            ],
        ),
        ("threads", &["process", "tid", "name", "group", "start_routine", "wall_ns", "busy_ns", "wait_ns", "calls"]),
        ("waits", &["group", "api", "object", "count", "ns", "caller"]),
        (
            "locks",
            &["object", "path", "acquisitions", "contended", "wait_ns", "hold_ns", "hold_ns_low", "hold_ns_high"],
        ),
        ("loss", &["what", "where", "count", "reason"]),
        (
            "meta",
            &[
                "schema",
                "command",
                "machine",
                "clock",
                "collectors",
                "timing",
                "overhead_estimate",
                "overhead",
                "wall_ns",
            ],
        ),
    ];
    for (view, promised) in promised {
        let rows = if view == "meta" { vec![value[view].clone()] } else { value[view].as_array().unwrap().clone() };
        assert!(!rows.is_empty(), "{view}");
        for row in rows {
            let keys = keys(&row);
            for key in promised {
                assert!(keys.iter().any(|found| found == key), "{view} lacks {key}: {row}");
            }
        }
    }
}

#[test]
fn latencies_are_as_blessed() {
    check("latency_service.json", &full_report(&latency_service(), &Selection::default()));
}

#[test]
fn walk_is_as_blessed() {
    check("walked_proxy.json", &full_report(&walked_proxy(), &Selection::default()));
}

/// The promised keys come first, in the promised order; what is added stands behind them.
#[test]
fn latency_rows_keep_their_keys() {
    let report = full_report(&latency_service(), &Selection::default());
    let row = serde_json::to_string(&report.latency[0]).unwrap();
    let promised =
        ["function", "component", "calls_seen", "samples", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"];
    let position = |key: &str| row.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {row}"));
    let added = [
        "calls_estimated",
        "total_ns",
        "symbol",
        "file",
        "line",
        "address",
        "calls_low",
        "calls_high",
        "total_low_ns",
        "total_high_ns",
    ];
    assert!(promised.iter().chain(&added).map(|key| position(key)).collect::<Vec<_>>().is_sorted(), "{row}");
    assert!(!row.contains("histogram"));
}

#[test]
fn intervals_and_quantiles_stand_only_where_they_are_known() {
    let value = serde_json::to_value(full_report(&image_server(), &Selection::default())).unwrap();
    let flow = |api: &str| {
        value["flows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["api"] == api)
            .unwrap_or_else(|| panic!("{api}"))
            .clone()
    };
    let sampled = flow("malloc");
    assert!(sampled["total_ns_low"].as_i64() < sampled["total_ns"].as_i64());
    assert!(sampled["total_ns_high"].as_i64() > sampled["total_ns"].as_i64());
    // Four threads, each known within 4 %: together within 2 %, since their errors are independent.
    let half = (sampled["total_ns"].as_i64().unwrap() - sampled["total_ns_low"].as_i64().unwrap()) as f64;
    let relative = half / sampled["total_ns"].as_f64().unwrap();
    assert!((relative - 0.02).abs() < 0.001, "{relative}");
    let full = flow("deflate");
    assert!(full.get("total_ns_low").is_none() && full["p99_ns"].is_i64());
    let counted = flow("__cxa_throw");
    assert!(counted["total_ns"].is_null() && counted["self_ns"].is_null() && counted.get("total_ns").is_some());
    assert!(counted.get("thread").is_none() && counted.get("p50_ns").is_none());
    let wait = flow("pthread_cond_wait");
    assert_eq!((wait["wait"].as_bool(), wait["class"].as_str()), (Some(true), Some("wait")));
}

/// Two clients that compute, and commit under one lock.
fn schedule() -> FullReport {
    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(("execute", Do::Run(900.0)));
        steps.push(("commit", Do::Lock(0)));
        steps.push(("commit", Do::Run(300.0)));
        steps.push(("commit", Do::Sync(1_400.0)));
        steps.push(("commit", Do::Unlock(0)));
    }
    let main = vec![
        ("start_all", Do::Spawn(1)),
        ("start_all", Do::Spawn(2)),
        ("join_all", Do::Join(1)),
        ("join_all", Do::Join(2)),
        ("sum_up", Do::Run(700.0)),
    ];
    let script = |name: &str, steps| Script { name: name.into(), steps, ..Script::default() };
    let threads = vec![script("main", main), script("client1", steps.clone()), script("client2", steps)];
    full_report(&Program { cpus: 2, threads }.run().profile, &Selection::default())
}

#[test]
fn schedule_is_as_blessed() {
    check("schedule.json", &schedule());
}

#[test]
fn every_promised_key_of_criticality_is_there() {
    let value = serde_json::to_value(schedule()).unwrap();
    let promised: [(&str, &[&str]); 5] = [
        ("threads", &["process", "tid", "name", "group", "criticality_ns", "running_ns", "runnable_ns", "blocked_ns"]),
        ("paths", &["stack", "state", "criticality_ns", "spin_ns", "corrected_ns", "samples", "lines"]),
        ("parallelism", &["n", "ns"]),
        ("waits", &["kind", "object", "holder", "waker", "ns", "count", "critical_ns", "stack"]),
        ("what_if", &["path", "speedup", "saving_low", "saving_high"]),
    ];
    let criticality = &value["criticality"];
    for (table, keys) in promised {
        let row = &criticality[table][0];
        assert!(keys.iter().all(|key| row.get(key).is_some()), "{table}: {row}");
    }
    for key in ["busy_ns", "idle_ns", "unattributed_ns", "drift", "slices", "critical_slices"] {
        assert!(criticality[key].is_i64(), "{key}");
    }
    let rows = |table: &str| criticality[table].as_array().unwrap().clone();
    let lines = rows("paths").iter().flat_map(|row| row["lines"].as_array().unwrap().clone()).collect::<Vec<_>>();
    assert!(
        lines
            .iter()
            .all(|line| ["function", "file", "line", "samples", "origin"].iter().all(|key| line.get(key).is_some()))
    );
    let held = rows("waits").into_iter().find(|row| row["kind"] == "mutex").unwrap();
    assert!(["tid", "thread", "function", "stack"].iter().all(|key| held["holder"].get(key).is_some()), "{held}");
    assert!(
        rows("what_if").iter().any(|row| row["speedup"] == "inf")
            && rows("what_if").iter().any(|row| row["speedup"] == 2.0)
    );
}
