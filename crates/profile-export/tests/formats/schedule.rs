//! Critical paths and schedules, read by the tools that the other exports are read by.

use std::io::Write;

use inferno::flamegraph;
use serde_json::Value;
use transect_analyze::synthetic::scheduled_compressor;
use transect_profile_export::{ExportError, Format, Subject, export, export_subject};
use transect_profile_model::{Profile, Space};

use crate::foreign_tool::{npm_package, read_with};
use crate::sample_profile;

fn profile() -> Profile {
    let mut profile = scheduled_compressor(3_000, 2);
    // One frame of the kernel, below `fsync`.
    let fsync = profile.sched.frames.iter().position(|frame| frame.function == "fsync").unwrap();
    let mut kernel = profile.sched.frames[fsync].clone();
    (kernel.function, kernel.space, kernel.component) = ("vfs_fsync_range".into(), Space::Kernel, None);
    profile.sched.frames.push(kernel);
    let id = (profile.sched.frames.len() - 1) as u32;
    for stack in &mut profile.sched.stacks {
        if stack.frames.last() == Some(&(fsync as u32)) {
            stack.frames.push(id);
        }
    }
    profile
}

fn exported(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, format, &mut bytes).unwrap();
    bytes
}

/// Busy and idle time: what all weights add up to.
fn elapsed(profile: &Profile) -> i64 {
    let session = profile.meta.criticality.as_ref().unwrap();
    session.busy_ns + session.idle_ns
}

#[test]
fn folded_stacks_add_up_and_are_drawn_by_inferno() {
    let profile = profile();
    let text = String::from_utf8(exported(&profile, Format::Collapsed)).unwrap();
    let sum: i64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap()).sum();
    assert_eq!(sum, elapsed(&profile));
    let starts = |start: &str| text.lines().any(|line| line.starts_with(start));
    assert!(
        starts("compressor;worker;clone3;start_thread;worker_main(Queue<Block>&);compress_block;deflate;"),
        "{text}"
    );
    assert!(text.contains("commit_batch;fsync;vfs_fsync_range_[k];[waits: file-sync] "), "{text}");
    assert!(starts("compressor;main;[no stack] "), "{text}");
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut flamegraph::Options::default(), text.lines(), &mut svg).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("longest_match"));
}

#[test]
fn pprof_ranks_functions_by_criticality() {
    let profile = profile();
    let mut file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.write_all(&exported(&profile, Format::Pprof)).unwrap();
    let path = file.path().to_str().unwrap();
    let read = |args: &[&str]| {
        let args: Vec<&str> = ["tool", "pprof"].iter().chain(args).copied().chain([path]).collect();
        read_with("go", &args, b"")
    };
    let Some(top) = read(&["-top", "-unit=ms"]) else { return };
    assert!(top.contains("Type: criticality"), "{top}");
    let total = top.lines().find_map(|line| line.split("ms total").next().filter(|_| line.contains("ms total")));
    let total: f64 = total.unwrap().rsplit([' ', ',']).next().unwrap().parse().unwrap();
    assert!((total - elapsed(&profile) as f64 / 1e6).abs() < 1.0, "{top}");
    for name in ["longest_match", "[waits: file-sync]"] {
        assert!(top.contains(name), "{name}\n{top}");
    }
    let Some(lines) = read(&["-top", "-lines", "-unit=ms"]) else { return };
    let line = profile.sched.frames.iter().find(|frame| frame.function == "longest_match").unwrap();
    assert!(lines.contains(&format!("longest_match {}:{}", line.file, line.line)), "{lines}");
    let Some(tags) = read(&["-tags"]) else { return };
    for word in ["running", "waiting", "file-sync", "worker-3"] {
        assert!(tags.contains(word), "{word}\n{tags}");
    }
}

/// Sums weights over threads, and counts markers, by walking the viewer's tables.
const FIREFOX: &str = r#"
import json, sys
p = json.load(sys.stdin)
shared = p.get("shared", {}).get("stringArray")
total, markers = 0, {}
for t in p["threads"]:
    s = t["samples"]
    assert all(len(s[c]) == s["length"] for c in ("stack", "timeDeltas", "weight", "threadCPUDelta")), t["name"]
    assert all(d >= 0 for d in s["timeDeltas"])
    total += sum(s["weight"])
    strings = shared or t["stringArray"]
    for n, start, end in zip(t["markers"]["name"], t["markers"]["startTime"], t["markers"]["endTime"]):
        assert end >= start
        markers[strings[n]] = markers.get(strings[n], 0) + 1
    if t["samples"]["length"] > 10:
        print("busy", t["name"])
print("total", round(total, 3))
for name, n in sorted(markers.items()):
    print("marker", name, n)
"#;

#[test]
fn firefox_has_samples_at_their_times_and_waits_as_markers() {
    let profile = profile();
    let Some(read) = read_with("python3", &["-c", FIREFOX], &exported(&profile, Format::Firefox)) else { return };
    let value = |word: &str| -> f64 {
        read.lines()
            .find_map(|line| line.strip_prefix(word))
            .unwrap_or_else(|| panic!("{read}"))
            .trim()
            .parse()
            .unwrap()
    };
    assert!((value("total ") - elapsed(&profile) as f64 / 1e6).abs() < 0.1, "{read}");
    let of = |kind| profile.sched.waits.iter().filter(|wait| wait.kind == kind).count() as f64;
    assert_eq!(value("marker mutex"), of(transect_profile_model::WaitKind::Mutex));
    assert_eq!(value("marker barrier"), of(transect_profile_model::WaitKind::Barrier));
    assert!(read.contains("busy worker-3"), "{read}");
}

#[test]
fn speedscope_has_criticality_and_samples() {
    let profile = profile();
    let file: Value = serde_json::from_slice(&exported(&profile, Format::Speedscope)).unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles[0]["name"], "criticality");
    assert_eq!(profiles[0]["endValue"], elapsed(&profile));
    assert_eq!(profiles[1]["name"], "samples and waits");
}

/// TracerBench builds its model and prints how much of it there is.
const TRACER_BENCH: &str = r#"
const { buildModel } = require(process.argv[1] + "/node_modules/@tracerbench/trace-model");
const trace = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const p of buildModel(trace.traceEvents).processes)
  for (const t of p.threads) {
    const spans = t.events.filter((e) => e.ph === "X");
    const slices = spans.filter((e) => e.name === "active").length;
    console.log([t.name, slices, spans.length - slices].join("|"));
  }
"#;

#[test]
fn chrome_has_slices_waits_and_a_counter() {
    let profile = profile();
    let bytes = exported(&profile, Format::Chrome);
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |cat: &str| events.iter().filter(|event| event["cat"] == cat).collect::<Vec<_>>();
    assert_eq!(of("slice").len(), profile.sched.slices.len());
    assert_eq!(of("wait").len(), profile.sched.waits.len());
    let counter = of("parallelism");
    assert!(counter.iter().any(|event| event["args"]["active"] == 12), "all workers at once");
    assert_eq!(counter.last().unwrap()["args"]["active"], 0);
    let mutex = of("wait").into_iter().find(|event| event["name"] == "mutex" && event["args"]["holder"].is_string());
    let args = &mutex.unwrap()["args"];
    assert!(args["object"] == "output_lock+0x8" && args["in"] == "pthread_mutex_lock", "{args}");
    let Some(folder) = npm_package("@tracerbench/trace-model", "8.0.0") else { return };
    let Some(read) = read_with("node", &["-e", TRACER_BENCH, folder.to_str().unwrap()], &bytes) else { return };
    let count = |task: u32| {
        let slices = profile.sched.slices.iter().filter(|slice| slice.task == task).count();
        let waits = profile.sched.waits.iter().filter(|wait| wait.task == task).count();
        format!("{}|{slices}|{waits}", profile.sched.tasks[task as usize].name)
    };
    for task in [0, 1, 5] {
        assert!(read.lines().any(|line| line == count(task)), "{}\n{read}", count(task));
    }
}

#[test]
fn a_profile_without_a_schedule_says_so() {
    let profile = sample_profile::profile();
    let error = export_subject(&profile, Format::Pprof, Subject::Criticality, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::NoSchedule));
    assert!(error.to_string().contains("transect criticality"));
    assert_eq!(Subject::of(&profile), Subject::Flows);
}

#[test]
fn damaged_tables_are_no_panic() {
    let mut profile = profile();
    profile.sched.stacks.truncate(2);
    profile.sched.frames.truncate(3);
    profile.sched.tasks.truncate(4);
    for format in Format::ALL {
        let done = export_subject(&profile, format, Subject::Criticality, &mut Vec::new());
        // Its threads are those of flows.
        assert!(
            matches!((&done, format), (Ok(()), _) | (Err(ExportError::NoRows { .. }), Format::Perfetto)),
            "{done:?}"
        );
    }
}
