//! A program that works for ever, and what is needed to measure it, to signal who measures, and to see what is left in it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Sandbox, place_probe_agent};

/// Works for ever, in two threads.
pub const FOREVER: &str = r#"
#include <pthread.h>
__attribute__((noinline)) long work(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline, noclone)) long turn(long n) { return work(n) + 1; }
static void *loop(void *none) { long s = 0; for (;;) s += turn(300); return (void *)s; }
int main(void) { pthread_t t; pthread_create(&t, 0, loop, 0); loop(0); }
"#;

pub fn not_run(why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {why}");
}

/// The program in the sandbox; `None`, and said so, where it can't be made.
pub fn built(sandbox: &Sandbox, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    place_probe_agent();
    let (file, program) = (sandbox.write(&format!("{name}.c"), source), sandbox.path(name));
    let compiler =
        Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&file).args(options).output();
    if compiler.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    not_run(&format!("cc does not build {name} with {options:?}"));
    None
}

/// A process that works for ever; ended when dropped.
pub struct Forever(pub Child);

impl Forever {
    pub fn start(sandbox: &Sandbox) -> Option<Forever> {
        let program = built(sandbox, "forever", FOREVER, &[])?;
        let process = Forever(Command::new(program).stdout(Stdio::null()).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        Some(process)
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Its mappings, without those that the C library makes, and the targets of its descriptors.
    pub fn traces(&self) -> (Vec<String>, usize) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let lines = maps.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
        (lines, std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count())
    }

    pub fn text_is_the_files(&self) -> bool {
        text_is_the_files(&self.pid())
    }

    pub fn wait_until_clean(&self, before: &(Vec<String>, usize), what: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.traces() != *before || !self.text_is_the_files() {
            assert!(Instant::now() < deadline, "{what}: {:?}, before {before:?}", self.traces());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn works(&mut self) -> bool {
        let ran = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        let before = ran(&self.pid());
        std::thread::sleep(Duration::from_millis(200));
        self.0.try_wait().unwrap().is_none() && ran(&self.pid()) != before
    }
}

impl Drop for Forever {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process's text is that of its files.
pub fn text_is_the_files(pid: &str) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /")).all(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (low, high) = fields[0].split_once('-').unwrap();
        let (mut there, mut here) = (vec![0; (number(high) - number(low)) as usize], Vec::new());
        memory.read_exact_at(&mut there, number(low)).unwrap();
        here.resize(there.len(), 0);
        let length = std::fs::File::open(fields[5]).unwrap().read_at(&mut here, number(fields[2])).unwrap();
        there[..length] == here[..length]
    })
}

/// The command itself, to be signalled.
pub fn started(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("transect"));
    command.args(arguments).current_dir(sandbox.folder.path()).env("HOME", sandbox.folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

pub fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}
