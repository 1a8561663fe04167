//! The joined call tree of a walk, in readers that this project did not write.

use std::io::Write;

use inferno::flamegraph;
use serde_json::Value;
use transect_analyze::synthetic::walked_proxy;
use transect_profile_export::{ExportError, Format, Subject, export, export_subject};
use transect_profile_model::Profile;

use crate::foreign_tool::read_with;
use crate::sample_profile;

fn exported(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(profile, format, &mut bytes).unwrap();
    bytes
}

/// Time on CPUs, and off them, of all groups.
fn lifetime(profile: &Profile) -> (i64, i64) {
    let groups = &profile.walk.groups;
    (groups.iter().map(|g| g.on_ns).sum(), groups.iter().map(|g| g.runnable_ns + g.blocked_ns).sum())
}

#[test]
fn folded_stacks_add_up_and_are_drawn_by_inferno() {
    let profile = walked_proxy();
    let text = String::from_utf8(exported(&profile, Format::Collapsed)).unwrap();
    let sum = |off: bool| -> i64 {
        let lines = text.lines().filter(|line| line.contains(";[off-CPU] ") == off);
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap()).sum()
    };
    assert_eq!((sum(false), sum(true)), lifetime(&profile));
    let line = "cached;log;LogWriter::run();AccessLog::commit();fsync;fsync_[k];do_fsync_[k];ext4_sync_file_[k];\
                jbd2_log_wait_commit_[k];[off-CPU] 12140000000";
    assert!(text.lines().any(|found| found == line), "{text}");
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut flamegraph::Options::default(), text.lines(), &mut svg).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("wait_transaction_locked"));
}

#[test]
fn pprof_has_time_on_and_off_cpus_as_sample_types() {
    let profile = walked_proxy();
    let mut file = tempfile::Builder::new().suffix(".pb.gz").tempfile().unwrap();
    file.write_all(&exported(&profile, Format::Pprof)).unwrap();
    let path = file.path().to_str().unwrap();
    let read = |args: &[&str]| {
        let args: Vec<&str> = ["tool", "pprof"].iter().chain(args).copied().chain([path]).collect();
        read_with("go", &args, b"")
    };
    let (on, off) = lifetime(&profile);
    for (index, total) in [("on-cpu", on), ("off-cpu", off), ("wall", on + off)] {
        let Some(top) = read(&["-top", "-unit=ms", &format!("-sample_index={index}")]) else { return };
        assert!(top.contains(&format!("Type: {index}")), "{top}");
        assert!(top.contains(&format!("{}ms total", total / 1_000_000)), "{index}: {top}");
    }
    let Some(lines) = read(&["-top", "-lines", "-unit=ms", "-sample_index=on-cpu"]) else { return };
    assert!(lines.contains("lib/match.c:201"), "{lines}");
    let Some(tags) = read(&["-tags"]) else { return };
    assert!(tags.contains("thread_group") && tags.contains("worker"), "{tags}");
}

/// Sums weights of each track by category, by walking the viewer's tables.
const FIREFOX: &str = r#"
import json, sys
p = json.load(sys.stdin)
shared = p.get("shared", {})
for t in p["threads"]:
    s = t["samples"]
    assert all(len(s[c]) == s["length"] for c in ("stack", "timeDeltas", "weight")), t["name"]
    assert all(d >= 0 for d in s["timeDeltas"])
    stacks = t.get("stackTable") or shared["stackTable"]
    frames = t.get("frameTable") or shared["frameTable"]
    sums = {}
    for stack, weight in zip(s["stack"], s["weight"]):
        if stack is not None:
            kind = p["meta"]["categories"][frames["category"][stacks["frame"][stack]]]["name"]
            sums[kind] = sums.get(kind, 0) + weight
    for kind, ms in sums.items():
        print(t["name"], kind, round(ms))
"#;

#[test]
fn firefox_has_a_track_for_each_group() {
    let profile = walked_proxy();
    let Some(read) = read_with("python3", &["-c", FIREFOX], &exported(&profile, Format::Firefox)) else { return };
    for group in &profile.walk.groups {
        for (kind, ns) in [("Computing", group.on_ns), ("Waiting", group.runnable_ns + group.blocked_ns)] {
            // The viewer calls a main thread as its process.
            let executable = profile.processes[group.process as usize].executable.rsplit('/').next().unwrap();
            let name = if group.thread_group == "main" { executable } else { &group.thread_group };
            let line = format!("{name} {kind} {}", ns / 1_000_000);
            assert!(read.lines().any(|found| found == line), "{line}\n{read}");
        }
    }
}

#[test]
fn speedscope_has_a_profile_for_each_kind_of_time() {
    let profile = walked_proxy();
    let file: Value = serde_json::from_slice(&exported(&profile, Format::Speedscope)).unwrap();
    let (on, off) = lifetime(&profile);
    let profiles = file["profiles"].as_array().unwrap();
    let found: Vec<(&str, i64)> =
        profiles[..3].iter().map(|p| (p["name"].as_str().unwrap(), p["endValue"].as_i64().unwrap())).collect();
    assert_eq!(found, [("both", on + off), ("on-CPU", on), ("off-CPU", off)]);
    assert_eq!(profiles[3]["name"], "samples and waits");
}

#[test]
fn rows_are_the_frames_of_chains() {
    let profile = walked_proxy();
    let text = String::from_utf8(exported(&profile, Format::Csv)).unwrap();
    let frames: usize = profile.walk.chains.iter().map(|chain| chain.frames.len().max(1)).sum();
    assert_eq!(text.lines().count(), 1 + frames);
}

#[test]
fn a_profile_without_a_walk_says_so_and_damage_is_no_panic() {
    let error = export_subject(&sample_profile::profile(), Format::Pprof, Subject::Walk, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::NoWalk));
    assert!(error.to_string().contains("transect walk"));
    let mut profile = walked_proxy();
    profile.walk.groups.truncate(2);
    profile.walk.nodes.drain(..20);
    profile.walk.nodes[3].parent = Some(3);
    for format in Format::ALL {
        let done = export_subject(&profile, format, Subject::Walk, &mut Vec::new());
        // Its threads are those of flows.
        assert!(
            matches!(
                (&done, format),
                (Ok(()), _) | (Err(ExportError::NoRows { .. }), Format::Perfetto | Format::Chrome)
            ),
            "{done:?}"
        );
    }
}
