//! Signals to the whole process group, as a terminal sends them, while a program is being started.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Sandbox, place_probe_agent};

#[test]
fn a_signal_while_the_program_is_started_ends_both_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    let commands: [&[&str]; 2] =
        [&["latency", "-q", "-o", "p.transect", "--"], &["probe", "count", "libc.so.6:malloc", "--"]];
    for (round, command) in commands.iter().cycle().take(60).enumerate() {
        let signal = ["-INT", "-TERM", "-HUP"][round % 3];
        let mut recorder = Command::new(assert_cmd::cargo::cargo_bin("transect"));
        recorder
            .args(*command)
            .args(["sleep", "60"])
            .current_dir(sandbox.folder.path())
            .env("HOME", sandbox.folder.path());
        recorder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut recorder = recorder.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(2 * round as u64));
        let group = format!("-{}", recorder.id());
        assert!(Command::new("kill").args([signal, "--", &group]).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(30);
        while recorder.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                panic!("{command:?} hangs after {signal}, round {round}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
