//! Signals to who measures and to what is measured. They need ptrace, a C compiler and the agents.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Sandbox, place_probe_agent};
use crate::forever::{Forever, send, started};

#[test]
fn signals_end_a_measurement_with_its_profile_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(mut forever) = Forever::start(&sandbox) else { return };
    let before = forever.traces();
    for signal in ["-INT", "-TERM", "-HUP", "-QUIT", "-ALRM", "-USR1"] {
        let folder = format!("p{signal}.transect");
        let mut latency = started(&sandbox, &["latency", "-q", "-p", &forever.pid(), "-o", &folder]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while forever.text_is_the_files() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for ignored in ["-XCPU", "-XFSZ", "-PROF", "-VTALRM"] {
            send(ignored, latency.id());
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(latency.try_wait().unwrap().is_none(), "{signal}");
        send(signal, latency.id());
        assert_eq!(latency.wait().unwrap().code(), Some(0), "{signal}");
        assert!(transect_profile_store::read(&sandbox.path(&folder)).is_ok(), "{signal}");
        assert!(forever.text_is_the_files() && forever.traces() == before, "{signal}");
        // A signal that comes before all probes stand ends it before anything is counted.
        let counted = [100, 1000, 8000].into_iter().any(|pause| {
            let arguments = ["probe", "count", "-p", &forever.pid(), "forever:turn", "--output", "out"];
            let mut probe = started(&sandbox, &arguments);
            let deadline = Instant::now() + Duration::from_secs(20);
            while forever.text_is_the_files() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(pause));
            send(signal, probe.id());
            assert_eq!(probe.wait().unwrap().code(), Some(0), "{signal}");
            std::fs::read_to_string(sandbox.path("out")).unwrap().contains("turn")
        });
        assert!(counted, "{signal}");
        assert!(forever.text_is_the_files() && forever.traces() == before, "{signal}");
    }
    assert!(forever.works());
}

#[test]
fn a_signal_to_be_ignored_is_ignored_needs_ptrace() {
    let sandbox = Sandbox::new();
    let Some(forever) = Forever::start(&sandbox) else { return };
    // As nohup does it.
    let line = format!("trap '' HUP; exec \"$0\" latency -q -p {} -o p.transect > /dev/null", forever.pid());
    let mut command = Command::new("sh");
    command.args(["-c", &line]).arg(assert_cmd::cargo::cargo_bin("transect"));
    let mut latency = command.current_dir(sandbox.folder.path()).env("HOME", sandbox.folder.path()).spawn().unwrap();
    while forever.text_is_the_files() {
        std::thread::sleep(Duration::from_millis(5));
    }
    send("-HUP", latency.id());
    std::thread::sleep(Duration::from_millis(200));
    assert!(latency.try_wait().unwrap().is_none());
    send("-TERM", latency.id());
    assert_eq!(latency.wait().unwrap().code(), Some(0));
    assert!(transect_profile_store::read(&sandbox.path("p.transect")).is_ok());
}

/// A program has the signals that its command was started with: here children are reaped by the kernel, a broken pipe ends
/// nobody, and a signal waits.
#[test]
fn signals_are_inherited_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    let lines = |command: &[&str]| {
        let transect = sandbox.transect(&[]).get_program().to_owned();
        let mut shell = sandbox.foreign("env");
        shell.args(["--ignore-signal=CHLD", "--ignore-signal=PIPE", "--ignore-signal=USR2"]);
        shell.args(["--block-signal=USR1", "--block-signal=URG"]);
        if !command.is_empty() {
            shell.arg(transect).args(command).args(["-o", "profile", "--"]);
        }
        let output = shell.args(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let alone = lines(&[]);
    assert!(alone.contains("400200\nSigIgn"), "{alone}");
    for command in [&["record", "-q"][..], &["record", "-q", "--collect", "flow"], &["latency", "-q"]] {
        assert_eq!(lines(command), alone, "{command:?}");
    }
}

#[test]
fn a_launched_program_gets_the_signals_needs_ptrace() {
    let sandbox = Sandbox::new();
    place_probe_agent();
    let script = "for s in HUP INT QUIT ALRM USR1 TERM; do trap \"echo $s >> got\" $s; done; touch ready; \
                  while ! grep -q TERM got; do sleep 0.02; done; exit 5";
    let commands = [
        &["latency", "-q", "-o", "p.transect"][..],
        &["probe", "count", "malloc", "--output", "out"],
        &["criticality", "-q"],
    ];
    for arguments in commands {
        let _ = std::fs::remove_file(sandbox.path("ready"));
        sandbox.write("got", "");
        let mut command = started(&sandbox, &[arguments, &["--", "sh", "-c", script]].concat());
        let deadline = Instant::now() + Duration::from_secs(30);
        while !sandbox.path("ready").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for signal in ["HUP", "INT", "QUIT", "ALRM", "USR1", "TERM"] {
            send(&format!("-{signal}"), command.id());
            while !std::fs::read_to_string(sandbox.path("got")).unwrap().contains(signal) {
                assert!(Instant::now() < deadline, "{arguments:?}: {signal} has not come");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert_eq!(command.wait().unwrap().code(), Some(5), "{arguments:?}");
    }
}

/// To the whole process group, as a terminal sends it.
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
