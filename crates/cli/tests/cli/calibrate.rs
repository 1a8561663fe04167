//! `transect calibrate`: its formats and files. It needs executable memory and takes some seconds.

use serde_json::Value;

use crate::command::Sandbox;

#[test]
fn json_and_picture_in_one_run() {
    let sandbox = Sandbox::new();
    let done =
        sandbox.transect(&["calibrate", "--quick", "--format", "json", "--output", "curve.svg"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(json["clock_ticks"].as_f64().unwrap() > 1.0);
    assert!(json["ticks_per_ns"].as_f64().unwrap() > 0.1);
    let rows = |key: &str| json[key].as_array().unwrap().clone();
    let splits: Vec<i64> = rows("toggle").iter().map(|row| row["split"].as_i64().unwrap()).collect();
    assert_eq!(splits, [0, 1, 2, 3, 4]);
    let tiers: Vec<String> = rows("probe").iter().map(|row| row["tier"].as_str().unwrap().to_owned()).collect();
    for tier in ["counter", "integer", "vector", "full"] {
        assert!(tiers.contains(&tier.to_owned()), "{tiers:?}");
    }
    for row in rows("wait_curve") {
        assert!(row["wait_ticks"].is_u64() && row["cold"].is_boolean() && row["toggles"].is_u64(), "{row}");
        // A site within a line is changed by one store: nothing of it can be mixed.
        assert!(row["split"] != 0 || row["failures"] == 0, "{row}");
    }
    for row in rows("serialized") {
        assert_eq!(row["failures"], 0, "{row}");
    }
    let picture = std::fs::read_to_string(sandbox.path("curve.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_measuring() {
    let sandbox = Sandbox::new();
    transect_testkit::judged("a place that can't be written", || {
        let begun = std::time::Instant::now();
        let done = sandbox.transect(&["calibrate", "--svg", "no/such/folder/curve.svg"]).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        let message = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(message.contains("no/such/folder/curve.svg"), "{message}");
        if begun.elapsed().as_secs() < 5 { Ok(()) } else { Err("it measured first".to_owned()) }
    });
}
