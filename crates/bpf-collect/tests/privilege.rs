//! Dropping privileges: what is kept, what a launched program gets, and that what the recorder does next still works.
//! Needs root, for it grants capabilities; says so and passes where it is not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::thread::{CapabilitySet, capabilities, capability_is_in_ambient_set};
use transect_bpf_collect::privilege::{Privileges, drop_after_load, names, prepare_to_load, withheld_environment};

const NOBODY: u32 = 65534;
const CASE: &str = "TRANSECT_PRIVILEGE_CASE";

fn main() -> ExitCode {
    if let Ok(case) = std::env::var(CASE) {
        run(&case);
        return ExitCode::SUCCESS;
    }
    let cases = transect_testkit::Cases::asked_for();
    if cases.listed(["privileges_are_dropped"]) || !cases.chosen("privileges_are_dropped") {
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        println!("NOT RUN: dropping privileges: needs root");
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    let folder = std::env::temp_dir().join(format!("transect-privilege-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::env::current_exe().unwrap();
    let plain = copy(&own, &folder.join("plain"));
    let granted = copy(&own, &folder.join("granted"));
    // Version 2, effective; permitted: cap_perfmon (38) and cap_bpf (39).
    let mut value = Vec::new();
    for word in [0x0200_0001u32, 0, 0, 1 << 6 | 1 << 7, 0] {
        value.extend(word.to_le_bytes());
    }
    rustix::fs::setxattr(&granted, "security.capability", &value, rustix::fs::XattrFlags::empty()).unwrap();
    for (case, program, user) in [
        ("nobody may not load", &plain, NOBODY),
        ("granted may load", &granted, NOBODY),
        ("granted drops all", &granted, NOBODY),
        ("granted launches a plain program", &granted, NOBODY),
        ("granted gives the environment back", &granted, NOBODY),
        ("ambient is kept by the program", &plain, 0),
        ("root keeps what looking takes", &own, 0),
        ("root launches a full program", &own, 0),
        ("root may write where it must", &own, 0),
        ("all threads drop theirs", &own, 0),
    ] {
        let status = Command::new(program)
            .env(CASE, case)
            .env("LD_LIBRARY_PATH", "/kept")
            .uid(user)
            .gid(user)
            .current_dir("/")
            .status()
            .unwrap();
        println!("{case}: {}", if status.success() { "ok" } else { "FAILED" });
        failed |= !status.success();
    }
    fs::remove_dir_all(&folder).unwrap();
    ExitCode::from(u8::from(failed))
}

fn copy(from: &Path, to: &Path) -> PathBuf {
    fs::copy(from, to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    to.to_owned()
}

/// A field of `/proc/PID/status` as a number.
fn status(pid: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(field)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

/// What `sh` says of itself when launched now.
fn launched(script: &str) -> String {
    let output = Command::new("/bin/sh").args(["-c", script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

const SETS: &str = "grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs' /proc/self/status";

fn run(case: &str) {
    let empty = CapabilitySet::empty();
    let needed = CapabilitySet::BPF | CapabilitySet::PERFMON;
    match case {
        "nobody may not load" => {
            let error = prepare_to_load().unwrap_err().to_string();
            assert!(error.contains("setcap cap_bpf,cap_perfmon=ep"), "{error}");
        }
        "granted may load" => {
            prepare_to_load().unwrap();
            assert_eq!(capabilities(None).unwrap().effective, needed);
        }
        "granted drops all" => {
            // Closed to its own user, as the kernel leaves it.
            assert_eq!(fs::metadata("/proc/self/environ").unwrap().uid(), 0);
            assert_eq!(drop_after_load(&[]).unwrap(), empty);
            let sets = capabilities(None).unwrap();
            assert_eq!((sets.effective, sets.permitted), (empty, empty));
            assert!(prepare_to_load().is_err());
            // The agent in a program of the same user opens our memory through this folder.
            let link = format!("/proc/{}/fd/0", std::process::id());
            let reads = launched(&format!("readlink {link} && echo reached"));
            assert!(reads.contains("reached"));
        }
        "granted launches a plain program" => {
            let before = launched(SETS);
            drop_after_load(&[]).unwrap();
            for sets in [before, launched(SETS)] {
                let value = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
                assert!(sets.lines().all(|line| value(line) == 0), "{sets}");
                assert_eq!(sets.lines().count(), 5);
            }
            // Its owner's recorder may look at it.
            looks_at_a_child();
        }
        "granted gives the environment back" => {
            assert_eq!(std::env::var_os("LD_LIBRARY_PATH"), None);
            assert_eq!(withheld_environment(), [("LD_LIBRARY_PATH".into(), "/kept".into())]);
            // Open now to itself; not to others of its user as long as it has more than they.
            let link = format!("/proc/{}/fd/0", std::process::id());
            let script = format!("readlink {link} || echo closed");
            assert_eq!(launched(&script), "closed\n");
            drop_after_load(&[]).unwrap();
            assert_ne!(launched(&script), "closed\n");
        }
        "ambient is kept by the program" => {
            // As under a service manager that hands capabilities on: forked before, kept; the recorder's own are gone.
            let script = format!("{SETS}; read go; {SETS}");
            let own = std::env::current_exe().unwrap();
            let mut shell = Command::new("setpriv");
            let wrapped = shell
                .args(["--reuid", "65534", "--clear-groups"])
                .args(["--inh-caps", "+bpf,+perfmon,+net_raw", "--ambient-caps", "+bpf,+perfmon,+net_raw"])
                .arg(own)
                .env(CASE, "ambient, inside")
                .env("SCRIPT", script)
                .status();
            assert!(wrapped.unwrap().success());
        }
        "ambient, inside" => {
            assert!(capability_is_in_ambient_set(CapabilitySet::NET_RAW).unwrap());
            prepare_to_load().unwrap();
            let mut child = Command::new("/bin/sh")
                .args(["-c", &std::env::var("SCRIPT").unwrap()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            assert_eq!(drop_after_load(&[]).unwrap(), empty);
            assert_eq!(status("self", "CapAmb"), 0);
            drop(child.stdin.take());
            let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            let ambient: Vec<&str> = text.lines().filter(|l| l.starts_with("CapAmb")).collect();
            assert_eq!(ambient, ["CapAmb:\t000000c000002000"; 2], "{text}");
        }
        "root keeps what looking takes" => {
            let before = capabilities(None).unwrap();
            let kept = drop_after_load(&[]).unwrap();
            let wanted = CapabilitySet::SYS_PTRACE
                | CapabilitySet::DAC_READ_SEARCH
                | CapabilitySet::KILL
                | CapabilitySet::SYS_NICE
                | CapabilitySet::CHECKPOINT_RESTORE
                | CapabilitySet::SYSLOG;
            assert_eq!(kept, wanted & before.permitted, "{}", names(kept));
            let sets = capabilities(None).unwrap();
            assert_eq!((sets.effective, sets.permitted), (kept, kept));
            looks_at_a_child();
            // And at one that belongs to somebody else, below a folder that is closed to others.
            let mut other = Command::new("sleep").arg("5").uid(NOBODY).spawn();
            assert!(other.is_err(), "changing users is not kept");
            other = Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", "sleep", "5"]).spawn();
            looks_at(other.unwrap());
        }
        "root launches a full program" => {
            let before = launched(SETS);
            drop_after_load(&[]).unwrap();
            assert_eq!(launched(SETS), before);
        }
        "root may write where it must" => {
            let folder = std::env::temp_dir().join(format!("transect-writes-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
            let file = folder.join("profile.transect");
            let kept = drop_after_load(&[Path::new("/tmp/x.transect"), &file]).unwrap();
            assert!(kept.contains(CapabilitySet::DAC_OVERRIDE));
            fs::create_dir(&file).unwrap();
            fs::remove_dir_all(&folder).unwrap();
        }
        "all threads drop theirs" => {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            let receiver = std::sync::Arc::new(std::sync::Mutex::new(receiver));
            // Waiting, working, and making threads of their own.
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| receiver.lock().unwrap().recv());
                    scope.spawn(|| while !stopped() {});
                    scope.spawn(|| {
                        while !stopped() {
                            // One at a time: on a crowded machine they would come faster than they go.
                            let _ =
                                std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_micros(300))).join();
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                let kept = drop_after_load(&[]).unwrap();
                for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
                    let Ok(text) = fs::read_to_string(task.path().join("status")) else { continue };
                    let Some(line) = text.lines().find_map(|l| l.strip_prefix("CapPrm:")) else { continue };
                    assert_eq!(u64::from_str_radix(line.trim(), 16).unwrap(), kept.bits());
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                drop(sender);
            });
        }
        other => panic!("no case {other}"),
    }
    let _ = Privileges::of_this_thread().unwrap();
}

fn looks_at_a_child() {
    looks_at(Command::new("/bin/sleep").arg("5").spawn().unwrap());
}

/// What the recorder reads of a program: its mappings, its executable, a mapped file through it.
fn looks_at(mut child: std::process::Child) {
    let pid = child.id();
    // A loaded machine takes its time to start it.
    let start = std::time::Instant::now();
    let started = || fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("sleep"));
    while !started() && start.elapsed() < std::time::Duration::from_secs(5) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"));
    let exe = fs::read_link(format!("/proc/{pid}/exe"));
    let read = fs::read(format!("/proc/{pid}/exe"));
    let ended = rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
    let _ = child.wait();
    assert!(maps.unwrap().contains("sleep"));
    assert!(exe.unwrap().ends_with("sleep"));
    assert!(read.unwrap().starts_with(b"\x7fELF"));
    ended.unwrap();
}
