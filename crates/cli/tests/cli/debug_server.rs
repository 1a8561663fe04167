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

/// A stripped program and a server that has its debug file.
struct Served {
    sandbox: Sandbox,
    urls: String,
    /// Times that the file was sent.
    count: Arc<AtomicUsize>,
}

fn served() -> Option<Served> {
    let sandbox = Sandbox::new();
    let program = built(&sandbox, "weigh", PROGRAM, &["-Wl,--build-id"])?;
    let debug = sandbox.path("weigh.debug");
    let (name, symbols) = (program.to_str().unwrap(), debug.to_str().unwrap());
    let split = run("objcopy", &["--only-keep-debug", name, symbols]) && run("strip", &[name]);
    if !split || Command::new("debuginfod-find").arg("--version").output().is_err() {
        not_run("objcopy, strip or debuginfod-find is not there");
        return None;
    }
    let path = format!("/buildid/{}/debuginfo", build_id(&program).unwrap());
    let file = std::fs::read(&debug).unwrap();
    std::fs::remove_file(&debug).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let urls = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &path, &file, &counted);
        }
    });
    Some(Served { sandbox, urls, count })
}

impl Served {
    /// Has the client ask these servers, and keep what it gets in the sandbox.
    fn asking<'a>(&self, command: &'a mut assert_cmd::Command, urls: &str) -> &'a mut assert_cmd::Command {
        command.env("DEBUGINFOD_URLS", urls).env("DEBUGINFOD_CACHE_PATH", self.sandbox.path("kept"))
    }

    fn record(&self, urls: &str) {
        let mut record = self.sandbox.with_agent(&["record", "--quiet", "-o", "p.transect", "--", "./weigh"]);
        self.asking(&mut record, urls).assert().code(0);
    }

    fn report(&self) -> String {
        let output = self.sandbox.transect(&["report", "p.transect"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn sent(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[test]
fn a_stripped_program_has_names_and_lines_from_a_server_of_debug_files() {
    let Some(served) = served() else { return };
    let findings = |urls: &str| {
        served.record(urls);
        served.report()
    };
    assert!(!findings("").contains("weigh_records"));
    assert_eq!(served.sent(), 0, "nobody is asked without being named");
    let text = findings(&served.urls);
    assert!(text.contains("weigh_records at weigh.c:"), "{text}");
    assert!(findings("").contains("weigh_records at weigh.c:"), "what was fetched is kept");
    assert_eq!(served.sent(), 1);
}

#[test]
fn a_profile_gets_its_names_and_lines_from_a_server_later() {
    let Some(served) = served() else { return };
    served.record("");
    assert!(!served.report().contains("weigh_records"));
    // On another machine the program is not there.
    std::fs::remove_file(served.sandbox.path("weigh")).unwrap();
    let symbolize = |urls: &str| {
        let mut command = served.sandbox.transect(&["symbolize", "p.transect"]);
        let output = served.asking(&mut command, urls).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find(|line| line.contains("/weigh: ")).map(str::to_owned).unwrap_or(text)
    };
    let line = symbolize("");
    assert!(line.contains("set DEBUGINFOD_URLS"), "{line}");
    assert_eq!(served.sent(), 0, "nobody is asked without being named");
    let line = symbolize("http://127.0.0.1:1");
    assert!(line.contains("ask another server"), "{line}");
    // The client remembers for a while whom it asked in vain.
    let _ = std::fs::remove_dir_all(served.sandbox.path("kept"));
    let line = symbolize(&served.urls);
    assert!(line.contains("; from ") && line.contains("/kept/"), "{line}");
    assert!(served.report().contains("weigh_records at weigh.c:"), "{}", served.report());
    assert_eq!(served.sent(), 1);
}
