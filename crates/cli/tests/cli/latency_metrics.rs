//! `transect latency --metric` on programs that know their own CPU time and page faults.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use transect_testkit::judged;

use crate::command::{Sandbox, place_probe_agent};

/// 30 rounds of burning 2 ms of CPU time, of sleeping 2 ms, and of touching 64 fresh pages. A timer's signal comes
/// in between, whose handler is measured, too; errno has to be left alone. Then a call that forks inside; then a call
/// whose program asks for a filter that kills whoever looks at clocks, and goes on.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
static long cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}
volatile long signals, sum;
APART long by_signal(long n) { return sum + n; }
static void on_signal(int signal) { signals += by_signal(signal) > 0; }
APART void burn(long ns) { for (long end = cpu() + ns; cpu() < end;) sum++; }
APART void take_nap(long ns) {
    struct timespec time = {0, ns};
    while (nanosleep(&time, &time) != 0) {}
}
APART void touch_pages(long pages) {
    char *at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, pages * 4096, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++) *(volatile char *)(at + page * 4096) = 1;
    munmap(at, pages * 4096);
}
APART void work(int rounds) {
    for (int round = 0; round < rounds; round++) {
        errno = 4711;
        burn(2000000);
        touch_pages(64);
        if (errno != 4711) _exit(3);
        take_nap(2000000);
    }
}
APART int fork_inside(void) {
    int child = fork();
    return child;
}
APART long after(long n) { return sum + n; }
static void confine(int by_syscall) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int failed = by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                            : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (failed) _exit(4);
}
int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 1500}, {0, 1500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    work(30);
    setitimer(ITIMER_REAL, &never, NULL);
    if (signals < 10) return 5;
    int status = 0, child = fork_inside();
    if (child == 0) _exit(7);
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) return 6;
    confine(argc > 1 && strcmp(argv[1], "syscall") == 0);
    for (long n = 0; n < 100; n++) sum += after(n);
    return 9;
}
"#;

/// `None`, and said so, where the program can't be made.
fn program(sandbox: &Sandbox) -> Option<PathBuf> {
    let source = sandbox.write("metered.c", PROGRAM);
    let program = sandbox.path("metered");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: metrics of latency: no C compiler");
        return None;
    }
    place_probe_agent();
    Some(program)
}

/// All calls of the program's functions, measured.
fn measured(sandbox: &Sandbox, metric: &str, program: &[&str]) -> Value {
    let _ = std::fs::remove_dir_all(sandbox.path("p.transect"));
    let arguments = ["latency", "--metric", metric, "--component", "metered", "--sample-size", "100000", "--format"];
    let output = ["json", "--output", "out.json", "-o", "p.transect", "--"];
    let output = sandbox.transect(&[&arguments[..], &output, program].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(sandbox.path("out.json")).unwrap()).unwrap()
}

fn row<'a>(report: &'a Value, function: &str) -> &'a Value {
    let rows = report["latency"].as_array().unwrap();
    rows.iter().find(|row| row["function"] == function).unwrap_or_else(|| panic!("no {function} in {rows:?}"))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

#[test]
fn cpu_time_is_the_threads_own_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    judged("CPU time of calls", || {
        let report = measured(&sandbox, "cpu", &[program.to_str().unwrap()]);
        let session = &report["meta"]["latency"];
        assert_eq!(session["metric"], "cpu");
        let burn = row(&report, "burn");
        assert_eq!(burn["samples"], 30);
        // After the filter was asked for nothing is read; before, the child's call alone.
        assert_eq!(row(&report, "after")["samples"], 0);
        assert!(session["unread"].as_i64().unwrap() >= 100, "{session}");
        // It ends when its own clock has gone on so far. What measuring the signals' handlers costs is on that clock, not
        // in it. Sleeping takes no CPU time.
        let (p50, nap) = (number(burn, "p50_ns"), number(row(&report, "take_nap"), "p50_ns"));
        let work = number(row(&report, "work"), "total_ns");
        let near = (1_500_000.0..2_600_000.0).contains(&p50) && nap < 1_000_000.0 && work >= 45_000_000.0;
        if near { Ok(()) } else { Err(format!("a nap {nap} ns, work {work} ns, {burn}")) }
    });
    let again = measured(&sandbox, "cpu", &[program.to_str().unwrap(), "syscall"]);
    assert_eq!(row(&again, "after")["samples"], 0);
    // What is counted is not told in nanoseconds.
    let text = sandbox.transect(&["report", "p.transect", "--view", "latency"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("CPU TIME") && text.contains("the thread's CPU time"), "{text}");
}

#[test]
fn page_faults_are_counted_to_the_page_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = program(&sandbox) else { return };
    let report = measured(&sandbox, "page-faults", &[program.to_str().unwrap()]);
    assert_eq!(report["meta"]["latency"]["metric"], "page-faults");
    let touch = row(&report, "touch_pages");
    assert_eq!(touch["samples"], 30);
    let mean = number(touch, "mean");
    assert!((64.0..64.5).contains(&mean), "64 fresh pages a call: {touch}");
    assert_eq!(touch["mean_ns"], Value::Null);
    assert_eq!(number(row(&report, "burn"), "p50"), 0.0);
    // The caller's are its callees', not those of measuring them.
    let work = number(row(&report, "work"), "total");
    assert!((1_920.0..1_960.0).contains(&work), "{work}");
    let csv = sandbox.transect(&["report", "p.transect", "--view", "latency", "--format", "csv"]).output().unwrap();
    let header = "function,component,calls_seen,samples,mean,p50,p90,p99,max,calls_estimated,total,";
    assert!(String::from_utf8(csv.stdout).unwrap().starts_with(header));
    let text = sandbox.transect(&["report", "p.transect", "--view", "latency"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("FAULTS") && text.contains("page faults of the thread"), "{text}");
}

#[test]
fn what_only_hardware_counts_is_refused() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    for metric in ["cycles", "cache-misses"] {
        let output = sandbox.transect(&["latency", "--metric", metric, "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains(metric) && words.contains("transect walk"), "{words}");
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}
