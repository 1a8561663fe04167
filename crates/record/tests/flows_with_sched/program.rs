//! Small programs that note in a file when they made each call, and the recording of them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use transect_profile_model::{Profile, Timing};
use transect_record::{Options, OtherCollectors, record_with};

/// Calls of one function: begin and end on `CLOCK_MONOTONIC`, ns.
pub type Calls = BTreeMap<String, Vec<(u64, u64)>>;

/// A built program in a folder of its own.
pub struct Program {
    folder: TempDir,
}

/// `spin(function, ms)` calls a function of the library that spins so long, and notes it.
const LIBRARY: &str = r#"
#include <time.h>
static unsigned long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec; }
static void until(unsigned long us) { unsigned long end = now() + us * 1000; while (now() < end) ; }
void spin_a(unsigned long us) { until(us); }
void spin_b(unsigned long us) { until(us); }
void spin_c(unsigned long us) { until(us); }
void inner(unsigned long us) { until(us); }
"#;

const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
void spin_a(unsigned long), spin_b(unsigned long), spin_c(unsigned long), inner(unsigned long);
static unsigned long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec; }
static FILE *notes;
static unsigned long last;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;
/* How long the thread has waited for a CPU so far, ns. */
static unsigned long delay(void) {
    unsigned long ran = 0, waited = 0;
    char text[100] = "";
    int fd = open("/proc/thread-self/schedstat", O_RDONLY);
    if (fd >= 0) { if (read(fd, text, sizeof text - 1) > 0) sscanf(text, "%lu %lu", &ran, &waited); close(fd); }
    return waited;
}
/* What of it lies before a note is in a gap that no note tells of. */
static __thread unsigned long told;
static void gap(void) {
    unsigned long waited = delay();
    pthread_mutex_lock(&noting);
    fprintf(notes, "gap 0 %lu\n", waited - told);
    pthread_mutex_unlock(&noting);
    told = waited;
}
/* How long the thread has run or waited for a CPU so far, ns. */
static unsigned long used(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec + delay(); }
static void note(const char *name, unsigned long begin, unsigned long end) {
    told = delay();
    pthread_mutex_lock(&noting);
    fprintf(notes, "%s %lu %lu\n", name, begin, end);
    last = end;
    pthread_mutex_unlock(&noting);
}
#define NOTED(f, us) do { gap(); unsigned long begin = now(); f(us); note(#f, begin, now()); } while (0)
/* From `at` on a thread is active that sleeps until then. */
static void sleep_until(unsigned long at) {
    struct timespec t = { at / 1000000000ul, at % 1000000000ul };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
    note("awake", at, now());
}
/* A thread was active since then. */
#define SINCE(at) note("active", at, now())
/* The same but for what it was blocked: it had used so much then. */
#define SINCE_BLOCKED(at, before) do { unsigned long there = now(), more = used() - (before); SINCE(at); \
    fprintf(notes, "gap 0 %lu\n", there - (at) > more ? there - (at) - more : 0); } while (0)
#define OPEN_NOTES() do { notes = fopen(argv[1], "a"); setvbuf(notes, 0, _IOFBF, 1 << 20); } while (0)
"#;

impl Program {
    /// Builds it from the body of a C file that comes after [`PRELUDE`].
    pub fn build(body: &str) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("spin.c"), LIBRARY).unwrap();
        std::fs::write(path("main.c"), format!("{PRELUDE}{body}")).unwrap();
        let run = |arguments: &[&str]| {
            assert!(Command::new("cc").args(arguments).current_dir(folder.path()).status().unwrap().success());
        };
        run(&["-O1", "-shared", "-fPIC", "-o", "libspin.so", "spin.c"]);
        run(&["-O1", "-g", "-o", "main", "main.c", "-L.", "-lspin", "-Wl,-rpath,$ORIGIN", "-lpthread"]);
        Program { folder }
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// Records it with its notes' path as first argument.
    pub fn record(
        &self,
        timing: Timing,
        published: Option<Arc<OwnedFd>>,
        before_exec: transect_record::BeforeExecAnywhere<'_>,
    ) -> Profile {
        let options = Options {
            command: vec![self.folder.path().join("main").into(), self.notes().into()],
            timing,
            histogram: false,
            trace: Vec::new(),
            follow: true,
            wait_all: true,
            interval: None,
            wait_apis: Vec::new(),
            static_components: None,
            latency: None,
            agent: Some(agent().to_owned()),
            plan_cache: Some(self.folder.path().join("plans")),
        };
        let beside = OtherCollectors { published, before_exec: Some(before_exec), ..OtherCollectors::default() };
        let recorded = record_with(&options, beside, &mut |_| {}).unwrap();
        assert_eq!(recorded.exit_status, 0);
        recorded.profile
    }

    /// Removes its notes, for another run.
    pub fn forget_notes(&self) {
        std::fs::remove_file(self.notes()).unwrap();
    }

    /// What it noted.
    pub fn calls(&self) -> Calls {
        let mut calls = Calls::new();
        for line in std::fs::read_to_string(self.notes()).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse().unwrap();
            calls.entry(words[0].to_owned()).or_default().push((number(1), number(2)));
        }
        calls
    }
}

/// Attributed time, criticality and total of an API over all threads, ns.
pub fn sums(profile: &Profile, api: &str) -> (f64, Option<f64>, f64) {
    let rows: Vec<_> = profile.flows.iter().filter(|f| f.api == api && f.calls > 0).collect();
    assert!(!rows.is_empty(), "no flow {api}");
    let sum = |f: fn(&transect_profile_model::Flow) -> Option<i64>| {
        rows.iter().map(|row| f(row)).sum::<Option<i64>>().map(|n| n as f64)
    };
    (sum(|f| f.attributed_ns).unwrap(), sum(|f| f.criticality_ns), sum(|f| f.total_ns).unwrap())
}

/// The agent, built once.
fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        // …/target/debug/deps/this-test
        let test = std::env::current_exe().unwrap();
        let agent = test.ancestors().nth(3).unwrap().join("release/libtransect_agent.so");
        if std::env::var_os("TRANSECT_AGENTS_BUILT").is_some() {
            return agent;
        }
        let build = Command::new(env!("CARGO"))
            .args(["build", "--release", "--quiet", "-p", "transect-agent"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(build.unwrap().success(), "the agent does not build");
        agent
    })
}
