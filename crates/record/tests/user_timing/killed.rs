//! A walker that is killed at any moment leaves the program clean.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transect_call_walk::{Callee, Function, FunctionTimer, Request};
use transect_record::walk::user_timing::UserTimer;

use crate::program::{Program, agent, texts_are_the_files};

/// Not a test of its own: the walker, in a process that may be killed.
#[test]
fn walker_for_another_test() {
    let Ok(words) = std::env::var("WALK") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (pid, component) = (words[0].parse().unwrap(), words[1].into());
    let functions: Vec<Function> =
        words[2..].iter().map(|a| Function::User { component: 0, address: a.parse().unwrap() }).collect();
    let mut timer = UserTimer::attach_with(pid, vec![component], &agent().unwrap()).unwrap();
    loop {
        let request = Request {
            group: 0,
            parent: functions[0],
            callees: functions[1..].iter().map(|&function| Callee { function, within: None }).collect(),
            window: Duration::from_millis(3),
        };
        timer.begin(&request).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        timer.end().unwrap();
    }
}

#[test]
fn a_killed_walker_leaves_no_probe_needs_ptrace() {
    if agent().is_none() {
        eprintln!("NOT RUN: the probe agent has not been built");
        return;
    }
    let rounds: u64 = std::env::var("KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let Some(program) = Program::start(2, "sleep") else { return };
    let mut random = 88_172_645_463_325_252_u64;
    let mut dirty = 0;
    for round in 0..rounds {
        let parent = if round % 2 == 0 { "work" } else { "forever" };
        let addresses = [parent, "first", "third"].map(|name| program.address(name).to_string());
        let walk = format!("{} {} {}", program.pid(), program.path.display(), addresses.join(" "));
        let mut walker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::walker_for_another_test", "--nocapture"])
            .env("WALK", &walk)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 600_000));
        if walker.try_wait().unwrap().is_some() {
            eprintln!("NOT RUN: the walker could not attach");
            return;
        }
        walker.kill().unwrap();
        walker.wait().unwrap();
        dirty += u64::from(!texts_are_the_files(program.pid()));
        // The guard may be at work; a text that is clean before it has looked is no proof.
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_guarded(&walk) || !texts_are_the_files(program.pid()) {
            assert!(Instant::now() < deadline, "round {round}: jumps are left");
            std::thread::sleep(Duration::from_millis(2));
        }
        program.check();
    }
    eprintln!("{rounds} walkers killed, {dirty} of them with jumps in the text");
}

/// Whether the guard of this walk is at work: a fork of the walker, with its environment. Others on the machine may
/// have guards, too.
fn is_guarded(walk: &str) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let variable = format!("WALK={walk}");
    let is_guard = |process: &Path| {
        let read = |file: &str| std::fs::read(process.join(file)).unwrap_or_default();
        read("comm") == b"transect-guard\n"
            && read("environ").split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    entries.flatten().any(|entry| is_guard(&entry.path()))
}
