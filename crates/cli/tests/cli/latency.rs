//! `transect latency` on a program of known functions: they need ptrace, a C compiler, and the probe agent.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use predicates::prelude::*;
use serde_json::Value;
use transect_testkit::judged;

use crate::command::{Sandbox, place_probe_agent};

/// 2,000 rounds of one long and 20 short calls; for ever, if it is told so.
const WORKER: &str = r#"
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) long work(long n, long rounds) {
    volatile long sum = 0;
    for (long i = 0; i < rounds; i++) sum += i ^ n;
    return sum;
}
__attribute__((noinline, noclone)) long short_work(long n) { return work(n, 300) + 1; }
__attribute__((noinline, noclone)) long long_work(long n) { return work(n, 40000) + 1; }
int main(int argc, char **argv) {
    long sum = 0;
    int forever = argc > 1 && strcmp(argv[1], "forever") == 0;
    for (long n = 0; forever || n < 2000; n++) {
        sum += long_work(n);
        for (int i = 0; i < 20; i++) sum += short_work(n);
    }
    printf("%ld\n", sum);
    return 7;
}
"#;

/// The worker in the sandbox; `None`, and said so, where it can't be made or traced.
fn worker(sandbox: &Sandbox, test: &str) -> Option<PathBuf> {
    let not_run = |why: &str| {
        let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
        None
    };
    let source = sandbox.write("worker.c", WORKER);
    let program = sandbox.path("worker");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        return not_run("no C compiler");
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return not_run("ptrace is forbidden (kernel.yama.ptrace_scope is 3)");
    }
    place_probe_agent();
    Some(program)
}

fn rows(json: &Value) -> Vec<(&str, i64, i64)> {
    let row = |row: &'_ Value| (row["samples"].as_i64().unwrap(), row["p50_ns"].as_i64().unwrap());
    let rows = json["latency"].as_array().unwrap();
    rows.iter().map(|r| (r["function"].as_str().unwrap(), row(r).0, row(r).1)).collect()
}

#[test]
fn measures_a_command_and_leaves_its_streams_alone_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(worker) = worker(&sandbox, "measures_a_command") else { return };
    let alone = Command::new(&worker).output().unwrap();
    let worker = worker.to_str().unwrap();
    let arguments = ["latency", "--functions", "*_work", "-o", "p.transect", "--format", "json", "--output", "out"];
    judged("latencies of a command", || {
        let _ = std::fs::remove_dir_all(sandbox.path("p.transect"));
        let output = sandbox.transect(&[&arguments[..], &["--", worker]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "the program's own status");
        assert_eq!(output.stdout, alone.stdout);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "transect: the profile is p.transect\n");
        let json: Value = serde_json::from_slice(&std::fs::read(sandbox.path("out")).unwrap()).unwrap();
        let mut found = rows(&json);
        found.sort_unstable();
        assert_eq!(found.iter().map(|row| row.0).collect::<Vec<_>>(), ["long_work", "short_work"], "{found:?}");
        assert_eq!(json["meta"]["latency"]["probes_installed"], 2);
        assert!(json["meta"]["latency"]["samples_per_second"].as_f64().unwrap() > 0.0);
        // One works 130 times as long.
        let apart = found.iter().all(|row| row.1 > 10) && found[0].2 > 10 * found[1].2;
        if apart { Ok(()) } else { Err(format!("{found:?}")) }
    });
    // The profile holds the same, in every view and format.
    let text = predicate::str::contains("long_work").and(predicate::str::contains("2 probes, 2 of them called"));
    sandbox.transect(&["report", "p.transect", "--view", "latency"]).assert().success().stdout(text);
    let csv = predicate::str::starts_with("function,component,calls_seen,samples,mean_ns,p50_ns,p90_ns,p99_ns,max_ns,");
    sandbox.transect(&["report", "p.transect", "--view", "latency", "--format", "csv"]).assert().success().stdout(csv);
    sandbox.transect(&["report", "p.transect", "--html", "page.html"]).assert().success().stdout("");
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    assert!(page.contains("\"latency_heat_map\":{\"starts_ns\":[") && page.contains("long_work"));
}

#[test]
fn text_goes_to_stderr_and_quiet_is_quiet_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(worker) = worker(&sandbox, "text_goes_to_stderr") else { return };
    let worker = worker.to_str().unwrap();
    let loud = ["latency", "--sample-size", "10", "--functions", "*_work", "-o", "a.transect", "--", worker];
    let text = predicate::str::contains("Latency").and(predicate::str::contains("10 samples a function every 10.0 ms"));
    sandbox.transect(&loud).assert().code(7).stderr(text);
    let quiet = ["latency", "-q", "--functions", "*_work", "-o", "b.transect", "--", worker];
    sandbox.transect(&quiet).assert().code(7).stderr("");
    let none = ["latency", "--functions", "no_such_*", "-o", "c.transect", "--", worker];
    let message = predicate::str::contains("no function that a probe can stand at matches --functions 'no_such_*'");
    sandbox.transect(&none).assert().code(7).stderr(message);
    // Of several patterns each that matches nothing is named, and is no mistake of the others.
    let some = ["latency", "-q", "--functions", "*_work", "--functions", "no_such_*", "-o", "d.transect", "--", worker];
    let message =
        "transect: no function that a probe can stand at matches --functions 'no_such_*'; see `transect probe list`\n";
    sandbox.transect(&some).assert().code(7).stderr(message);
}

/// What placing the probes took is told beside the program's time, not in it.
#[test]
fn the_wall_time_is_the_programs_needs_ptrace() {
    let sandbox = Sandbox::new();
    if worker(&sandbox, "the_wall_time_is_the_programs").is_none() {
        return;
    }
    judged("time of start and end", || {
        let _ = std::fs::remove_dir_all(sandbox.path("p.transect"));
        let begun = Instant::now();
        sandbox.transect(&["latency", "-q", "-o", "p.transect", "--", "sleep", "0.3"]).assert().success();
        let all_ns = begun.elapsed().as_nanos() as i64;
        let meta = std::fs::read(sandbox.path("p.transect/meta.json")).unwrap();
        let meta: Value = serde_json::from_slice(&meta).unwrap();
        let (wall_ns, overhead) = (meta["wall_ns"].as_i64().unwrap(), &meta["overhead"]);
        let around_ns = overhead["start_ns"].as_i64().unwrap() + overhead["end_ns"].as_i64().unwrap();
        assert!(wall_ns >= 300_000_000 && wall_ns + around_ns <= all_ns, "{wall_ns} + {around_ns} of {all_ns}");
        let own = wall_ns - 300_000_000 < around_ns / 2;
        if own { Ok(()) } else { Err(format!("{wall_ns} + {around_ns} of {all_ns}")) }
    });
}

#[test]
fn a_program_that_ends_before_it_has_probes_is_said_to_needs_ptrace() {
    let sandbox = Sandbox::new();
    if worker(&sandbox, "a_program_that_ends_before_it_has_probes").is_none() {
        return;
    }
    // The loader runs it, before the program's first own instruction.
    let ends = "#include <signal.h>\n__attribute__((constructor)) static void end(void) { raise(SIGTERM); }\n";
    let library = sandbox.path("libends.so");
    let built =
        |more: &[&str]| Command::new("cc").args(more).current_dir(sandbox.path(".")).status().unwrap().success();
    sandbox.write("ends.c", ends);
    assert!(built(&["-shared", "-fPIC", "-o", library.to_str().unwrap(), "ends.c"]));
    sandbox.write("main.c", "int main(void) { return 0; }\n");
    assert!(built(&["-o", "ends", "main.c", "-Wl,--no-as-needed", library.to_str().unwrap()]));
    let message =
        "transect: the program ended before its functions had probes; the command itself ended with status 143\n";
    sandbox.transect(&["latency", "-q", "-o", "p.transect", "--", "./ends"]).assert().code(143).stderr(message);
    assert!(!sandbox.path("p.transect").exists());
}

#[test]
fn measures_a_running_process_and_lets_it_run_on_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(worker) = worker(&sandbox, "measures_a_running_process") else { return };
    let mut child = Command::new(&worker).arg("forever").stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let pid = child.id().to_string();
    let measure = |more: &[&str]| {
        let arguments = [&["latency", "-p", &pid, "--for", "1s", "-o", "p.transect"], more].concat();
        sandbox.transect(&arguments).output().unwrap()
    };
    let text = measure(&["--functions", "*_work"]);
    let json = measure(&["--functions", "*_work", "--format", "json"]);
    let none = measure(&["--functions", "no_such_function"]);
    let before = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
    let mut after = before.clone();
    let begun = Instant::now();
    while after == before && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
        after = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
    }
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(alive && before != after, "the process works on");
    let text = (text.status, String::from_utf8(text.stdout).unwrap(), String::from_utf8(text.stderr).unwrap());
    assert!(text.0.success() && text.1.contains("short_work"), "{text:?}");
    assert_eq!(text.2, "transect: the profile is p.transect\n");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(rows(&json).len(), 2);
    assert_eq!(json["meta"]["exit_status"], Value::Null);
    let around = &json["meta"]["overhead"];
    assert_eq!((&around["start_ns"], &around["end_ns"]), (&Value::from(0), &Value::from(0)), "nobody waited for it");
    assert!(json["meta"]["wall_ns"].as_i64().unwrap() >= 1_000_000_000, "{}", json["meta"]);
    assert_eq!(none.status.code(), Some(1), "{}", String::from_utf8_lossy(&none.stderr));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no_such_function") && none.stdout.is_empty());
}

#[test]
fn what_cannot_be_measured_is_said_and_leaves_no_folder() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    for (arguments, status, words) in [
        (&["latency", "-p", "4194000", "--for", "1s"][..], 125, "no process 4194000"),
        (&["latency", "--", "no-such-program"], 127, "no-such-program"),
        (&["latency", "-o", "/proc/p.transect", "--", "true"], 125, "/proc"),
    ] {
        let message = predicate::str::contains(words);
        sandbox.transect(arguments).assert().code(status).stdout("").stderr(message);
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}
