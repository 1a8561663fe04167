//! Programs that are timed: this binary under another role. Each waits for a line on its standard input.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "TRANSECT_FUNCTION_TIME_ROLE";

/// Reads of `/dev/zero`, and as many of `/dev/urandom`.
pub const READS: u64 = 400;
const ZEROS: usize = 64 << 10;
const RANDOM: usize = 1 << 10;

/// The role that this process was started for.
pub fn asked_for() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub fn run(role: &str) {
    match role {
        "reads" => reads(),
        "timer" => crate::cases::time_until_killed(),
        _ => panic!("unknown role {role}"),
    }
}

fn line() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}

/// For each line: reads, and says what each kind took by its own clock, ns: zeros, random, and a read of nothing.
fn reads() {
    let (mut zero, mut random) = (File::open("/dev/zero").unwrap(), File::open("/dev/urandom").unwrap());
    let mut memory = vec![0_u8; ZEROS];
    while line() {
        let mut took = [Duration::ZERO; 3];
        for _ in 0..READS {
            let start = Instant::now();
            zero.read_exact(&mut memory).unwrap();
            took[0] += start.elapsed();
            let start = Instant::now();
            random.read_exact(&mut memory[..RANDOM]).unwrap();
            took[1] += start.elapsed();
            let start = Instant::now();
            let _ = zero.read(&mut memory[..0]).unwrap();
            took[2] += start.elapsed();
        }
        println!("{} {} {}", took[0].as_nanos(), took[1].as_nanos(), took[2].as_nanos());
    }
}

/// A program that runs until it is dropped.
pub struct Running {
    child: Child,
    output: std::io::BufReader<std::process::ChildStdout>,
}

impl Running {
    pub fn start(role: &str) -> Self {
        Self::start_with(role, "TRANSECT_NOTHING", "")
    }

    pub fn start_with(role: &str, variable: &str, value: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, role).env(variable, value).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        // It is in its read by then.
        std::thread::sleep(Duration::from_millis(150));
        Self { child, output }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// Numbers of the line that it says next.
    pub fn numbers(&mut self) -> Vec<f64> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// A round of the role: what it says.
    pub fn round(&mut self) -> Vec<f64> {
        self.go();
        self.numbers()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
