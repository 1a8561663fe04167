//! The JSON that users are promised: keys, their order, and every number of a known profile.
//!
//! `TRANSECT_BLESS=1 cargo test` rewrites the golden files; look at the difference before committing it.

use std::path::Path;

use serde_json::Value;
use transect_analyze::synthetic::{image_server, latency_service};
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
        by: "thread,process,feature".parse().unwrap(),
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
        ["components", "criticality", "flows", "latency", "locks", "loss", "meta", "summary", "threads", "waits"]
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
        ("locks", &["object", "path", "acquisitions", "contended", "wait_ns", "hold_ns"]),
        ("loss", &["what", "where", "count", "reason"]),
        ("meta", &["schema", "command", "machine", "clock", "collectors", "timing", "overhead_estimate", "wall_ns"]),
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

/// The promised keys come first, in the promised order; what is added stands behind them.
#[test]
fn latency_rows_keep_their_keys() {
    let report = full_report(&latency_service(), &Selection::default());
    let row = serde_json::to_string(&report.latency[0]).unwrap();
    let promised =
        ["function", "component", "calls_seen", "samples", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"];
    let position = |key: &str| row.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {row}"));
    let added = ["calls_estimated", "total_ns", "symbol", "file", "line", "address"];
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
