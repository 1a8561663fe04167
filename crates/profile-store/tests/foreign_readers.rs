//! Other people's readers find in the tables what was put in.
//!
//! They need Python with the packages duckdb, pandas and pyarrow (`TRANSECT_PYTHON` names the interpreter, default
//! `python3`). Where one is missing, the test says `SKIPPED` with the reason on standard error and passes;
//! `TRANSECT_REQUIRE_READERS=1` makes it fail instead.

mod scheduled;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use transect_analyze::synthetic::{feature_packer, image_server, latency_service, walked_proxy};
use transect_profile_model::{Profile, SchedTables, Thread};
use transect_profile_store::write;

fn python() -> String {
    std::env::var("TRANSECT_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// What the script found in the profile; `None` if Python or a package is missing.
fn found_by(script: &str, modules: &[&str], profile: &Profile) -> Option<Value> {
    let imports = format!("import {}", modules.join(", "));
    let ready = Command::new(python()).args(["-c", &imports]).output();
    if !ready.as_ref().is_ok_and(|output| output.status.success()) {
        let why = format!("{} with the packages {} is not installed", python(), modules.join(", "));
        assert!(std::env::var_os("TRANSECT_REQUIRE_READERS").is_none(), "{why}");
        // Not eprintln!: the test harness would keep it to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED {script}: {why}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.transect");
    write(&path, profile).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output = Command::new(python()).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn check(found: &Value, profile: &Profile, allowed_types: &[&str]) {
    let rows = [
        ("components", profile.components.len()),
        ("processes", profile.processes.len()),
        ("threads", profile.threads.len()),
        ("flows", profile.flows.len()),
        ("waits", profile.waits.len()),
        ("locks", profile.locks.len()),
        ("events", profile.trace.len()),
        ("latency", profile.latency.len()),
        ("latency_histogram", profile.latency.iter().map(|latency| latency.histogram.len()).sum()),
        ("latency_slices", profile.latency_slices.len()),
        ("tasks", profile.sched.tasks.len()),
        ("parallelism", profile.sched.parallelism.len()),
        ("frames", profile.sched.frames.len()),
        ("stacks", profile.sched.stacks.iter().map(|stack| stack.frames.len().max(1)).sum()),
        ("stack_instructions", profile.sched.instructions.len()),
        ("sched_samples", profile.sched.samples.len()),
        ("sched_moments", profile.sched.moments.len()),
        ("sched_waits", profile.sched.waits.len()),
        ("slices", profile.sched.slices.len()),
        ("walk_groups", profile.walk.groups.len()),
        ("walk_nodes", profile.walk.nodes.len()),
        ("walk_chains", profile.walk.chains.len()),
        ("walk_frames", profile.walk.chains.iter().map(|chain| chain.frames.len()).sum()),
        ("walk_steps", profile.walk.steps.len()),
        ("walk_system_calls", profile.walk.system_calls.len()),
        ("features", profile.feature.features.len()),
        ("regions", profile.feature.regions.len()),
        ("region_features", profile.feature.regions.iter().map(|region| region.features.len()).sum()),
        ("region_nodes", profile.feature.nodes.len()),
        ("region_slices", profile.feature.slices.len()),
        ("region_contexts", profile.feature.contexts.iter().map(|context| context.regions.len().max(1)).sum()),
        ("feature_variables", profile.feature.variables.len()),
    ];
    for (table, rows) in rows {
        assert_eq!(found["tables"][table]["rows"], json!(rows), "{table}");
        for kind in found["tables"][table]["types"].as_array().unwrap() {
            assert!(allowed_types.contains(&kind.as_str().unwrap()), "{table}: {kind}");
        }
    }
    let mut sums: BTreeMap<(&str, &str, &str), (i64, Option<i64>)> = BTreeMap::new();
    for flow in &profile.flows {
        let name = |id: u32| file_name(&profile.components[id as usize].path);
        let sum = sums.entry((name(flow.caller), name(flow.callee), &flow.api)).or_default();
        sum.0 += flow.calls;
        sum.1 = flow.total_ns.map_or(sum.1, |ns| Some(sum.1.unwrap_or(0) + ns));
    }
    let expected: Vec<Value> =
        sums.iter().map(|((caller, callee, api), (calls, ns))| json!([caller, callee, api, calls, ns])).collect();
    assert_eq!(found["flows"], json!(expected));
    let latencies = profile.latency.iter().enumerate().map(|(id, latency)| {
        let component = file_name(&profile.components[latency.component as usize].path);
        json!([id, component, latency.function, latency.samples, latency.samples, latency.samples])
    });
    assert_eq!(found["latency"], Value::Array(latencies.collect()));
    check_sched(found, &profile.sched);
    check_walk(found, profile);
    check_features(found, profile);
    let nulls = profile.flows.iter().filter(|flow| flow.total_ns.is_none()).count();
    assert!(nulls > 0);
    assert_eq!(found["null_totals"], json!(nulls));
    assert_eq!(found["joined"], json!(profile.flows.len()), "ids and names agree");
    assert_eq!(found["arguments"], json!([i64::MIN, i64::MAX, -1]), "arguments keep all 64 bits");
}

fn check_sched(found: &Value, sched: &SchedTables) {
    let name = |task: u32| sched.tasks[task as usize].name.as_str();
    let mut waits: BTreeMap<(&str, &str, &str, &str), i64> = BTreeMap::new();
    for wait in &sched.waits {
        let waker = wait.waker.map_or("", |waker| name(waker.task));
        *waits.entry((wait.kind.as_str(), &wait.object, name(wait.task), waker)).or_default() += wait.ns;
    }
    let waits: Vec<Value> = waits.iter().map(|((k, o, t, w), ns)| json!([k, o, t, w, ns])).collect();
    assert_eq!(found["sched_waits"], json!(waits));
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for sample in &sched.samples {
        let frames = &sched.stacks[sample.stack as usize].frames;
        let names: Vec<&str> = frames.iter().map(|&frame| sched.frames[frame as usize].function.as_str()).collect();
        *lines.entry(names.join(";")).or_default() += sample.criticality_ns;
    }
    assert_eq!(found["stacks"], json!(lines.iter().collect::<Vec<_>>()));
    let mut slices: BTreeMap<Option<&str>, (i64, i64, i64)> = BTreeMap::new();
    for slice in &sched.slices {
        let kind = usize::try_from(slice.wait).ok().map(|wait| sched.waits[wait].kind.as_str());
        let sum = slices.entry(kind).or_insert((0, i64::MAX, i64::MIN));
        *sum = (sum.0 + slice.active_ns, sum.1.min(slice.start_ns), sum.2.max(slice.criticality_ns));
    }
    let slices: Vec<Value> = slices.iter().map(|(kind, (a, b, c))| json!([kind, a, b, c])).collect();
    assert_eq!(found["slices"], json!(slices));
}

/// Each chain as a line of its functions, with the time of its last one as the tree has it.
fn check_walk(found: &Value, profile: &Profile) {
    let walk = &profile.walk;
    let chains = walk.chains.iter().filter_map(|chain| {
        let last = &walk.nodes[chain.frames.last()?.node as usize];
        let names: Vec<&str> =
            chain.frames.iter().map(|frame| walk.nodes[frame.node as usize].function.as_str()).collect();
        let pid = profile.processes[walk.groups[chain.group as usize].process as usize].pid;
        Some(json!([
            pid,
            names.join(";"),
            last.total,
            chain.share == last.total as f64 / chain_total(profile, chain.group)
        ]))
    });
    let mut chains: Vec<Value> = chains.collect();
    chains.sort_by_key(|chain| chain.to_string());
    assert_eq!(found["chains"], Value::Array(chains));
}

/// Time of each set of features as the thread's trees have it; time of each feature by the regions of each node's stack.
fn check_features(found: &Value, profile: &Profile) {
    let tables = &profile.feature;
    let name = |id: u32| tables.features[id as usize].name.as_str();
    let mut active: BTreeMap<String, i64> = BTreeMap::new();
    let mut inclusive: BTreeMap<&str, i64> = BTreeMap::new();
    for node in &tables.nodes {
        let mut set: Vec<u32> = Vec::new();
        let mut at = Some(node);
        while let Some(of) = at {
            set.extend(of.region.iter().flat_map(|&id| &tables.regions[id as usize].features));
            at = of.parent.map(|parent| &tables.nodes[parent as usize]);
        }
        set.sort_unstable();
        set.dedup();
        let words: Vec<&str> = set.iter().map(|&id| name(id)).collect();
        *active.entry(words.join(",")).or_default() += node.exclusive_ns;
        for word in words {
            *inclusive.entry(word).or_default() += node.exclusive_ns;
        }
    }
    assert_eq!(found["active_sets"], json!(active.iter().collect::<Vec<_>>()));
    assert_eq!(found["feature_times"], json!(inclusive.iter().collect::<Vec<_>>()));
}

fn chain_total(profile: &Profile, group: u32) -> f64 {
    profile.walk.groups[group as usize].total as f64
}

/// A profile with rows in every table.
fn full_profile() -> Profile {
    let mut profile = image_server();
    let service = latency_service();
    let (component, process) = (profile.components.len() as u32, profile.processes.len() as u32);
    profile.components.extend(service.components);
    profile.processes.extend(service.processes);
    profile.latency = service.latency;
    for latency in &mut profile.latency {
        latency.component += component;
        latency.process += process;
    }
    profile.latency_slices = service.latency_slices;
    let scheduled = scheduled::scheduled(3, 200);
    let (component, process) = (profile.components.len() as u32, profile.processes.len() as u32);
    profile.components.extend(scheduled.components);
    profile.processes.extend(scheduled.processes);
    profile.sched = scheduled.sched;
    profile.sched.tasks.iter_mut().for_each(|task| task.process += process);
    profile.sched.parallelism.iter_mut().flat_map(|row| &mut row.process).for_each(|id| *id += process);
    profile.sched.frames.iter_mut().flat_map(|frame| &mut frame.component).for_each(|id| *id += component);
    let walked = walked_proxy();
    let (component, process) = (profile.components.len() as u32, profile.processes.len() as u32);
    profile.components.extend(walked.components);
    profile.processes.extend(walked.processes);
    profile.walk = walked.walk;
    profile.walk.groups.iter_mut().for_each(|group| group.process += process);
    profile.walk.nodes.iter_mut().flat_map(|node| &mut node.component).for_each(|id| *id += component);
    let packer = feature_packer();
    let (component, process) = (profile.components.len() as u32, profile.processes.len() as u32);
    let thread = profile.threads.len() as u32;
    profile.components.extend(packer.components);
    profile.processes.extend(packer.processes);
    profile.threads.extend(packer.threads.into_iter().map(|of| Thread { process: of.process + process, ..of }));
    profile.feature = packer.feature;
    profile.feature.regions.iter_mut().for_each(|region| region.component += component);
    profile.feature.variables.iter_mut().for_each(|variable| variable.component += component);
    profile.feature.nodes.iter_mut().for_each(|node| node.thread += thread);
    profile
}

#[test]
fn reads_in_duckdb_needs_python() {
    let profile = full_profile();
    if let Some(found) = found_by("duckdb_reader.py", &["duckdb"], &profile) {
        check(&found, &profile, &["INTEGER", "BIGINT", "BOOLEAN", "VARCHAR", "DOUBLE"]);
    }
}

#[test]
fn reads_in_pandas_needs_python() {
    let profile = full_profile();
    if let Some(found) = found_by("pandas_reader.py", &["pandas", "pyarrow"], &profile) {
        check(&found, &profile, &["int32", "int64", "bool", "string", "double"]);
    }
}

/// FILE_FORMAT.md names every column of every table, in order, and no other.
#[test]
fn every_column_is_documented_needs_python() {
    let Some(found) = found_by("duckdb_reader.py", &["duckdb"], &image_server()) else { return };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../FILE_FORMAT.md");
    let document = std::fs::read_to_string(document).unwrap();
    for table in transect_profile_store::TABLES {
        let heading = format!("\n### `{table}.parquet`");
        let section = document.split(&heading).nth(1).unwrap_or_else(|| panic!("no section on {table}"));
        let section = section.split("\n##").next().unwrap();
        let documented: Vec<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('|').map(|(names, _)| names))
            .flat_map(|names| names.split(['`', ',', ' ']).filter(|name| !name.is_empty()))
            .collect();
        let columns: Vec<&str> =
            found["tables"][table]["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(documented, columns, "{table}");
    }
}
