//! `transect view` as a browser meets it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::command::Sandbox;

/// A server of profiles; ended with the test.
struct Served {
    child: Child,
    port: u16,
    secret: String,
}

impl Served {
    fn new(sandbox: &Sandbox, profiles: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("transect"));
        command.arg("view").args(profiles).current_dir(sandbox.folder.path()).env("HOME", sandbox.folder.path());
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").stdin(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://127.0.0.1:").next().unwrap();
        let (port, path) = address.split_once('/').unwrap();
        Self { child, port: port.parse().unwrap(), secret: path.trim_end_matches('/').to_owned() }
    }

    /// Status and body.
    fn get(&self, path: &str, host: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn own(&self, path: &str) -> (u16, String) {
        self.get(&format!("/{}/{path}", self.secret), &format!("127.0.0.1:{}", self.port))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_a_profile_is_served_to_who_knows_the_address() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let served = Served::new(&sandbox, &["p.transect"]);
    let (status, page) = served.own("");
    assert_eq!(status, 200);
    assert!(page.contains("id=\"report-data\"") && page.contains("</html>"), "{}", &page[..200]);
    let ours = format!("127.0.0.1:{}", served.port);
    for (path, host) in [
        ("/".to_owned(), ours.as_str()),
        (format!("/{}/", "0".repeat(served.secret.len())), &ours),
        (format!("/{}/../etc/passwd", served.secret), &ours),
        // A name of another site that leads to this machine.
        (format!("/{}/", served.secret), "evil.example"),
    ] {
        assert_eq!(served.get(&path, host), (404, String::new()), "{path} of {host}");
    }
}

#[test]
fn a_body_is_never_read_and_keeps_nobody_waiting() {
    let sandbox = Sandbox::new();
    sandbox.profile("p.transect");
    let served = Served::new(&sandbox, &["p.transect"]);
    let mut held = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    write!(held, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\nabc").unwrap();
    for length in ["99999999999999", "18446744073709551615"] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        write!(stream, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\nabc").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 405"), "{}", String::from_utf8_lossy(&answer));
    }
    // Through a tunnel the port is another one.
    assert_eq!(served.get(&format!("/{}/", served.secret), "LOCALHOST:9000").0, 200);
}

#[test]
fn several_profiles_are_listed_and_a_reload_shows_what_stands_there_now() {
    let sandbox = Sandbox::new();
    sandbox.profile("a.transect");
    sandbox.profile("b.transect");
    let served = Served::new(&sandbox, &["a.transect", "b.transect"]);
    let (status, list) = served.own("");
    assert!(status == 200 && list.contains("<a href=\"1\">b.transect</a>"), "{list}");
    assert_eq!(served.own("1").0, 200);
    std::fs::remove_dir_all(sandbox.path("b.transect")).unwrap();
    let (status, message) = served.own("1");
    assert!(status == 500 && message.contains("b.transect"), "{message}");
    assert_eq!(served.own("0").0, 200);
}

#[test]
fn what_is_no_profile_is_not_served() {
    let sandbox = Sandbox::new();
    sandbox.transect(&["view", "nowhere.transect"]).assert().code(1);
    sandbox.profile("p.transect");
    sandbox.transect(&["view", "--tui", "p.transect", "p.transect"]).assert().code(2);
}
