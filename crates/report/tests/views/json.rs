//! JSON keys, which are stable, and what becomes of hostile names.

use serde_json::Value;
use transect_report::{Content, Rows, json};

use crate::sample_rows::{HOSTILE, content, full_report, views};

fn parsed(content: &Content) -> Value {
    let mut out = Vec::new();
    json::render(content, &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!std::str::from_utf8(&out).unwrap().contains(bad), "raw control characters");
    serde_json::from_slice(&out).unwrap()
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn full_object() {
    let full = parsed(&content(Rows::Overview(Box::new(full_report()))));
    assert_eq!(
        keys(&full),
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
    for key in ["caller", "callee", "api", "calls", "timed_calls", "total_ns", "self_ns", "attributed_ns", "wait"] {
        assert!(full["flows"][0].get(key).is_some(), "{key}");
    }
    assert!(full["flows"][0]["total_ns_low"].is_i64(), "sampled");
    assert!(full["flows"][2].get("total_ns_low").is_none(), "not sampled");
    for key in ["component", "path", "build_id", "self_ns", "wait_ns", "calls_in", "calls_out", "others"] {
        assert!(full["components"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(keys(&full["components"][0]["others"][0])[..2], ["attributed_ns", "calls"]);
    for key in ["schema", "command", "machine", "clock", "collectors", "timing", "overhead_estimate", "wall_ns"] {
        assert!(full["meta"].get(key).is_some(), "{key}");
    }
    assert_eq!(keys(&full["loss"][0]), ["count", "reason", "what", "where"]);
    assert_eq!(full["flows"][5]["api"], HOSTILE, "parsed strings are the program's own");
}

#[test]
fn a_view_is_an_object_with_its_key() {
    for (name, content) in views() {
        let key = match name {
            overview if overview.starts_with("overview") => continue,
            "apis" | "callers" | "flows" | "flows-criticality" => "flows",
            "criticality-none" | "criticality-contention" => "criticality",
            "cut" | "cut-over-time" | "cut-tree" => "cut",
            "annotate-instructions" => "annotate",
            "system-calls" => "system_calls",
            "walk-none" | "walk-hostile" | "walk-deep" => "walk",
            features if features.starts_with("features") => {
                let object = parsed(&content);
                // Those of flows, where they were recorded too.
                let of_flows = |key: &String| key.starts_with("feature_");
                let own: Vec<String> =
                    keys(&object).into_iter().map(|key| key.to_string()).filter(|key| !of_flows(key)).collect();
                assert_eq!(own, ["features", "regions"], "{name}");
                continue;
            }
            other => other,
        };
        let object = parsed(&content);
        assert_eq!(keys(&object), [key], "{name}");
        let objects = ["meta", "criticality", "walk", "cut", "hot", "tree", "annotate", "timeline"];
        assert!(object[key].is_array() || objects.contains(&key), "{name}");
    }
}
