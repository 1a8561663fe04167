use std::process::Stdio;
use std::time::{Duration, Instant};

use predicates::prelude::*;
use serde_json::Value;
use transect_testkit::judged;

use crate::command::Sandbox;
use crate::forever::{built, not_run, send};

#[test]
fn streams_and_statuses_are_the_programs_own() {
    let sandbox = Sandbox::new();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let script = format!("read word; echo \"out $word\"; echo err >&2; {script}");
        let command = ["record", "--quiet", "-o", "p.transect", "--", "sh", "-c", &script];
        let assert = sandbox.with_agent(&command).write_stdin("hello\n").assert();
        assert.code(status).stdout("out hello\n").stderr("err\n");
        let profile = transect_profile_store::read(&sandbox.path("p.transect")).unwrap();
        assert_eq!(profile.meta.exit_status, Some(status));
    }
}

/// As services and `nobody` have it.
#[test]
fn no_home_is_needed() {
    let sandbox = Sandbox::new();
    for (name, home) in [("none", None), ("read-only", Some("/proc/none")), ("relative", Some("relative"))] {
        let mut command = sandbox.with_agent(&["record", "--quiet", "-o", name, "--", "sh", "-c", "exit 3"]);
        command.env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        command.assert().code(3).stderr("");
        let profile = transect_profile_store::read(&sandbox.path(name)).unwrap();
        assert!(!profile.flows.is_empty(), "{name}");
    }
}

#[test]
fn run_reports_on_stderr() {
    let sandbox = Sandbox::new();
    let text = predicate::str::contains("Findings").and(predicate::str::contains("transect report transect-sh-"));
    sandbox.with_agent(&["run", "sh", "-c", "echo out"]).assert().code(0).stdout("out\n").stderr(text);
    let names = sandbox.names();
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with("transect-sh-") && names[0].ends_with(".transect"), "{names:?}");
}

#[test]
fn run_writes_the_view_to_a_file() {
    let sandbox = Sandbox::new();
    let command =
        ["run", "-q", "-o", "p.transect", "--format", "json", "--output", "p.json", "--html", "p.html", "true"];
    sandbox.with_agent(&command).assert().code(0).stdout("").stderr("");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(sandbox.path("p.json")).unwrap()).unwrap();
    assert_eq!(report["meta"]["command"][0], "true");
    assert!(!report["flows"].as_array().unwrap().is_empty());
    assert!(std::fs::read(sandbox.path("p.html")).unwrap().starts_with(b"<!doctype html>"));
}

#[test]
fn a_report_that_fails_keeps_the_profile() {
    let sandbox = Sandbox::new();
    // The program's own status counts, unless that says that all is well.
    for (script, status) in [("exit 3", 3), ("exit 0", 125)] {
        let command = ["run", "-o", "p.transect", "--output", "no/such/file", "--", "sh", "-c", script];
        let message =
            predicate::str::contains("no/such/file").and(predicate::str::contains("transect report p.transect"));
        sandbox.with_agent(&command).assert().code(status).stdout("").stderr(message);
        assert!(transect_profile_store::read(&sandbox.path("p.transect")).is_ok());
    }

    // A reader of standard error that has gone away does not change the status.
    let prepared = sandbox.with_agent(&[]);
    let line = format!("{} run -o q.transect -- sh -c 'exit 3' 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}", {
        prepared.get_program().display()
    });
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &line]).current_dir(sandbox.folder.path());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    assert_eq!(shell.output().unwrap().stdout, b"3\n");
}

#[test]
fn options_reach_the_recording() {
    let sandbox = Sandbox::new();
    let timing = |arguments: &[&str]| {
        let all = [&["record", "-q", "-o", "p.transect"], arguments, &["--", "true"]].concat();
        sandbox.with_agent(&all).assert().code(0);
        let meta = std::fs::read_to_string(sandbox.path("p.transect/meta.json")).unwrap();
        let meta: Value = serde_json::from_str(&meta).unwrap();
        meta["timing"].clone()
    };
    assert_eq!(timing(&[])["mode"], "adaptive");
    assert_eq!(timing(&["--overhead", "5%"])["budget"], 0.05);
    assert_eq!(timing(&["--timing", "full"])["mode"], "full");
    assert_eq!(timing(&["--timing", "count"])["mode"], "count");
    assert_eq!(timing(&["--timing", "every=10"])["period"], 10);
    sandbox.write(".config/transect/config.toml", "[record]\ntiming = \"every=3\"\n");
    assert_eq!(timing(&[])["period"], 3);
    assert_eq!(timing(&["--timing", "full"])["mode"], "full");
    sandbox.write(".config/transect/config.toml", "[record]\ntiming = \"often\"\n");
    let message = predicate::str::contains("record.timing").and(predicate::str::contains("config.toml"));
    sandbox.with_agent(&["record", "--", "true"]).assert().code(2).stdout("").stderr(message);
}

#[test]
fn doctor_tries_a_recording() {
    let sandbox = Sandbox::new();
    let output = sandbox.with_agent(&["doctor", "--format", "json"]).assert().code(0).stderr("").get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["doctor"].as_array().unwrap();
    let recording = checks.iter().find(|c| c["check"] == "recording").unwrap();
    assert_eq!((&recording["status"], &recording["required"]), (&Value::from("ok"), &Value::from(true)));
    for check in checks {
        assert!(check["meaning"].as_str().unwrap().len() > 20, "{check}");
        assert!(check["status"] != "ok" || check["fix"].is_null(), "{check}");
    }
    let text = predicate::str::contains("ok       recording");
    sandbox.with_agent(&["doctor"]).assert().code(0).stdout(text);
}

#[test]
fn doctor_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let text = predicate::str::contains("missing  recording").and(predicate::str::contains("mend it: make build"));
    sandbox.transect(&["doctor"]).env("TRANSECT_AGENT", "/no/such/agent.so").assert().code(1).stdout(text);
}

#[test]
fn top_follows_a_running_recording() {
    let sandbox = Sandbox::new();
    let script = "while [ ! -e stop ]; do /bin/true; read x < /dev/null; done; true";
    // The builder of assert_cmd only waits for its commands; this one is to run meanwhile.
    let prepared = sandbox.with_agent(&[]);
    let mut command = std::process::Command::new(prepared.get_program());
    command.current_dir(sandbox.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut recorder = command.args(["record", "-q", "-o", "p.transect", "--", "sh", "-c", script]).spawn().unwrap();
    let pid = recorder.id().to_string();
    let begin = Instant::now();
    let registered = sandbox.path(&format!(".cache/transect/running/{pid}"));
    while !registered.exists() && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let by_folder = sandbox.transect(&["top", "-n", "2", "--delay", "100ms", "p.transect"]).output().unwrap();
    let by_pid = sandbox.transect(&["top", "-n", "2", "--delay", "100ms", "--delta", &pid]).output().unwrap();
    sandbox.write("stop", "");
    assert!(recorder.wait().unwrap().success());
    for output in [by_folder, by_pid] {
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(text.matches("\nFlows").count(), 2, "{text}");
    }
    assert!(!registered.exists(), "the announcement outlives the recording");
}

/// A program that waits in its first millisecond, before anybody can have looked at what it has mapped.
const WAITS_AT_ONCE: &str = r#"
#include <poll.h>
__attribute__((noinline)) static void wait_for_licence(void) { poll(0, 0, 200); __asm__ volatile(""); }
int main(void) { wait_for_licence(); return 0; }
"#;

#[test]
fn a_wait_in_the_first_millisecond_has_its_callers_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err() {
        return not_run("the scheduler's events need privileges");
    }
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "waits", WAITS_AT_ONCE, &[]) else { return };
    let program = program.to_str().unwrap();
    let run = sandbox.with_agent(&["record", "--quiet", "-o", "profile", "--", program]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let sched = transect_profile_store::read(&sandbox.path("profile")).unwrap().sched;
    let longest = sched.waits.iter().max_by_key(|wait| wait.ns).unwrap();
    let frames = &sched.stacks[longest.stack.unwrap() as usize].frames;
    let names: Vec<&str> = frames.iter().map(|&frame| sched.frames[frame as usize].function.as_str()).collect();
    assert!(names.contains(&"wait_for_licence") && names.contains(&"main"), "{names:?}");
}

/// Two threads want a lock, which each holds for nearly all of its time.
const LOCKED: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sum;
__attribute__((noinline)) static void hold(void) {
    pthread_mutex_lock(&guard);
    for (int i = 0; i < 1000000; i++) sum = sum * 1664525u + 1;
    pthread_mutex_unlock(&guard);
}
static void *work(void *nothing) { for (;;) hold(); return nothing; }
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    sleep(60);
    return 0;
}
"#;

#[test]
fn a_running_program_has_the_default_recording_without_calls_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err() {
        return not_run("the scheduler's events need privileges");
    }
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "locked", LOCKED, &["-pthread"]) else { return };
    // Where others have the CPUs, threads wait for these and hardly for the lock.
    judged("the default recording of a running program", || {
        let mut running = std::process::Command::new(&program).spawn().unwrap();
        let pid = running.id().to_string();
        std::thread::sleep(Duration::from_millis(100));
        let out = sandbox.transect(&["run", "-o", "p", "-p", &pid, "--duration", "1s"]).output().unwrap();
        let goes_on = running.try_wait().unwrap().is_none();
        running.kill().unwrap();
        running.wait().unwrap();
        let screen = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && goes_on, "{}", String::from_utf8_lossy(&out.stderr));
        assert!(
            screen.contains("without flow: calls between components of a running process are counted if asked for"),
            "{screen}"
        );
        let profile = transect_profile_store::read(&sandbox.path("p")).unwrap();
        std::fs::remove_dir_all(sandbox.path("p")).unwrap();
        assert_eq!(profile.meta.collectors, ["walk", "sched"]);
        assert!(!profile.walk.nodes.is_empty() && !profile.sched.waits.is_empty());
        let longest = profile.sched.tasks.iter().map(|task| task.end_ns - task.start_ns).max().unwrap();
        assert!(longest <= profile.meta.wall_ns, "{longest} of {}", profile.meta.wall_ns);
        let finding = screen.lines().skip_while(|line| !line.starts_with("Findings")).nth(1).unwrap();
        let found = finding.contains("guard") && finding.contains("hold");
        if found { Ok(()) } else { Err(screen.into_owned()) }
    });
}

#[test]
fn a_program_that_ends_while_it_is_recorded_is_said_to_have_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err() {
        return not_run("the scheduler's events need privileges");
    }
    let sandbox = Sandbox::new();
    let record = |lives: &str, arguments: &[&str]| {
        let mut running = std::process::Command::new("sleep").arg(lives).spawn().unwrap();
        let pid = running.id().to_string();
        let out = sandbox.transect(&["run", "-o", "p", "-p", &pid]).args(arguments).output().unwrap();
        let _ = running.kill();
        running.wait().unwrap();
        out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
    };
    let goes_on = record("600", &["--duration", "300ms"]).unwrap();
    assert!(goes_on.lines().next().unwrap().contains("still running"), "{goes_on}");
    // It can be over before the recording begins.
    let ended = ["1", "4", "16", "50"].into_iter().find_map(|lives| record(lives, &[])).unwrap();
    assert!(ended.lines().next().unwrap().contains("ended meanwhile"), "{ended}");
}

/// More threads than CPUs, none of which ever waits.
const CROWDED: &str = r#"
#include <pthread.h>
static volatile unsigned sum;
__attribute__((noinline)) static void *burn(void *nothing) { for (;;) sum = sum * 1664525u + 1; return nothing; }
int main(void) {
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) pthread_create(&threads[i], 0, burn, 0);
    pthread_join(threads[0], 0);
    return 0;
}
"#;

#[test]
fn a_crowded_program_is_recorded_for_no_longer_than_it_is_sampled_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err() {
        return not_run("the scheduler's events need privileges");
    }
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "crowded", CROWDED, &["-pthread"]) else { return };
    let mut running = std::process::Command::new(program).spawn().unwrap();
    let pid = running.id().to_string();
    std::thread::sleep(Duration::from_millis(100));
    let out = sandbox.transect(&["record", "-o", "p", "-p", &pid, "--duration", "700ms"]).output().unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let profile = transect_profile_store::read(&sandbox.path("p")).unwrap();
    let ran: i64 = profile.sched.tasks.iter().map(|task| task.running_ns).sum();
    let sampled: i64 = profile.sched.moments.iter().map(|moment| moment.period_ns).sum();
    // While the profile is made the program goes on with nobody looking.
    assert!(sampled * 2 > ran, "{sampled} of {ran}");
    assert!(ran <= profile.meta.wall_ns * i64::from(profile.meta.machine.cpus), "{ran} in {}", profile.meta.wall_ns);
}

#[test]
fn a_running_program_has_latencies_beside_its_waits_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err() {
        return not_run("the scheduler's events need privileges");
    }
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "locked", LOCKED, &["-pthread"]) else { return };
    let mut running = std::process::Command::new(program).spawn().unwrap();
    let pid = running.id().to_string();
    std::thread::sleep(Duration::from_millis(100));
    // A walk and latencies take the scheduler's events along.
    let out = sandbox
        .transect(&["run", "-o", "p", "-p", &pid, "--duration", "1s", "--collect", "walk,latency"])
        .output()
        .unwrap();
    let goes_on = running.try_wait().unwrap().is_none();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(out.status.success() && goes_on, "{}", String::from_utf8_lossy(&out.stderr));
    let profile = transect_profile_store::read(&sandbox.path("p")).unwrap();
    assert_eq!(profile.meta.collectors, ["walk", "sched", "latency"]);
    assert!(profile.latency.iter().any(|row| row.function == "hold" && row.samples > 0), "{:?}", profile.latency);
    assert!(!profile.walk.nodes.is_empty() && !profile.sched.waits.is_empty());
}

#[test]
fn what_a_running_program_cannot_be_asked_for_is_refused() {
    let sandbox = Sandbox::new();
    for (more, why) in [
        (&["--collect", "flow", "--timing", "full"][..], "counted, not timed"),
        (&["--all"], "cannot be used with"),
        (&["--wait-all"], "cannot be used with"),
    ] {
        let arguments = [&["run", "-p", "1", "--duration", "1s", "-o", "p"][..], more].concat();
        sandbox.transect(&arguments).assert().code(2).stderr(predicate::str::contains(why));
    }
    let duration = ["run", "--duration", "1s", "-o", "p", "--", "true"];
    sandbox.transect(&duration).assert().code(2).stderr(predicate::str::contains("--pid, --cgroup or --all"));
    for changing in ["flow", "sched,latency", "feature"] {
        let machine = ["run", "--all", "--collect", changing, "--duration", "1s", "-o", "p"];
        sandbox.transect(&machine).assert().code(2).stderr(predicate::str::contains("by --pid or --cgroup"));
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

/// The launched program makes the other one in its last moment.
#[test]
fn with_wait_all_a_recording_ends_with_the_last_descendant() {
    for collect in ["flow", "flow,sched"] {
        if collect != "flow" && transect_bpf_collect::privilege::prepare_to_load().is_err() {
            not_run("the scheduler's events need privileges");
            continue;
        }
        let sandbox = Sandbox::new();
        let command = ["record", "--quiet", "--wait-all", "--collect", collect, "-o", "p", "--"];
        let began = Instant::now();
        let script = "sleep 1 >&- 2>&- & exit 7";
        sandbox.with_agent(&[&command[..], &["sh", "-c", script]].concat()).assert().code(7);
        assert!(began.elapsed() >= Duration::from_secs(1), "{collect}: {:?}", began.elapsed());
        let profile = transect_profile_store::read(&sandbox.path("p")).unwrap();
        assert!(profile.processes.len() >= 2, "{collect}: {:?}", profile.processes);
    }
}

#[test]
fn a_signal_ends_the_wait_for_descendants_and_keeps_the_profile() {
    let sandbox = Sandbox::new();
    let command = ["record", "--quiet", "--wait-all", "--collect", "flow", "-o", "p", "--"];
    let arguments = [&command[..], &["sh", "-c", "sleep 30 >&- 2>&- & echo $! > pid; exit 7"]].concat();
    let mut recorder = sandbox.started(&arguments);
    let limit = Instant::now() + Duration::from_secs(20);
    while !sandbox.path("pid").exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(700));
    let began = Instant::now();
    send("-TERM", recorder.id());
    assert_eq!(recorder.wait().unwrap().code(), Some(7));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(transect_profile_store::read(&sandbox.path("p")).unwrap().processes.len() >= 2);
    send("-KILL", std::fs::read_to_string(sandbox.path("pid")).unwrap().trim().parse().unwrap());
}

/// What the agent maps for each thread is in no row of the program's calls.
#[test]
fn calls_that_the_agent_makes_are_none_of_the_programs() {
    let sandbox = Sandbox::new();
    let threads = "import threading\n\
        for _ in range(3000):\n\
        \x20 thread = threading.Thread(target=len, args=('',))\n\
        \x20 thread.start()\n\
        \x20 thread.join()\n";
    let recorded = ["record", "--quiet", "--collect", "flow,sched", "-o", "p", "--", "python3", "-c", threads];
    sandbox.with_agent(&recorded).assert().success();
    let shown = sandbox.transect(&["report", "p", "--view", "system-calls", "--top", "100"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let own: Vec<&str> =
        shown.lines().filter(|line| line.ends_with(" mremap") || line.contains("remap_file_pages")).collect();
    assert!(shown.contains("SYSTEM CALL") && own.is_empty(), "{shown}");
}

/// A recorder that was killed has written nothing, and its program goes on: a report says so, and what helps next time.
#[test]
fn a_killed_recorder_is_told_from_a_profile_that_never_was() {
    let sandbox = Sandbox::new();
    let mut recorder = sandbox.started(&[
        "record",
        "--quiet",
        "--collect",
        "flow",
        "-o",
        "p",
        "--",
        "sh",
        "-c",
        "touch began; sleep 3; touch ended",
    ]);
    let wait_for = |name: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !sandbox.path(name).exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(sandbox.path(name).exists(), "{name}");
    };
    let says = |words: &str| {
        let said = sandbox.transect(&["report", "p"]).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(
            said.status.code() == Some(1) && text.contains(words) && text.contains("--interval"),
            "{words}: {text}"
        );
    };
    wait_for("began");
    says(&format!("process {} records it", recorder.id()));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    says(&format!("its recorder, process {}, was killed", recorder.id()));
    wait_for("ended");
    // Another recording in between is no reason to forget it.
    sandbox.with_agent(&["record", "--quiet", "--collect", "flow", "-o", "q", "--", "true"]).assert().success();
    says("was killed");
    sandbox.transect(&["report", "never"]).assert().code(1).stderr(predicates::str::contains("record one with"));
}
