//! A headless Chromium, driven over the DevTools protocol: just enough to open a page, ask it things and press keys.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Where distributions install it; the variable `TRANSECT_CHROMIUM` names another.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The browser's executable, if there is one.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TRANSECT_CHROMIUM") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    NAMES.iter().find_map(|name| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file()))
}

/// One browser with one page; killed when dropped.
pub struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    last_id: u64,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with a fresh profile and a blank page, collecting its console and network events.
    pub fn launch(executable: &Path) -> Self {
        let profile = tempfile::tempdir().expect("a folder for the browser's profile");
        let child = Command::new(executable)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--mute-audio"])
            .args(["--remote-debugging-port=0", "--window-size=1400,1000", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let port = wait_for(|| {
            let text = fs::read_to_string(profile.path().join("DevToolsActivePort")).ok()?;
            text.lines().next()?.parse::<u16>().ok()
        });
        let page = wait_for(|| {
            let targets = http_get(port, "/json/list")?;
            let targets: Value = serde_json::from_str(&targets).ok()?;
            let page = targets.as_array()?.iter().find(|target| target["type"] == "page")?;
            page["webSocketDebuggerUrl"].as_str().map(str::to_owned)
        });
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the DevTools port accepts");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        let (socket, _) = tungstenite::client(page, stream).expect("the DevTools socket opens");
        let mut browser = Self { child, socket, last_id: 0, events: Vec::new(), _profile: profile };
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends one command and returns its result; events that arrive meanwhile are kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let text = json!({ "id": id, "method": method, "params": params }).to_string();
        self.socket.send(Message::text(text)).expect("the browser listens");
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            match self.socket.read().expect("the browser answers") {
                Message::Text(text) => return serde_json::from_str(&text).expect("DevTools speaks JSON"),
                _ => continue,
            }
        }
    }

    /// Opens `url` and waits until it has loaded. Events of earlier pages are forgotten.
    pub fn open(&mut self, url: &str) {
        // A fragment alone would not load the page again.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.wait("document.readyState === 'complete' && location.href === 'about:blank'");
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'");
    }

    /// The value of a JavaScript expression; promises are awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.eval(expression) != true {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses and releases a key, such as `ArrowDown`, with `code` as its Windows key code.
    pub fn press(&mut self, key: &str, code: u32) {
        let text = match key {
            "Enter" => "\r",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Errors and warnings on the console, uncaught exceptions, and what a policy refused.
    pub fn complaints(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|event| match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
                Some("Log.entryAdded") => event["params"]["entry"]["level"] != "info",
                _ => false,
            })
            .map(|event| event["params"].to_string())
            .collect()
    }

    /// Addresses that the page asked for.
    pub fn requests(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "the browser did not open its DevTools port");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn http_get(port: u16, path: &str) -> Option<String> {
    use std::io::Write;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
