//! CALLS of `transect latency` against programs that count their own, and a process that executes another program.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use transect_testkit::judged;

use crate::command::{Sandbox, place_probe_agent};

/// `calls N LENGTH`: so many calls of a function that loops so often. `leaves N LENGTH`: so many calls of a function of a nanosecond or two,
/// a hundred at a time. `forks N`: so many children that call it once. `becomes N`:
/// calls for N tenths of a second, and executes itself for as long again, under another name of the function.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
volatile long sum;
APART long work(long n) { for (long i = 0; i < n; i++) sum += i; return sum; }
APART long leaf(long n) { return sum + n; }
APART long first(long n) { return work(n); }
APART long second(long n) { return work(n) + 1; }
int main(int argc, char **argv) {
    long n = argc > 2 ? atol(argv[2]) : 0, length = argc > 3 ? atol(argv[3]) : 1000;
    if (strcmp(argv[1], "calls") == 0)
        for (long i = 0; i < n; i++) { work(length); leaf(1); }
    if (strcmp(argv[1], "leaves") == 0)
        for (long i = 0; i < n; i += 100) {
            for (int k = 0; k < 100; k++) leaf(k);
            work(length);
        }
    if (strcmp(argv[1], "forks") == 0)
        for (long i = 0; i < n; i++) {
            pid_t child = fork();
            if (child == 0) { work(length); _exit(0); }
            waitpid(child, 0, 0);
        }
    if (strcmp(argv[1], "becomes") == 0 || strcmp(argv[1], "became") == 0) {
        int later = strcmp(argv[1], "became") == 0;
        puts("runs");
        fflush(stdout);
        for (long i = 0; i < n * 10; i++) { later ? second(1000) : first(1000); usleep(10000); }
        if (!later) execl(argv[0], argv[0], "became", argv[2], (char *)0);
    }
    return 0;
}
"#;

/// `None`, and said so, where the program can't be made.
fn program(sandbox: &Sandbox) -> Option<PathBuf> {
    let source = sandbox.write("counts.c", PROGRAM);
    let program = sandbox.path("counts");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: calls of latency: no C compiler");
        return None;
    }
    place_probe_agent();
    Some(program)
}

/// CALLS of a function, and the interval about it.
fn calls(sandbox: &Sandbox, metric: &str, function: &str, program: &[&str]) -> [f64; 3] {
    let row = measured(sandbox, metric, function, program);
    ["calls_estimated", "calls_low", "calls_high"].map(|key| row[key].as_f64().unwrap_or(f64::NAN))
}

/// A function's row.
fn measured(sandbox: &Sandbox, metric: &str, function: &str, program: &[&str]) -> Value {
    let _ = std::fs::remove_dir_all(sandbox.path("p.transect"));
    let arguments =
        ["latency", "--metric", metric, "--component", "counts", "-q", "-o", "p.transect", "--format", "json"];
    let output = [&arguments[..], &["--output", "out.json", "--"], program].concat();
    sandbox.transect(&output).assert().success();
    let report: Value = serde_json::from_slice(&std::fs::read(sandbox.path("out.json")).unwrap()).unwrap();
    report["latency"].as_array().unwrap().iter().find(|row| row["function"] == function).unwrap().clone()
}

/// Near the truth; or the interval says that it may not be, and holds it.
fn near([calls, low, high]: [f64; 3], truth: f64, off: f64) -> Result<(), String> {
    let is_near = calls >= truth * (1.0 - off) && calls <= truth * (1.0 + off);
    let is_within = low <= truth && truth <= high;
    if is_near || is_within {
        Ok(())
    } else {
        Err(format!("{calls} ({low} to {high}) calls where the program made {truth}"))
    }
}

#[test]
fn calls_are_those_that_the_program_made_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    let program = program.to_str().unwrap();
    for metric in ["wall", "cpu", "page-faults"] {
        for (calls_made, length) in [("200", "100000"), ("5000", "100000")] {
            judged(&format!("calls of {metric}, {calls_made}"), || {
                let truth = calls_made.parse().unwrap();
                let made = [program, "calls", calls_made, length];
                near(calls(&sandbox, metric, "work", &made), truth, 0.4)?;
                near(calls(&sandbox, metric, "leaf", &made), truth, 0.4)
            });
        }
    }
}

/// 20 million calls of a function that takes less than can be measured of one, a small part of the time.
#[test]
fn the_shortest_functions_have_calls_and_a_bound_of_their_time_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    let made = [program.to_str().unwrap(), "leaves", "20000000", "2000"];
    judged("calls and time of a function of a nanosecond", || {
        let row = measured(&sandbox, "wall", "leaf", &made);
        near(
            ["calls_estimated", "calls_low", "calls_high"].map(|key| row[key].as_f64().unwrap_or(f64::NAN)),
            2e7,
            0.4,
        )?;
        let time = ["total_ns", "total_low_ns", "total_high_ns"].map(|key| row[key].as_i64());
        // Between nothing and 100 ns each, whatever the machine does.
        match time {
            [None, Some(low), Some(high)] if low < 20_000_000 && (10_000_000..2_000_000_000).contains(&high) => Ok(()),
            _ => Err(format!("{time:?}")),
        }
    });
}

#[test]
fn calls_of_short_children_count_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    let made = [program.to_str().unwrap(), "forks", "200"];
    judged("calls of children", || near(calls(&sandbox, "wall", "work", &made), 200.0, 0.15));
}

#[test]
fn a_process_that_executes_another_program_is_measured_on_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    let mut process = Command::new(&program).args(["becomes", "12"]).stdout(Stdio::piped()).spawn().unwrap();
    // Kept open: the program writes to it again.
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let pid = process.id().to_string();
    let arguments = ["latency", "-p", &pid, "--component", "counts", "-o", "p.transect", "--format", "json"];
    let output = sandbox.transect(&arguments).output().unwrap();
    process.wait().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = |function: &str| {
        let rows = report["latency"].as_array().unwrap().iter();
        rows.filter(|row| row["function"] == function).filter_map(|row| row["samples"].as_i64()).sum::<i64>()
    };
    assert!(samples("first") >= 20 && samples("second") >= 20, "{report}");
    let loss = report["loss"].as_array().unwrap();
    let replaced = loss.iter().find(|loss| loss["what"] == "replaced programs").unwrap_or_else(|| panic!("{loss:?}"));
    assert!(replaced["where"].as_str().unwrap().contains(&pid), "{replaced}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("executed instead of the one before"), "{said}");
}
