//! Programs started under control: each image arrives at its entry point, and behaves as it would alone.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use transect_attach::{AttachError, Launch, LaunchEvent};

use crate::program::compile;

/// Runs it to its end; gives its status and the files of the images that arrived.
fn run(command: &[&str], follow: bool) -> (ExitStatus, Vec<String>) {
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let mut launch = Launch::start(&command, follow).unwrap();
    let mut images = Vec::new();
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(20), "hangs: {command:?}");
        match launch.next(Some(Duration::from_secs(1))).unwrap() {
            LaunchEvent::Image(target) => {
                let file = std::fs::read_link(format!("/proc/{}/exe", target.pid())).unwrap();
                images.push(file.file_name().unwrap().to_str().unwrap().to_owned());
                // At the entry point a call can be made and the text be written.
                let mut stop = target.stop_all().unwrap();
                let address = stop.map_private(1 << 20).unwrap();
                stop.unmap(address, 1 << 20).unwrap();
                drop(stop);
                launch.go_on(&target).unwrap();
            }
            LaunchEvent::Ended { pid, status } if pid == launch.pid() => return (status, images),
            _ => {}
        }
    }
}

fn variants() -> Vec<String> {
    let options: [&[&str]; 4] = [&[], &["-no-pie"], &["-static"], &["-static-pie"]];
    options.iter().map(|options| compile("exits", options).to_str().unwrap().to_owned()).collect()
}

#[test]
fn an_end_that_a_stop_hears_of_first_is_told() {
    for program in variants() {
        let mut launch = Launch::start(&[program.clone().into()], true).unwrap();
        let began = Instant::now();
        let status = loop {
            assert!(began.elapsed() < Duration::from_secs(20), "hangs: {program}");
            match launch.next(Some(Duration::from_millis(10))).unwrap() {
                LaunchEvent::Image(target) => {
                    let killed = Command::new("kill").args(["-KILL", &target.pid().to_string()]).status().unwrap();
                    assert!(killed.success());
                    // Those who ask for a stop, one after the other, hear that it is gone.
                    drop(target.stop_all().and_then(|mut stop| stop.map_private(1 << 20)));
                    drop(target.stop_all());
                    let _ = launch.go_on(&target);
                }
                LaunchEvent::Ended { pid, status } if pid == launch.pid() => break status,
                _ => {}
            }
        };
        assert_eq!(status.signal(), Some(9));
        // Once.
        assert!(matches!(launch.next(Some(Duration::ZERO)).unwrap(), LaunchEvent::Nothing));
    }
}

#[test]
fn exit_status_and_signals_are_the_programs_own() {
    for program in variants() {
        for follow in [false, true] {
            let status = |arguments: &[&str]| {
                let command: Vec<&str> = [&*program].iter().chain(arguments).copied().collect();
                let (status, images) = run(&command, follow);
                assert_eq!(images.len(), 1, "{images:?}");
                let alone = Command::new(&program).args(arguments).status().unwrap();
                assert_eq!(status, alone, "{command:?}");
                status
            };
            assert_eq!(status(&["status", "7"]).code(), Some(7));
            assert_eq!(status(&["signal", "9"]).signal(), Some(9));
            assert_eq!(status(&["signal", "11"]).signal(), Some(11));
            assert_eq!(status(&["handle", "10"]).code(), Some(100));
            assert_eq!(status(&["trap"]).code(), Some(2));
            assert_eq!(status(&["stop"]).code(), Some(5));
            assert_eq!(status(&["masks"]).code(), Some(0));
        }
    }
}

#[test]
fn programs_that_trace_others() {
    // Static programs don't tell that they will.
    for program in &variants()[..2] {
        for follow in [false, true] {
            assert_eq!(run(&[program, "trace"], follow).0.code(), Some(6), "{program} {follow}");
        }
    }
}

#[test]
fn scripts_and_wrappers() {
    let program = &variants()[0];
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = Path::new(program).file_name().unwrap().to_str().unwrap();
    let forks = script("forks", &format!("#!/bin/bash\n{program} status 3\nexit $?\n"));
    let (status, images) = run(&[&forks], true);
    assert_eq!((status.code(), images), (Some(3), vec!["bash".to_owned(), file.to_owned()]));
    let replaces = script("replaces", &format!("#!/bin/bash\nexec {program} status 4\n"));
    let (status, images) = run(&[&replaces], true);
    assert_eq!((status.code(), images), (Some(4), vec!["bash".to_owned(), file.to_owned()]));
    let (status, images) = run(&[&replaces], false);
    assert_eq!((status.code(), images), (Some(4), vec!["bash".to_owned()]));
    let bare = script("bare", "exit 9\n");
    assert_eq!(run(&[&bare], true).0.code(), Some(9));
    let pipe = format!("yes | head -2000 | {program} status 6");
    let (status, images) = run(&["sh", "-c", &pipe], true);
    assert_eq!((status.code(), images.len()), (Some(6), 4));
    let ignoring = script("ignoring", &format!("#!/bin/sh\ntrap '' TRAP\nexec {program} masks\n"));
    let (status, images) = run(&[&ignoring], true);
    assert_eq!((status.code(), images.len()), (Some(1), 2));
}

#[test]
fn forks_before_the_entry_point() {
    let program = &variants()[0];
    for follow in [false, true] {
        let command = ["env", "EARLY_FORK=1", program, "status", "0"];
        assert_eq!(run(&command, follow).0.code(), Some(0));
    }
    let preload = format!("LD_PRELOAD={}", early());
    for follow in [false, true] {
        let command = ["env", &preload, "LOADER_FORKS=1", program, "status", "7"];
        assert_eq!(run(&command, follow).0.code(), Some(7));
    }
}

/// A library that slows the loader down.
fn early() -> String {
    compile("early", &["-shared", "-fPIC"]).to_str().unwrap().to_owned()
}

#[test]
fn what_cannot_be_started() {
    let start = |name: &str| Launch::start(&[name.into()], true).unwrap_err().to_string();
    assert!(start("/no/such/file").contains("No such file"), "{}", start("/no/such/file"));
    assert!(start("no-such-program-anywhere").contains("No such file"));
    assert!(start("/etc/passwd").contains("Permission denied"));
    assert!(matches!(Launch::start(&["".into()], true), Err(AttachError::Start { .. })));
}

/// The parent of a vfork child sleeps uninterruptibly, and the child stands: who stops the parent has to let it run first.
#[test]
fn a_process_that_is_about_to_start_another_is_stopped() {
    let mut launch = Launch::start(&[compile("vforks", &[]).into(), "200".into()], true).unwrap();
    let mut target = None;
    let (began, mut stops) = (Instant::now(), 0);
    let status = loop {
        assert!(began.elapsed() < Duration::from_secs(20), "hangs after {stops} stops");
        match launch.next(Some(Duration::from_millis(1))).unwrap() {
            LaunchEvent::Image(image) => {
                launch.go_on(&image).unwrap();
                target = Some(image);
            }
            LaunchEvent::Ended { pid, status } if pid == launch.pid() => break status,
            _ => {}
        }
        if let Some(target) = &target {
            match target.stop_all().map(drop) {
                Ok(()) => stops += 1,
                Err(error) => assert!(error.is_gone(), "{error}"),
            }
        }
    };
    assert_eq!(status.code(), Some(200), "each child has ended with its status");
    assert!(stops > 20, "{stops}");
}

const COMMAND: &str = "TRANSECT_TEST_COMMAND";

/// Not a test by itself: the tracer of the next one.
#[test]
fn runs_a_command_that_others_give() {
    if let Ok(command) = std::env::var(COMMAND) {
        run(&["sh", "-c", &command], true);
    }
}

/// Wherever a new program is on its way from exec to its entry point, it goes on by itself.
#[test]
fn programs_outlive_a_tracer_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..15 {
        let told = folder.path().join(round.to_string());
        let told = told.to_str().unwrap();
        let program = &variants()[round % 2];
        let ignored = if round % 5 == 0 { "trap '' WINCH TRAP;" } else { "" };
        let child = format!("LD_PRELOAD={} {program} status 7; echo $? >> {told}", early());
        let command = format!("{ignored} for i in 1 2 3 4 5 6 7 8 9 10; do {child}; done");
        let mut tracer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "launching::runs_a_command_that_others_give"])
            .env(COMMAND, command)
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + 7_300 * round as u64));
        tracer.kill().unwrap();
        tracer.wait().unwrap();
        let read = || std::fs::read_to_string(told).unwrap_or_default();
        let began = Instant::now();
        // Killed early it has started nothing.
        while read().lines().count() < 10 && (began.elapsed() < Duration::from_secs(1) || !read().is_empty()) {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", read());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(read().lines().all(|line| line == "7"), "round {round}: {:?}", read());
    }
}
