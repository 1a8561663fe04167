//! The order of the crates: dependencies point one way, and only the command prints and ends the process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What each crate may use of ours.
const MAY_USE: [(&str, &[&str]); 31] = [
    ("event-abi", &[]),
    // Of tests only.
    ("testkit", &[]),
    ("profile-model", &[]),
    ("intercept", &["event-abi"]),
    ("agent", &["event-abi", "intercept"]),
    ("binary-info", &["event-abi"]),
    ("profile-store", &["profile-model"]),
    ("profile-export", &["profile-model", "analyze"]),
    ("analyze", &["profile-model"]),
    (
        "record",
        &[
            "event-abi",
            "profile-model",
            "binary-info",
            "text-patch",
            "probe",
            "probe-plan",
            "attach",
            "calibrate",
            "bpf-collect",
            "call-walk",
            "feature-region",
            "symbolize",
        ],
    ),
    ("symbolize", &["binary-info", "probe-plan", "profile-model"]),
    ("call-walk", &["profile-model"]),
    ("feature-compiler", &[]),
    ("feature-model", &[]),
    ("influence", &["feature-model", "profile-model"]),
    ("feature-region", &["binary-info", "probe-plan", "profile-model"]),
    ("feature-confirm", &["binary-info", "feature-region", "profile-model"]),
    ("report", &["profile-model", "analyze", "profile-export"]),
    ("tui", &["profile-model", "analyze", "report"]),
    ("text-patch", &[]),
    ("region-ring", &["event-abi"]),
    ("region-trace", &["event-abi", "region-ring"]),
    ("probe", &["event-abi", "text-patch", "region-ring"]),
    ("probe-agent", &["probe"]),
    ("flow-agent", &["event-abi"]),
    ("probe-plan", &["binary-info"]),
    ("bpf-collect", &["event-abi", "binary-info", "call-walk", "profile-model"]),
    ("attach", &["event-abi", "text-patch", "probe", "probe-plan", "binary-info"]),
    ("calibrate", &["event-abi", "text-patch", "probe"]),
    ("c-library", &["event-abi", "text-patch", "probe", "probe-plan", "binary-info"]),
    (
        "cli",
        &[
            "profile-model",
            "binary-info",
            "record",
            "profile-store",
            "profile-export",
            "analyze",
            "report",
            "tui",
            "probe-plan",
            "attach",
            "calibrate",
            "bpf-collect",
            "feature-compiler",
            "feature-confirm",
            "feature-model",
            "feature-region",
            "influence",
            "symbolize",
        ],
    ),
];

fn workspace() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn short(name: &str) -> &str {
    name.strip_prefix("transect-").unwrap_or(name)
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    for package in workspace() {
        let name = package["name"].as_str().unwrap();
        let allowed = allowed.get(short(name)).unwrap_or_else(|| panic!("{name} has no place in the order yet"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let ours = used.starts_with("transect-") && dependency["kind"].is_null();
            assert!(!ours || allowed.contains(&short(used)), "{name} uses {used}");
        }
    }
}

#[test]
fn only_the_command_has_a_main_and_prints() {
    for package in workspace() {
        let name = package["name"].as_str().unwrap();
        let targets = package["targets"].as_array().unwrap();
        let binaries = targets.iter().filter(|t| t["kind"] == serde_json::json!(["bin"])).count();
        // transect-cc stands in a compiler's place: a small command of its own, started for every source file.
        let command = ["transect-cli", "transect-feature-compiler"].contains(&name);
        assert_eq!(binaries, usize::from(command), "{name}");
        // What tests share says what they judged.
        if ["transect-cli", "transect-testkit"].contains(&name) {
            continue;
        }
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        for file in sources(&manifest.parent().unwrap().join("src")) {
            if command && file.ends_with("src/bin/cc.rs") {
                continue;
            }
            // Modules of tests in files of their own may print, too.
            if file.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests")) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            // Tests at a file's end may print.
            let code = text.split("#[cfg(test)]").next().unwrap();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for word in ["println!(", "eprintln!(", "print!(", "dbg!(", "process::exit"] {
                    assert!(!line.contains(word), "{}: {line}", file.display());
                }
            }
        }
    }
}

fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}
