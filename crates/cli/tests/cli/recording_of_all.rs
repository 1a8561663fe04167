use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Sandbox;
use crate::forever::{not_run, send, started};

/// Programs that were there before and one that begins meanwhile, but nothing of the recorder or the kernel's threads; and a
/// snapshot of them before the end.
#[test]
fn all_programs_of_the_machine_are_recorded_as_root() {
    if transect_bpf_collect::privilege::prepare_to_load().is_err()
        || !transect_bpf_collect::privilege::sees_all_processes()
    {
        return not_run("the whole machine takes root");
    }
    let sandbox = Sandbox::new();
    let mut before = Command::new("sleep").arg("600").spawn().unwrap();
    let mut recorder = started(&sandbox, &["record", "-q", "-o", "p", "--all", "--collect", "sched"]);
    let begun = Instant::now();
    // The first snapshot comes when it records.
    while !sandbox.path("p/meta.json").exists() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(100));
        let caught = std::fs::read_to_string(format!("/proc/{}/status", recorder.id())).unwrap();
        let caught = caught.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & 1 << 11 != 0 {
            send("-USR2", recorder.id());
        }
    }
    let snapshot = transect_profile_store::read(&sandbox.path("p")).unwrap();
    assert_eq!((snapshot.meta.exit_status, snapshot.meta.collectors.as_slice()), (None, &["sched".to_owned()][..]));
    let top = sandbox.transect(&["top", "-n", "1", "p"]).output().unwrap();
    assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
    let mut meanwhile =
        Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).spawn().unwrap();
    meanwhile.wait().unwrap();
    send("-INT", recorder.id());
    assert!(recorder.wait().unwrap().success());
    before.kill().unwrap();
    before.wait().unwrap();
    let profile = transect_profile_store::read(&sandbox.path("p")).unwrap();
    let has = |pid: u32| profile.processes.iter().any(|process| process.pid == pid.cast_signed());
    assert!(has(before.id()) && has(meanwhile.id()), "{:?}", profile.processes);
    assert!(!has(recorder.id()), "the recorder's work is not the programs'");
    // The kernel's first thread makes all others.
    assert!(profile.processes.iter().all(|process| process.parent_pid != 2), "{:?}", profile.processes);
}

#[test]
fn all_programs_are_refused_to_who_is_not_root() {
    let sandbox = Sandbox::new();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("transect"));
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command.args(["record", "--all", "-o", "/nonexistent/p"]).env("HOME", sandbox.folder.path());
    let out = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("run it with sudo"), "{said}");
}
