//! Programs that the tests attach to.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Compiles `tests/programs/NAME.c`, once for each set of options.
pub fn compile(name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let mut file = name.to_owned();
    options.iter().for_each(|option| file.push_str(&option.replace(['/', '='], "_")));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let temporary = output.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    let status =
        Command::new("gcc").arg("-O2").arg("-pthread").args(options).arg(&source).arg("-o").arg(&temporary).status();
    assert!(status.unwrap().success(), "{}", source.display());
    std::fs::rename(&temporary, &output).unwrap();
    output
}

/// As in `/proc/PID/stat`.
pub fn state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

/// Waits until the process is in this state; a busy machine takes its time.
pub fn wait_for_state(pid: i32, wanted: char) {
    let patience = Instant::now() + Duration::from_secs(20);
    while state(pid) != wanted {
        assert!(Instant::now() < patience, "{pid} is in state {}, not {wanted}", state(pid));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A running program that answers a line with a line.
pub struct Running {
    pub child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(program: &Path, arguments: &[&str]) -> Running {
        let mut command = Command::new(program);
        Self::from(command.args(arguments))
    }

    pub fn from(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Running { child, output };
        assert_eq!(running.line(), "ready");
        running
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, question: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{question}").unwrap();
        self.line()
    }

    /// Address of a symbol in the running program.
    pub fn address_of(&self, symbol: &str) -> u64 {
        let path = std::fs::read_link(format!("/proc/{}/exe", self.pid())).unwrap();
        let output = Command::new("nm").arg(&path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|l| l.split_whitespace().nth(2) == Some(symbol)).unwrap();
        let value = u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let first = maps.lines().find(|l| l.ends_with(path.to_str().unwrap())).unwrap();
        let start = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        if value >= start { value } else { start + value }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
