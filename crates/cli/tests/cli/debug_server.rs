//! Names of a stripped program, from a server of debug files (debuginfod).

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::Sandbox;
use crate::forever::{built, not_run};

const PROGRAM: &str = "
static __attribute__((noinline)) long weigh_records(long n) {
    volatile long sum = 0;
    for (long i = 0; i < n; i++)
        sum += i * 3;
    return sum;
}
int main(void) { return (int)weigh_records(300000000) & 0; }
";

/// Answers for one path with `file`, and for all others that there is none.
fn answer(stream: TcpStream, path: &str, file: &[u8], served: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    let mut line = String::new();
    let _ = reader.read_line(&mut first);
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        line.clear();
    }
    let mut stream = reader.into_inner();
    if first.starts_with(&format!("GET {path} ")) {
        served.fetch_add(1, Ordering::Relaxed);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", file.len());
        let _ = stream.write_all(file);
    } else {
        let _ = write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

fn build_id(program: &Path) -> Option<String> {
    transect_binary_info::Object::open(program).ok()?.build_id()
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

#[test]
fn a_stripped_program_has_names_and_lines_from_a_server_of_debug_files() {
    let sandbox = Sandbox::new();
    let Some(program) = built(&sandbox, "weigh", PROGRAM, &["-Wl,--build-id"]) else { return };
    let debug = sandbox.path("weigh.debug");
    let (name, symbols) = (program.to_str().unwrap(), debug.to_str().unwrap());
    let split = run("objcopy", &["--only-keep-debug", name, symbols]) && run("strip", &[name]);
    if !split || Command::new("debuginfod-find").arg("--version").output().is_err() {
        return not_run("objcopy, strip or debuginfod-find is not there");
    }
    let path = format!("/buildid/{}/debuginfo", build_id(&program).unwrap());
    let file = std::fs::read(&debug).unwrap();
    std::fs::remove_file(&debug).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let urls = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &path, &file, &count);
        }
    });
    let cache = sandbox.path("kept");
    let findings = |urls: &str| {
        let mut record = sandbox.with_agent(&["record", "--quiet", "-o", "p.transect", "--", "./weigh"]);
        record.env("DEBUGINFOD_URLS", urls).env("DEBUGINFOD_CACHE_PATH", &cache).assert().code(0);
        let output = sandbox.transect(&["report", "p.transect"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!findings("").contains("weigh_records"));
    assert_eq!(served.load(Ordering::Relaxed), 0, "nobody is asked without being named");
    let text = findings(&urls);
    assert!(text.contains("weigh_records at weigh.c:"), "{text}");
    assert!(findings("").contains("weigh_records at weigh.c:"), "what was fetched is kept");
    assert_eq!(served.load(Ordering::Relaxed), 1);
}
