use std::fs;

use predicates::prelude::*;

use crate::command::Sandbox;

#[test]
fn missing_foreign_and_damaged_profiles() {
    let sandbox = Sandbox::new();
    sandbox.profile("damaged.transect");
    let flows = sandbox.path("damaged.transect/flows.parquet");
    let bytes = fs::read(&flows).unwrap();
    fs::write(&flows, &bytes[..bytes.len() / 2]).unwrap();
    sandbox.profile("newer.transect");
    let meta = sandbox.path("newer.transect/meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    let newer = replaced(&text, "\"schema\": 1", "\"schema\": 99");
    fs::write(&meta, newer).unwrap();
    sandbox.write("foreign/notes.txt", "hello");
    sandbox.write("file", "hello");
    for (name, words) in [
        ("missing.transect", "no profile here"),
        ("foreign", "not a Transect profile"),
        ("file", "not a Transect profile"),
        ("damaged.transect", "damaged"),
        ("newer.transect", "version 99"),
    ] {
        for command in [
            &["report", name][..],
            &["report", name, "--html", "out.html"],
            &["export", name, "--format", "csv"],
            &["top", "-n", "1", name],
        ] {
            let message = predicate::str::contains(words).and(predicate::str::contains(name));
            sandbox.transect(command).assert().code(1).stdout("").stderr(message);
        }
    }
    assert!(!sandbox.path("out.html").exists());
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    let compact = from.replace(": ", ":");
    assert!(text.contains(from) || text.contains(&compact), "{text}");
    text.replace(from, to).replace(&compact, to)
}

#[test]
fn commands_that_cannot_be_profiled() {
    let sandbox = Sandbox::new();
    sandbox.write("plain.txt", "#!/bin/sh\n");
    for (command, status, words) in [
        ("no-such-command", 127, "not found in PATH"),
        ("./no-such-file", 127, "not found"),
        ("./plain.txt", 126, "not executable"),
        ("./", 126, "is a directory, not a program"),
    ] {
        for subcommand in ["run", "record"] {
            let message = predicate::str::contains(words).and(predicate::str::starts_with("transect: "));
            sandbox.transect(&[subcommand, "--", command]).assert().code(status).stdout("").stderr(message);
        }
    }
    assert_eq!(sandbox.names(), ["plain.txt"], "nothing was recorded");
}

#[test]
fn output_that_would_destroy_or_cannot_be_written() {
    let sandbox = Sandbox::new();
    sandbox.write("documents/letter.txt", "dear");
    let message = predicate::str::contains("documents").and(predicate::str::contains("-o"));
    sandbox.transect(&["record", "-o", "documents", "--", "true"]).assert().code(125).stdout("").stderr(message);
    assert_eq!(fs::read_to_string(sandbox.path("documents/letter.txt")).unwrap(), "dear");
    let message = predicate::str::contains("/proc/");
    sandbox.transect(&["record", "-o", "/proc/p.transect", "--", "true"]).assert().code(125).stderr(message);
}

#[test]
fn a_missing_agent_is_named_before_the_program_starts() {
    let sandbox = Sandbox::new();
    sandbox
        .transect(&["record", "-o", "p.transect", "--", "touch", "ran"])
        .env("TRANSECT_AGENT", "/no/such/agent.so")
        .assert()
        .code(125)
        .stdout("")
        .stderr(predicate::str::contains("/no/such/agent.so"));
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
}

#[test]
fn messages_cannot_carry_control_characters() {
    let sandbox = Sandbox::new();
    let hostile = predicate::str::contains("\x1b").not();
    sandbox.transect(&["report", "\x1b[31mred\x07"]).assert().code(1).stderr(hostile);
}

#[test]
fn top_of_a_stranger() {
    let sandbox = Sandbox::new();
    let message = predicate::str::contains("process 1 ");
    sandbox.transect(&["top", "1"]).assert().code(1).stdout("").stderr(message);
}

#[test]
fn an_unknown_option_is_not_run_as_a_program() {
    let sandbox = Sandbox::new();
    for command in ["run", "record", "latency", "criticality", "walk"] {
        let message = predicate::str::contains("unknown option '--treshold'");
        sandbox.transect(&[command, "--treshold", "10%", "--", "true"]).assert().code(2).stdout("").stderr(message);
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn a_thread_is_told_from_a_process() {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let _ = wait.recv();
    });
    let tid = told.recv().unwrap().to_string();
    let message = format!("{tid} is a thread of process {}", std::process::id());
    let sandbox = Sandbox::new();
    sandbox.transect(&["walk", "-p", &tid]).assert().failure().stdout("").stderr(predicate::str::contains(message));
    drop(end);
    thread.join().unwrap();
}
