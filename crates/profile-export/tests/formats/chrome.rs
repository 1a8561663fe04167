//! Chrome trace events are held against the format document and read by TracerBench.

use crate::foreign_tool::{npm_package, read_with};
use crate::sample_profile;
use transect_analyze::synthetic::latency_service;
use transect_profile_export::{Format, export};

/// Holds every event against the rules of the Trace Event Format document.
const READER: &str = r#"
import json, sys
trace = json.load(sys.stdin)
assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
assert trace["displayTimeUnit"] in ("ms", "ns")
for e in trace["traceEvents"]:
    assert isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int), e
    if e["ph"] == "M":
        assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str), e
        print("M", e["name"], e["pid"], e["tid"], e["args"]["name"])
    elif e["ph"] == "X":
        assert e["ts"] >= 0 and e["dur"] >= 0 and isinstance(e["cat"], str), e
        print("X", e["name"], e["pid"], e["tid"], e["ts"], e["dur"])
    elif e["ph"] == "C":
        assert e["ts"] >= 0 and all(isinstance(v, (int, float)) for v in e["args"].values()), e
        print("C", e["name"], e["pid"], e["ts"], *e["args"].values())
    elif e["ph"] == "i":
        assert e["s"] in ("g", "p", "t") and e["ts"] >= 0, e
        print("i", e["name"], e["tid"], e["ts"], e["args"]["registers"][0])
    else:
        raise AssertionError(e)
"#;

#[test]
fn latencies_are_counters_over_time() {
    let mut bytes = Vec::new();
    export(&latency_service(), Format::Chrome, &mut bytes).unwrap();
    let Some(read) = read_with("python3", &["-c", READER], &bytes) else { return };
    let median = |line: &str| line.rsplit(' ').nth(1).unwrap().parse::<f64>().unwrap();
    let of: Vec<&str> =
        read.lines().filter(|line| line.starts_with("C Codec::encode(Frame const&) (libcodec")).collect();
    assert_eq!(of.len(), 120, "one event a slice");
    assert!(of[..70].iter().all(|line| median(line) < 80_000.0) && of[70..].iter().all(|line| median(line) > 80_000.0));
    assert!(of[69].contains(" 5000 6900000.0 "), "{}", of[69]);
    assert_eq!(read.lines().filter(|line| line.starts_with("C parse_request (service) 5001 ")).count(), 120);
}

fn exported() -> Vec<u8> {
    let mut bytes = Vec::new();
    export(&sample_profile::profile(), Format::Chrome, &mut bytes).unwrap();
    bytes
}

#[test]
fn events_follow_the_format_document() {
    let Some(read) = read_with("python3", &["-c", READER], &exported()) else { return };
    for line in [
        "M process_name 100 100 /opt/app",
        "M thread_name 100 101 worker-1",
        "X worker-1 100 101 1000.0 500000.0",
        "i deflate 100 2.5 0xffffffffffffffff",
    ] {
        assert!(read.lines().any(|l| l == line), "{line}\n{read}");
    }
}

/// TracerBench builds its model of processes and threads and prints it.
const TRACER_BENCH: &str = r#"
const { buildModel } = require(process.argv[1] + "/node_modules/@tracerbench/trace-model");
const trace = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const p of buildModel(trace.traceEvents).processes)
  for (const t of p.threads)
    for (const e of t.events) if (e.ph !== "M") console.log([p.name, t.name, e.ph, e.name, e.start, e.duration].join("|"));
"#;

#[test]
fn tracer_bench_models_the_threads() {
    let Some(folder) = npm_package("@tracerbench/trace-model", "8.0.0") else { return };
    let folder = folder.to_str().unwrap();
    let Some(read) = read_with("node", &["-e", TRACER_BENCH, folder], &exported()) else { return };
    for line in [
        "/opt/app|app|X|app|1000|1500000",
        "/opt/app|app|i|deflate|2.5|0",
        "/opt/app|worker-1|X|worker-1|1000|500000",
        "/opt/helper|helper|X|helper|1000|500000",
    ] {
        assert!(read.lines().any(|l| l == line), "{line}\n{read}");
    }
}
