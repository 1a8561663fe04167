//! The programs that are followed: this binary under another role, or a shell.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
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
    /// System calls in numbers that are known, on a thread of its own.
    SystemCalls,
    /// Threads that make some system calls which differ much in length.
    UnevenCalls,
    /// Short calls and a long one of the same number in turns, and then another call whose sum lies in the same place.
    AlternatingCalls,
    /// One that it never returns from, after which it is killed.
    ReadsForever,
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
            Self::SystemCalls => "system-calls".to_owned(),
            Self::UnevenCalls => "uneven-calls".to_owned(),
            Self::AlternatingCalls => "alternating-calls".to_owned(),
            Self::ReadsForever => "reads-forever".to_owned(),
        };
        command.env(ROLE, role).stdin(Stdio::piped());
        command
    }

    /// Waits until it is at what it does from then on: all its threads are there, or it is in its read.
    pub fn wait_until_at_work(self, pid: i32) {
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        // A read (number 0) of the pipe, not of the standard input.
        let reads = |call: String| call.starts_with("0 0x") && !call.starts_with("0 0x0 ");
        wait_until("it is at work", || match self {
            Self::Busy => threads() == BUSY_THREADS + 1,
            Self::ReadsForever => std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(reads),
            _ => panic!("{self:?} has an end"),
        });
    }
}

/// A machine that is busy takes its time.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// As in `/proc/PID/stat`; none of a thread that is gone.
pub fn thread_state(pid: i32, tid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
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
        ("system-calls", _) => system_calls(),
        ("uneven-calls", _) => uneven_calls(),
        ("alternating-calls", _) => alternating_calls(),
        ("reads-forever", _) => reads_forever(),
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

/// None begins before all are there, and none ends before all have had their time.
fn computers(threads: usize) {
    let first = std::process::id() as i32;
    let (there, over) = (Arc::new(Barrier::new(threads)), Arc::new(AtomicUsize::new(0)));
    let all: Vec<_> = (0..threads)
        .map(|_| {
            let (there, over) = (there.clone(), over.clone());
            std::thread::spawn(move || {
                // Who made them waits for their end by then.
                wait_until("it waits for its threads", || thread_state(first, first) == Some('S'));
                there.wait();
                compute(Duration::from_millis(400));
                over.fetch_add(1, Ordering::Relaxed);
                while over.load(Ordering::Relaxed) < threads {
                    compute(Duration::from_micros(50));
                }
            })
        })
        .collect();
    for one in all {
        one.join().unwrap();
    }
}

pub const PARENT_CALLS: u64 = 10_000;
pub const SLEEPS: u64 = 50;
pub const SLEEP_MS: u64 = 2;

fn system_calls() {
    let thread = std::thread::spawn(|| {
        for _ in 0..PARENT_CALLS {
            let _ = rustix::process::getppid();
        }
        for _ in 0..SLEEPS {
            std::thread::sleep(Duration::from_millis(SLEEP_MS));
        }
        // Faults, one for each page.
        let mut memory = vec![0_u8; 4096 * FAULTS as usize];
        for page in memory.chunks_mut(4096) {
            std::hint::black_box(&mut page[0]);
            page[0] = 1;
        }
        std::hint::black_box(&memory);
    });
    thread.join().unwrap();
}

pub const FAULTS: u64 = 400;

fn reads_forever() {
    let (mut end, _other) = std::io::pipe().unwrap();
    let _ = std::io::Read::read(&mut end, &mut [0; 1][..]);
}

/// Of many that take no time one takes long: timed by chance, it stands for them all.
fn uneven_calls() {
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let mut much = vec![0_u8; 1 << 20];
    for _ in 0..300 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for count in 0..200 {
                    let length = if count % 50 == 49 { much.len() } else { 1 };
                    std::io::Read::read_exact(&mut &zeros, &mut much[..length]).unwrap();
                }
            });
        });
    }
}

pub const ROUNDS: u64 = 10_000;

/// Nearly all its time is in the long ones.
fn alternating_calls() {
    use std::os::unix::fs::FileExt;
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let mut much = vec![0_u8; 1 << 20];
    for _ in 0..ROUNDS {
        for length in [1, 1, 1, much.len()] {
            zeros.read_exact_at(&mut much[..length], 0).unwrap();
        }
        std::io::Read::read_exact(&mut &zeros, &mut much[..1]).unwrap();
    }
}
