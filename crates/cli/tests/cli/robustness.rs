//! `latency` and `probe` beside programs that end soon, confine themselves or look at themselves. They need ptrace, a C compiler and the agents.

use std::path::Path;
use std::process::{Command, Stdio};

use predicates::prelude::*;
use transect_profile_model::LossKind;
use transect_testkit::judged;

use crate::command::{Sandbox, place_probe_agent};
use crate::forever::{built, not_run};

/// Gives up the clock, then makes threads and a child that call measured functions.
const CLOCKLESS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline, noclone)) long turn(long n) { return work(n) + 1; }
static void *some(void *none) { long s = 0; for (int i = 0; i < 200; i++) s += turn(1000 + i); return (void *)s; }
int main(int argc, char **argv) {
    long s = (long)some(0);
    int failed = argc > 1 ? syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) : prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    for (int i = 0; i < 10; i++) s += (long)some(0);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, some, 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    int status;
    if (fork() == 0) _exit(some(0) == 0);
    wait(&status);
    return failed || status ? 1 : s == 12345 ? 2 : 7;
}
"#;

/// Allows itself only what it does on its own: threads, a library, work.
const CONFINED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MAY(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
__attribute__((noinline)) long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline, noclone)) long turn(long n) { return work(n) + 1; }
static volatile int over;
static void *some(void *none) {
    long s = 0;
    for (int i = 0; i < 200; i++) s += turn(1000 + i);
    __sync_fetch_and_add(&over, 1);
    return (void *)s;
}
int main(int argc, char **argv) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        MAY(SYS_read), MAY(SYS_write), MAY(SYS_close), MAY(SYS_exit), MAY(SYS_exit_group), MAY(SYS_mmap), MAY(SYS_munmap),
        MAY(SYS_mprotect), MAY(SYS_brk), MAY(SYS_clone), MAY(SYS_clone3), MAY(SYS_set_robust_list), MAY(SYS_rseq),
        MAY(SYS_madvise), MAY(SYS_rt_sigprocmask), MAY(SYS_rt_sigaction), MAY(SYS_openat), MAY(SYS_newfstatat),
        MAY(SYS_fstat), MAY(SYS_pread64), MAY(SYS_getrandom), MAY(SYS_clock_nanosleep),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    some(0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (argc > 1 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 2;
    pthread_t t[2];
    for (int i = 0; i < 2; i++) if (pthread_create(&t[i], 0, some, 0)) return 3;
    while (over < 3) usleep(1000);
    usleep(20000);
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (!library || !dlsym(library, "cos")) return 4;
    some(0);
    return 7;
}
"#;

/// Loses memory if it is told so.
const LEAKING: &str = r#"
#include <stdlib.h>
__attribute__((noinline, noclone)) long turn(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline, noclone)) void lose(int blocks) { while (blocks-- > 0) { char *volatile lost = malloc(100); *lost = 1; } }
int main(int argc, char **argv) {
    if (argc > 1) lose(50);
    for (int i = 0; i < 2000; i++) turn(1000);
    return 0;
}
"#;

#[test]
fn programs_that_end_soon_keep_their_status_and_profile_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("ls / > /dev/null; exit 4", 4)] {
        for round in 0..3 {
            let folder = format!("p{status}-{round}.transect");
            for collect in [&["record", "-q", "--collect", "flow,latency"][..], &["latency", "-q"]] {
                let arguments = [collect, &["-o", &folder, "--", "sh", "-c", script]].concat();
                sandbox.with_agent(&arguments).assert().code(status).stderr("");
                let profile = transect_profile_store::read(&sandbox.path(&folder)).unwrap();
                assert_eq!(profile.meta.exit_status, Some(status), "{arguments:?}");
                if collect[0] == "record" {
                    assert!(!profile.flows.is_empty(), "{arguments:?}");
                }
            }
            for action in ["count", "time"] {
                sandbox.transect(&["probe", action, "malloc", "--", "sh", "-c", script]).assert().code(status);
            }
        }
    }
    // Over before anybody could look at its functions: the profile says so, and has the flows.
    sandbox
        .with_agent(&["record", "-q", "--collect", "flow,latency", "-o", "true.transect", "--", "true"])
        .assert()
        .code(0);
    let profile = transect_profile_store::read(&sandbox.path("true.transect")).unwrap();
    let left_out = profile.loss.iter().find(|loss| loss.what == LossKind::CollectorsLeftOut);
    if let Some(loss) = left_out {
        assert_eq!(loss.reason, "the program ended before its functions had probes");
    }
    assert!(left_out.is_some() || profile.meta.latency.is_some());
}

/// The program ends as it does alone, whichever way it takes, under every collector and the given commands.
fn assert_lives(sandbox: &Sandbox, program: &Path, more: &[&[&str]]) {
    let program = program.to_str().unwrap();
    let each: [&[&str]; 3] = [
        &["latency", "-q", "-o", "p.transect"],
        &["record", "-q", "--collect", "flow", "-o", "p.transect"],
        &["record", "-q", "--collect", "flow,latency", "-o", "p.transect"],
    ];
    for way in [&[][..], &["by number"]] {
        for &command in each.iter().chain(more) {
            sandbox.with_agent(&[command, &["--", program], way].concat()).assert().code(7);
        }
    }
}

#[test]
fn programs_that_give_up_the_clock_live_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "clockless", CLOCKLESS, &[]) else { return };
    assert_lives(
        &sandbox,
        &program,
        &[
            &["probe", "time", "clockless:turn", "--output", "out"],
            &["probe", "time", "*", "--output", "out"],
            &["probe", "count", "clockless:turn", "--output", "out"],
        ],
    );
}

#[test]
fn programs_that_confine_themselves_live_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "confined", CONFINED, &["-ldl"]) else { return };
    if Command::new(&program).status().unwrap().code() != Some(7) {
        return not_run("this libc makes other system calls");
    }
    assert_lives(&sandbox, &program, &[&["probe", "time", "confined:turn", "--output", "out"]]);
}

/// Its children make none of the calls that its filter ends them for.
const CONFINED_PARENT: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOT(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
static int of(pid_t child) { int status = 0; waitpid(child, &status, 0); return status; }
int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        NOT(SYS_getpid), NOT(SYS_gettid), NOT(SYS_getppid), NOT(SYS_prctl), NOT(SYS_readlink),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    pid_t child = fork();
    if (!child) { free(malloc(strlen("9"))); _exit(5); }
    if (of(child) != 5 << 8) return 2;
    child = fork();
    if (!child) { execl("/bin/true", "true", (char *)0); _exit(6); }
    return of(child) ? 3 : 7;
}
"#;

#[test]
fn children_of_a_program_behind_a_filter_live_and_are_a_loss() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "parent", CONFINED_PARENT, &["-fno-builtin"]) else { return };
    let program = program.to_str().unwrap();
    if Command::new(program).status().unwrap().code() != Some(7) {
        return not_run("this libc makes other system calls");
    }
    sandbox.with_agent(&["record", "-q", "--collect", "flow", "-o", "p.transect", "--", program]).assert().code(7);
    let said = predicate::str::is_match("2 .*made after the program restricted its system calls").unwrap();
    sandbox.transect(&["report", "p.transect", "--view", "loss"]).assert().success().stdout(said);
}

#[test]
fn libraries_loaded_behind_a_filter_are_a_loss() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "confined", CONFINED, &["-ldl"]) else { return };
    let program = program.to_str().unwrap();
    if Command::new(program).status().unwrap().code() != Some(7) {
        return not_run("this machine's threads need more system calls than the program allows");
    }
    sandbox.with_agent(&["record", "-q", "--collect", "flow", "-o", "p.transect", "--", program]).assert().code(7);
    let said = predicate::str::is_match("1 .*loaded after the program restricted its system calls").unwrap();
    sandbox.transect(&["report", "p.transect", "--view", "loss"]).assert().success().stdout(said);
}

/// 100 calls before it gives up the clock, 200,000 after: no more than those were not timed.
#[test]
fn calls_without_a_clock_are_the_loss_and_no_others() {
    let sandbox = Sandbox::new();
    let text = "#include <sys/prctl.h>\n#include <stdlib.h>\n\
                int main(void) { for (int i = 0; i < 100; i++) free(malloc(9));\n\
                prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);\n\
                for (int i = 0; i < 100000; i++) free(malloc(9));\nreturn 0; }\n";
    let Some(program) = built(&sandbox, "clockless", text, &["-fno-builtin"]) else { return };
    let program = program.to_str().unwrap();
    sandbox.with_agent(&["record", "-q", "--collect", "flow", "-o", "p.transect", "--", program]).assert().success();
    let said = predicate::str::is_match(r"(?m)^ *(199,9\d\d|200,\d\d\d)  untimed calls").unwrap();
    sandbox.transect(&["report", "p.transect", "--view", "loss"]).assert().success().stdout(said);
}

#[test]
fn a_sanitizer_finds_leaks_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "leaking", LEAKING, &["-fsanitize=address"]) else { return };
    let alone = Command::new(&program).arg("x").stderr(Stdio::null()).status().unwrap().code();
    if alone == Some(0) {
        return not_run("this sanitizer finds no leaks");
    }
    let program = program.to_str().unwrap();
    for command in [
        &["latency", "-q", "-o", "p.transect"][..],
        &["probe", "time", "leaking:turn", "--output", "out"],
        &["probe", "count", "leaking:turn", "--output", "out"],
    ] {
        sandbox.transect(&[command, &["--", program]].concat()).assert().code(0);
        let found = predicate::str::contains("detected memory leaks");
        let assert = sandbox.transect(&[command, &["--", program, "x"]].concat()).assert().stderr(found);
        assert_eq!(assert.get_output().status.code(), alone);
    }
}

#[test]
fn a_translated_program_is_left_alone_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "leaking", LEAKING, &[]) else { return };
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return not_run("no valgrind");
    }
    let program = program.to_str().unwrap();
    sandbox
        .transect(&["latency", "-q", "-o", "p.transect", "--", "valgrind", "-q", program])
        .assert()
        .code(0)
        .stderr("");
    let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
    assert!(profile.loss.iter().any(|loss| loss.reason.contains("runs under valgrind")), "{:?}", profile.loss);
}

/// Two threads at once, 12,000 in all, each of which calls libraries.
const COME_AND_GO: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *some(void *n) { return getenv("TRANSECT_NONE") ? n : 0; }
int main(void) {
    pthread_t t[2];
    for (long i = 0; i < 12000; i++) {
        if (i > 1) pthread_join(t[i % 2], 0);
        pthread_create(&t[i % 2], 0, some, (void *)(i % 50));
    }
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
"#;

#[test]
fn frames_last_for_threads_that_come_and_go() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "come-and-go", COME_AND_GO, &[]) else { return };
    let program = program.to_str().unwrap();
    let arguments = ["record", "-q", "--collect", "flow", "--timing", "full", "-o", "p.transect", "--", program];
    sandbox.with_agent(&arguments).assert().code(0);
    let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
    let untimed = profile.loss.iter().find(|loss| loss.reason.contains("no frame left"));
    assert!(untimed.is_none(), "{untimed:?}");
    let calls = |api: &str| profile.flows.iter().filter(|flow| flow.api == api).map(|flow| flow.calls).sum::<i64>();
    assert_eq!((calls("pthread_create"), calls("getenv")), (12_000, 12_000));
}

#[test]
fn what_is_static_has_latencies_and_what_is_not_there_is_an_error_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "fixed", LEAKING, &["-static"]) else { return };
    let program = program.to_str().unwrap();
    let arguments = ["latency", "--functions", "turn", "-o", "p.transect", "--", program];
    sandbox.transect(&arguments).assert().code(0).stderr(predicate::str::contains("turn"));
    let message = predicate::str::contains("no component matches 'nope:none'; it has fixed");
    sandbox.transect(&["probe", "count", "nope:none", "--", program]).assert().code(2).stderr(message);
    let message = predicate::str::contains("no function that a probe can stand at matches --functions 'nope'");
    sandbox
        .transect(&["latency", "-q", "--functions", "nope", "-o", "q.transect", "--", program])
        .assert()
        .code(1)
        .stderr(message);
}

/// Each is held until it has its probes, for longer than it runs on a machine with a CPU for it.
#[test]
fn programs_that_are_held_at_their_start_count_as_overhead_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    // Programs of their own: of one that is started again and again only the first processes are held.
    for number in 0..25 {
        std::fs::copy("/bin/true", sandbox.path(&format!("true{number}"))).unwrap();
    }
    let script = "i=0; while [ $i -lt 25 ]; do ./true$i; i=$((i+1)); done";
    judged("programs held at their start", || {
        sandbox.with_agent(&["latency", "-q", "-o", "p.transect", "--", "sh", "-c", script]).assert().code(0);
        let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
        std::fs::remove_dir_all(sandbox.path("p.transect")).unwrap();
        assert_eq!(profile.processes.len(), 26, "{:?}", profile.loss);
        let meta = profile.meta;
        let overhead = meta.overhead.unwrap();
        assert!(overhead.start_ns > 0);
        let counted = meta.overhead_estimate > 0.3 && overhead.share > 0.3;
        if counted { Ok(()) } else { Err(format!("{} of {overhead:?}", meta.overhead_estimate)) }
    });
}

#[test]
fn of_processes_that_live_for_a_moment_the_first_are_measured_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    let script = "i=0; while [ $i -lt 25 ]; do /bin/true; i=$((i+1)); done; exit 7";
    sandbox.with_agent(&["latency", "-q", "-o", "p.transect", "--", "sh", "-c", script]).assert().code(7);
    let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
    let left_out = |loss: &&transect_profile_model::Loss| loss.what == LossKind::UnprofiledChildren;
    let count: i64 = profile.loss.iter().filter(left_out).map(|loss| loss.count).sum();
    let measured = profile.processes.iter().filter(|process| process.executable.ends_with("/true")).count();
    assert!(count >= 15, "{:?}", profile.loss);
    assert!(measured >= 1 && measured as i64 + count <= 25, "{measured} {count}");
}

const FORKED: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int calls = 0, status;
    if (fork() == 0) {
        for (int i = 0; i < 1000; i++) calls += getenv("TRANSECT_NONE") == 0;
        _exit(calls != 1000);
    }
    wait(&status);
    return status;
}
"#;

#[test]
fn forked_children_are_left_alone_where_nobody_is_followed() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "forked", FORKED, &[]) else { return };
    let program = program.to_str().unwrap();
    for (follow, calls) in [(&[][..], 1000), (&["--no-follow"][..], 0)] {
        let arguments = [&["record", "-q", "--collect", "flow", "-o", "p.transect"], follow, &["--", program]].concat();
        sandbox.with_agent(&arguments).assert().code(0);
        let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
        let got: i64 = profile.flows.iter().filter(|flow| flow.api == "getenv").map(|flow| flow.calls).sum();
        assert_eq!((got, profile.processes.len()), (calls, if calls > 0 { 2 } else { 1 }));
        assert_eq!(profile.loss.iter().any(|loss| loss.what == LossKind::UnprofiledChildren), calls == 0);
    }
}

const MANY_LIBRARIES: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **folder) {
    for (int i = 0; i < 150; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/l%d.so", folder[1], i);
        void *library = dlopen(path, RTLD_NOW);
        int (*call)(void) = library ? dlsym(library, "call") : 0;
        if (!call || call() != 7) return 1;
    }
}
"#;

/// What the agent does for a library does not grow with the number of those that are there: its probes of memory are counted.
#[test]
fn libraries_that_come_one_by_one_cost_the_same_each_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "many", MANY_LIBRARIES, &["-ldl"]) else { return };
    let Some(library) = built(&sandbox, "one.so", "int call(void) { return 7; }", &["-shared", "-fPIC"]) else {
        return;
    };
    let folder = sandbox.path("libraries");
    std::fs::create_dir(&folder).unwrap();
    (0..150).for_each(|i| _ = std::fs::copy(&library, folder.join(format!("l{i}.so"))).unwrap());
    let (program, folder) = (program.to_str().unwrap(), folder.to_str().unwrap());
    let counts = sandbox.path("counts");
    let strace = ["strace", "-f", "-qq", "-o", counts.to_str().unwrap(), "-e", "trace=rt_sigprocmask", program, folder];
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return not_run("no strace");
    }
    let arguments = [&["record", "-q", "--collect", "flow", "-o", "p.transect", "--"][..], &strace].concat();
    sandbox.with_agent(&arguments).assert().code(0);
    let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
    let calls = |api: &str| profile.flows.iter().filter(|flow| flow.api == api).map(|flow| flow.calls).sum::<i64>();
    assert_eq!((calls("dlopen"), calls("call")), (150, 150));
    let lines = std::fs::read_to_string(&counts).unwrap().lines().count();
    assert!(lines < 150 * 20, "{lines} calls for 150 libraries");
}
