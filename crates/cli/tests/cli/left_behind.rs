//! What `latency` and `probe` leave in a process, also if they are killed: nothing. They need ptrace, a C compiler and the agents.

use std::process::Command;
use std::time::{Duration, Instant};

use predicates::prelude::*;

use crate::command::Sandbox;
use crate::forever::{FOREVER, Forever, built, not_run, send, started, text_is_the_files};

#[test]
fn nothing_is_left_in_a_process_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(mut forever) = Forever::start(&sandbox) else { return };
    let (pid, before) = (forever.pid(), forever.traces());
    for command in [
        &["latency", "-q", "-p", &pid, "--for", "300ms", "-o", "p.transect"][..],
        &["probe", "count", "-p", &pid, "--for", "300ms", "forever:turn"],
        &["probe", "time", "-p", &pid, "--for", "300ms", "forever:turn"],
    ] {
        sandbox.transect(command).assert().code(0).stderr("");
        assert!(forever.text_is_the_files(), "{command:?}");
        assert_eq!(forever.traces(), before, "{command:?}");
    }
    // Killed at any moment, it leaves the rest to its guard.
    for round in 0..6 {
        let commands =
            [&["latency", "-q", "-p", &pid, "-o", "p.transect"][..], &["probe", "time", "-p", &pid, "forever:*"]];
        let mut command = started(&sandbox, commands[round % 2]);
        std::thread::sleep(Duration::from_millis(100 + 150 * round as u64));
        command.kill().unwrap();
        command.wait().unwrap();
        forever.wait_until_clean(&before, &format!("round {round}"));
    }
    // What others have switched on is left as it is.
    sandbox.transect(&["probe", "enable", "-p", &pid, "forever:turn"]).assert().code(0);
    sandbox.transect(&["latency", "-q", "-p", &pid, "--for", "300ms", "-o", "p.transect"]).assert().code(0).stderr("");
    let enabled = predicate::str::contains("enabled");
    sandbox.transect(&["probe", "list", "-p", &pid, "forever:turn"]).assert().code(0).stdout(enabled);
    sandbox.transect(&["probe", "detach", "-p", &pid]).assert().code(0);
    assert!(forever.text_is_the_files() && forever.traces() == before);
    assert!(forever.works());
}

/// Both may find no probes there, and make their own.
#[test]
fn two_that_begin_at_once_leave_the_program_whole_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(mut forever) = Forever::start(&sandbox) else { return };
    let (pid, before) = (forever.pid(), forever.traces());
    for round in 0..6 {
        let one = |folder| started(&sandbox, &["latency", "-q", "-p", &pid, "--for", "100ms", "-o", folder]);
        let mut both = [one("a.transect"), one("b.transect")];
        std::thread::sleep(Duration::from_millis(40 * (round % 4)));
        if round % 3 == 0 {
            both[0].kill().unwrap();
        }
        for command in &mut both {
            command.wait().unwrap();
        }
        forever.wait_until_clean(&before, &format!("round {round}"));
    }
    assert!(forever.works());
}

/// The guard is no ancestor of the program, which Yama may ask for.
#[test]
fn a_killed_recorder_leaves_no_probes_in_what_it_launched_needs_ptrace() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if !matches!(scope.trim(), "" | "0") && !rustix::process::geteuid().is_root() {
        return not_run("only ancestors may trace a process here");
    }
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "forever", FOREVER, &[]) else { return };
    let program = program.to_str().unwrap();
    let commands = [&["latency", "-q", "-o", "p.transect", "--"][..], &["probe", "count", "forever:*", "--"]];
    for (round, command) in commands.iter().cycle().take(6).enumerate() {
        let mut command = started(&sandbox, &[command, &[program][..]].concat());
        std::thread::sleep(Duration::from_millis(100 + 100 * round as u64));
        let children = format!("/proc/{0}/task/{0}/children", command.id());
        let children = std::fs::read_to_string(children).unwrap();
        let runs = |pid: &&str| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path.to_str() == Some(program))
        };
        let child = children.split_whitespace().find(runs).map(str::to_owned);
        command.kill().unwrap();
        command.wait().unwrap();
        // Killed before it was started, there is none.
        let Some(child) = child else { continue };
        let deadline = Instant::now() + Duration::from_secs(30);
        let has_memory = || std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap().contains("transect-probes");
        while has_memory() || !text_is_the_files(&child) {
            assert!(Instant::now() < deadline, "round {round}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(Command::new("kill").args(["-KILL", &child]).status().unwrap().success());
    }
}

/// The process that cleans up after a command on `pid`.
fn guard_of(pid: &str) -> Option<u32> {
    let of = |entry: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let is_guard = read("comm") == b"transect-guard\n"
            && read("cmdline").split(|&b| b == 0).any(|word| word == pid.as_bytes());
        is_guard.then(|| entry.file_name().to_str()?.parse().ok())?
    };
    std::fs::read_dir("/proc").unwrap().flatten().find_map(of)
}

#[test]
fn a_guard_that_comes_late_leaves_what_others_have_enabled_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(forever) = Forever::start(&sandbox) else { return };
    let (pid, before) = (forever.pid(), forever.traces());
    let mut command = started(&sandbox, &["latency", "-q", "-p", &pid, "-o", "p.transect"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while forever.text_is_the_files() {
        assert!(Instant::now() < deadline, "no probe in 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
    let guard = guard_of(&pid).unwrap();
    send("-STOP", guard);
    command.kill().unwrap();
    command.wait().unwrap();
    sandbox.transect(&["probe", "enable", "-p", &pid, "forever:turn"]).assert().code(0);
    send("-CONT", guard);
    while std::path::Path::new(&format!("/proc/{guard}")).exists() {
        assert!(Instant::now() < deadline, "the guard goes on for 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
    let enabled = |function: &str| predicate::str::is_match(format!("(?m)^enabled .* {function} ")).unwrap();
    sandbox.transect(&["probe", "list", "-p", &pid, "forever:turn"]).assert().code(0).stdout(enabled("turn"));
    sandbox.transect(&["probe", "list", "-p", &pid, "forever:work"]).assert().code(0).stdout(enabled("work").not());
    sandbox.transect(&["probe", "detach", "-p", &pid]).assert().code(0);
    assert!(forever.text_is_the_files() && forever.traces() == before);
}

#[test]
fn who_comes_after_a_killed_recorder_waits_for_its_guard_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(forever) = Forever::start(&sandbox) else { return };
    let pid = forever.pid();
    for round in 0..6 {
        let mut command = started(&sandbox, &["latency", "-q", "-p", &pid, "-o", "p.transect"]);
        let deadline = Instant::now() + Duration::from_secs(30);
        while forever.text_is_the_files() {
            assert!(Instant::now() < deadline, "no probe in 30 s");
            std::thread::sleep(Duration::from_millis(5));
        }
        command.kill().unwrap();
        command.wait().unwrap();
        std::thread::sleep(Duration::from_millis(round * 3));
        sandbox.transect(&["probe", "count", "-p", &pid, "forever:turn", "--for", "50ms"]).assert().code(0);
    }
}
