//! The programs that are followed: this binary under another role, or a shell.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ROLE: &str = "TRANSECT_LIVE_ROLE";
pub const STORM_THREADS: usize = 2_000;
pub const BUSY_THREADS: usize = 6;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    Shell(&'static str),
    /// Many threads that live for an instant, some at a time.
    Storm,
    /// A thread that is not the first calls exec while others live.
    ExecByThread,
    /// Threads that wake and block all the time, until killed.
    Busy,
    /// So many threads compute for a while.
    Compute(usize),
}

impl Program {
    /// Waits for its standard input to end before it does anything.
    pub fn command(self) -> Command {
        if let Self::Shell(script) = self {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("read -r _; {script}")]);
            command.stdin(Stdio::piped());
            return command;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let role = match self {
            Self::Shell(_) | Self::Storm => "storm".to_owned(),
            Self::ExecByThread => "exec".to_owned(),
            Self::Busy => "busy".to_owned(),
            Self::Compute(threads) => format!("compute {threads}"),
        };
        command.env(ROLE, role).stdin(Stdio::piped());
        command
    }
}

/// The role that this process was started for.
pub fn asked_for() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub fn run(role: String) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("storm", _) => storm(),
        ("exec", _) => exec_by_thread(),
        ("after-exec", _) => compute(Duration::from_millis(30)),
        ("busy", _) => busy(),
        ("compute", threads) => computers(threads.parse().unwrap()),
        _ => panic!("unknown role {role}"),
    }
}

fn compute(time: Duration) {
    let start = Instant::now();
    let mut value = 1u64;
    while start.elapsed() < time {
        for _ in 0..1_000 {
            value = std::hint::black_box(value.wrapping_mul(31) + 1);
        }
    }
}

fn storm() {
    for _ in 0..STORM_THREADS / 50 {
        let some: Vec<_> = (0..50).map(|_| std::thread::spawn(|| std::hint::black_box(1))).collect();
        for one in some {
            one.join().unwrap();
        }
    }
}

fn exec_by_thread() {
    std::thread::spawn(|| {
        loop {
            compute(Duration::from_millis(5));
        }
    });
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(100));
        }
    });
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        let why = Command::new(std::env::current_exe().unwrap()).env(ROLE, "after-exec").exec();
        panic!("{why}");
    });
    loop {
        std::thread::sleep(Duration::from_secs(100));
    }
}

fn busy() {
    static SHARED: Mutex<u64> = Mutex::new(0);
    for number in 0..BUSY_THREADS as u64 {
        std::thread::spawn(move || {
            loop {
                {
                    let mut shared = SHARED.lock().unwrap();
                    *shared += 1;
                    compute(Duration::from_micros(300));
                }
                std::thread::sleep(Duration::from_micros(200 * number));
            }
        });
    }
    std::thread::sleep(Duration::from_secs(100));
}

fn computers(threads: usize) {
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(|| compute(Duration::from_millis(400)))).collect();
    for one in all {
        one.join().unwrap();
    }
}
