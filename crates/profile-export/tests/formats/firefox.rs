//! Firefox Profiler files: written by the crate that samply uses; read here as that viewer reads them, by following
//! the tables of version 28 and later of the processed format.

use crate::foreign_tool::read_with;
use crate::sample_profile;
use transect_profile_export::{ExportError, Format, export};

/// Sums each thread's weights by the name of the leaf frame, by walking stack, frame, func and string tables.
const READER: &str = r#"
import json, sys
p = json.load(sys.stdin)
assert p["meta"]["version"] >= 24 and p["meta"]["preprocessedProfileVersion"] >= 40, p["meta"]
shared = p.get("shared", {}).get("stringArray")
for t in p["threads"]:
    s = t["samples"]
    n = s["length"]
    assert all(len(s[c]) == n for c in ("stack", "timeDeltas", "weight", "threadCPUDelta")), t["name"]
    assert s["weightType"] == "tracing-ms"
    assert all(d >= 0 for d in s["timeDeltas"])
    strings = shared or t["stringArray"]
    leaves = {}
    for stack, weight in zip(s["stack"], s["weight"]):
        if stack is None:
            assert weight == 0
            continue
        func = t["frameTable"]["func"][t["stackTable"]["frame"][stack]]
        name = strings[t["funcTable"]["name"][func]]
        leaves[name] = leaves.get(name, 0) + weight
    markers = [strings[i] for i in t["markers"]["name"]]
    for name, ms in sorted(leaves.items()):
        print(t["processName"], t["name"], ascii(name), round(ms, 3), sep="|")
    for m in markers:
        print("marker", t["name"], m, sep="|")
"#;

#[test]
fn viewer_tables_hold_the_self_times() {
    let mut bytes = Vec::new();
    export(&sample_profile::profile(), Format::Firefox, &mut bytes).unwrap();
    let Some(read) = read_with("python3", &["-c", READER], &bytes) else { return };
    for line in [
        "app|app|'libz.so.1!deflate'|600.0",
        "app|app|'libc.so.6!memcpy'|100.0",
        "app|app|'app'|300.0",
        "app|worker-1|'libz.so.1!deflate'|500.0",
        "helper|helper|'helper'|500.0",
        "marker|app|deflate",
    ] {
        assert!(read.lines().any(|l| l == line), "{line}\n{read}");
    }
}

#[test]
fn counts_have_no_times() {
    let error = export(&sample_profile::counts_only(), Format::Firefox, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::NoTimes { format: Format::Firefox }));
}
