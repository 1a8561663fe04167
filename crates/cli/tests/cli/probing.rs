//! `transect probe` on programs that count themselves.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command as Process, Stdio};

use serde_json::Value;

use crate::command::Sandbox;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
__attribute__((noinline, noclone)) long step(long x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
__attribute__((noinline, noclone)) long stepped(long x) { __asm__ volatile("" ::: "memory"); return step(x) + 1; }
int main(int argc, char **argv) {
    long n = atol(argv[1]), sum = 0;
    for (long i = 0; i < n; i++) sum += stepped(i);
    if (argc > 2 && argv[2][0] == 'f') {
        if (!fork()) {
            for (long i = 0; i < 1000; i++) sum += stepped(i);
            _exit(sum == 12345);
        }
        wait(0);
    } else if (argc > 2) {
        char line[80];
        printf("ready\n"), fflush(stdout);
        while (fgets(line, 80, stdin)) {
            for (long i = 0; i < atol(line); i++) sum += stepped(i);
            printf("done\n"), fflush(stdout);
        }
    }
    return sum == 12345 ? 1 : 7;
}
"#;

/// The image for processes must have been built (`make build`, or cargo build -p transect-probe-agent).
pub fn image_is_built() -> bool {
    let command = assert_cmd::cargo::cargo_bin("transect");
    let folder = command.parent().unwrap();
    let image = "libtransect_probe_agent.so";
    let places = [folder.to_owned(), folder.join("../lib/transect"), folder.join("..")];
    let built = places.iter().any(|place| place.join(image).exists());
    if !built {
        println!("NOT RUN: {image} is not beside {}", command.display());
    }
    built
}

fn sandbox() -> Option<Sandbox> {
    if !image_is_built() {
        return None;
    }
    let sandbox = Sandbox::new();
    let source = sandbox.write("counts.c", PROGRAM);
    let compiled = Process::new("gcc").args(["-O2", "-o"]).arg(sandbox.path("counts")).arg(source).status();
    assert!(compiled.unwrap().success());
    Some(sandbox)
}

struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn start(sandbox: &Sandbox) -> Running {
        let mut command = Process::new(sandbox.path("counts"));
        let mut child = command.args(["0", "x"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running(child, output);
        running.line();
        running
    }

    fn line(&mut self) {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
    }

    fn call(&mut self, times: u32) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{times}").unwrap();
        self.line();
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Bytes of the executable's code, as mapped and as in the file.
    fn text(&self) -> (Vec<u8>, Vec<u8>) {
        use std::os::unix::fs::FileExt;
        let pid = self.pid();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let line = maps.lines().find(|l| l.contains(" r-xp ") && l.ends_with("/counts")).unwrap();
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let mut mapped = vec![0; (number(end) - number(start)) as usize];
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        memory.read_exact_at(&mut mapped, number(start)).unwrap();
        let file = std::fs::read(fields[5]).unwrap();
        let offset = number(fields[2]) as usize;
        let length = mapped.len().min(file.len() - offset);
        mapped.truncate(length);
        (mapped, file[offset..offset + length].to_vec())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn calls(json: &Value, function: &str) -> Option<u64> {
    json["probes"].as_array()?.iter().find(|row| row["function"] == function)?["calls"].as_u64()
}

#[test]
fn a_launched_programs_calls_are_counted_and_timed_exactly() {
    let Some(sandbox) = sandbox() else { return };
    for action in ["count", "time"] {
        let file = sandbox.path("out.json");
        sandbox
            .transect(&["probe", action, "counts:step*", "--format", "json", "--output"])
            .arg(&file)
            .args(["--", "./counts", "54321"])
            .assert()
            .code(7);
        let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(calls(&json, "step"), Some(54321), "{json:#}");
        assert_eq!(calls(&json, "stepped"), Some(54321), "{json:#}");
    }
}

#[test]
fn probes_of_a_running_process_come_and_go() {
    let Some(sandbox) = sandbox() else { return };
    let mut running = Running::start(&sandbox);
    let pid = running.pid();
    let transect = |arguments: &[&str]| {
        let output = sandbox.transect(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(transect(&["probe", "list", "-p", &pid, "counts:step"]).contains("available"));
    transect(&["probe", "enable", "-p", &pid, "counts:step*"]);
    running.call(1000);
    assert!(transect(&["probe", "list", "-p", &pid, "counts:step"]).contains("enabled"));
    let (mapped, file) = running.text();
    assert_ne!(mapped, file);
    transect(&["probe", "disable", "-p", &pid]);
    assert!(transect(&["probe", "list", "-p", &pid, "counts:step"]).contains("disabled"));
    running.call(1000);
    let text = transect(&["probe", "detach", "-p", &pid]);
    assert!(text.starts_with("2 probes taken out"), "{text}");
    let (mapped, file) = running.text();
    assert!(mapped == file, "the code is as in the file again");
    running.call(1000);
    assert!(transect(&["probe", "detach", "-p", &pid]).contains("has no probes"));
}

#[test]
fn bad_requests_leave_the_process_as_it_was() {
    let Some(sandbox) = sandbox() else { return };
    let mut running = Running::start(&sandbox);
    let pid = running.pid();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap();
    let refused = |pattern: &str, status: i32| {
        let output = sandbox.transect(&["probe", "enable", "-p", &pid, pattern]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{pattern}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("stepp", 2).contains("did you mean step"));
    assert!(refused("nolib:step", 2).contains("it has counts"));
    assert!(refused("/(/", 2).contains("bad pattern"));
    assert!(refused("counts:0x3", 2).contains("not in the code"));
    let symbols = Process::new("nm").arg(sandbox.path("counts")).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let step = symbols.lines().find(|line| line.ends_with(" step")).unwrap();
    let step = u64::from_str_radix(step.split_whitespace().next().unwrap(), 16).unwrap();
    let inside = refused(&format!("counts:{:#x}", step + 1), 2);
    assert!(inside.contains("in the middle of an instruction of step"), "{inside}");
    assert_eq!(std::fs::read(format!("/proc/{pid}/maps")).unwrap(), maps);
    let (mapped, file) = running.text();
    assert!(mapped == file);
    running.call(10);
    let output = sandbox.transect(&["probe", "count", "-p", "4000000", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process 4000000"));
}

#[test]
fn a_forked_child_is_left_alone_if_it_is_not_followed() {
    let Some(sandbox) = sandbox() else { return };
    let output = sandbox.path("out.json");
    let shown = |words: &[&str]| -> Value {
        let mut command = sandbox.transect(words);
        command.args(["--format", "json", "--output"]).arg(&output).args(["--", "./counts", "5", "fork"]);
        command.assert().code(7);
        serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap()
    };
    for action in ["count", "time"] {
        let followed = shown(&["probe", action, "counts:step*"]);
        let alone = shown(&["probe", action, "--no-follow", "counts:step*"]);
        assert_eq!((calls(&followed, "step"), calls(&alone, "step")), (Some(1005), Some(5)), "{action}: {alone:#}");
    }
    let samples = |view: &Value| -> u64 { view["latency"][0]["samples"].as_u64().unwrap() };
    let latency = ["latency", "--quiet", "--functions", "step", "--sample-size", "2000"];
    let alone = [&latency[..], &["--no-follow"]].concat();
    assert_eq!(samples(&shown(&alone)), 5);
    assert_eq!(samples(&shown(&latency)), 1005);
}
