//! The program under test: built, started, asked for its own times, and looked at for traces of us.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use transect_record::walk::user_timing::UserTimer;

/// Ticks of all threads together, within a window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Truth {
    pub work: f64,
    pub first: f64,
    pub second: f64,
    pub third: f64,
    /// Ticks of wall time.
    pub lasted: f64,
}

const RING: usize = 65_535;

pub struct Program {
    child: Child,
    pub path: PathBuf,
    truth: PathBuf,
    threads: usize,
    _folders: [tempfile::TempDir; 2],
}

/// Address of the agent beside this test, if it has been built.
pub fn agent() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.parent()?.to_owned();
    Some(folder.join("libtransect_probe_agent.so")).filter(|path| path.is_file())
}

impl Program {
    pub fn start(threads: usize, kind: &str) -> Option<Program> {
        Program::start_with(threads, kind, &[])
    }

    pub fn start_with(threads: usize, kind: &str, options: &[&str]) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timed");
        let (compiler, source) = if kind == "throw" { ("c++", "throws.cc") } else { ("cc", "timed.c") };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/user_timing").join(source);
        let built =
            Command::new(compiler).args(["-O2", "-g", "-pthread", "-o"]).arg(&path).arg(&source).args(options).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("NOT RUN: {compiler} does not build {}", source.display());
            return None;
        }
        // In memory: a file's pages are protected against writing whenever they are written back.
        let shared = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let truth = shared.path().join("truth");
        let child =
            Command::new(&path).arg(&truth).args([&threads.to_string(), kind]).stdin(Stdio::piped()).spawn().unwrap();
        let program = Program { child, path, truth, threads, _folders: [folder, shared] };
        let deadline = Instant::now() + Duration::from_secs(10);
        while kind != "blocked" && program.calls() < 20 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(20));
        Some(program)
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn timer(&self) -> Option<UserTimer> {
        let Some(agent) = agent() else {
            eprintln!("NOT RUN: the probe agent has not been built");
            return None;
        };
        match UserTimer::attach_with(self.pid(), vec![self.path.clone()], &agent) {
            Ok(timer) => Some(timer),
            Err(error) => {
                eprintln!("NOT RUN: {error}");
                None
            }
        }
    }

    pub fn address(&self, name: &str) -> u64 {
        let object = transect_binary_info::Object::open(&self.path).unwrap();
        object.function_names().iter().find(|f| &*f.name == name).unwrap().address
    }

    /// What the program has noted of this time.
    pub fn truth(&self, (start, end): (u64, u64)) -> Truth {
        let mut truth = Truth { lasted: (end - start) as f64, ..Truth::default() };
        let Ok(bytes) = std::fs::read(&self.truth) else { return truth };
        for line in bytes.chunks_exact(32 * (RING + 1)).take(self.threads) {
            let word = |i: usize| u64::from_le_bytes(line[i * 8..i * 8 + 8].try_into().unwrap());
            for call in 1..=(word(0) as usize).min(RING) {
                let (which, began, ended) = (word(call * 4), word(call * 4 + 1), word(call * 4 + 2));
                if began == 0 {
                    continue;
                }
                let ended = if ended == 0 { end } else { ended };
                let inside = ended.min(end).saturating_sub(began.max(start)) as f64;
                *[&mut truth.work, &mut truth.first, &mut truth.second, &mut truth.third][which as usize] += inside;
            }
        }
        truth
    }

    /// Calls begun so far.
    fn calls(&self) -> u64 {
        let mut count = [0; 8];
        let read = File::open(&self.truth).and_then(|file| file.read_exact_at(&mut count, 0));
        read.map_or(0, |()| u64::from_le_bytes(count))
    }

    /// The text is the file's, nobody traces it, and it works on.
    pub fn check(&self) {
        assert_eq!(changed_text(self.pid()), None, "jumps are left in its text");
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0"), "{status}");
        let before = self.calls();
        let deadline = Instant::now() + Duration::from_secs(5);
        while before > 0 && self.calls() == before {
            assert!(!status.contains("State:\tZ") && Instant::now() < deadline, "it has stopped working");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether all executable mappings of files hold the files' bytes.
pub fn texts_are_the_files(pid: i32) -> bool {
    changed_text(pid).is_none()
}

/// The first place where one doesn't.
fn changed_text(pid: i32) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.len() < 6 || !fields[1].contains('x') || !fields[5].starts_with('/') || fields[5].contains("memfd") {
            return None;
        }
        let (low, high) = fields[0].split_once('-').unwrap();
        let (low, high) = (u64::from_str_radix(low, 16).unwrap(), u64::from_str_radix(high, 16).unwrap());
        let mut there = vec![0; (high - low) as usize];
        memory.read_exact_at(&mut there, low).unwrap();
        let mut here = vec![0; there.len()];
        let offset = u64::from_str_radix(fields[2], 16).unwrap();
        let length = File::open(fields[5]).unwrap().read_at(&mut here, offset).unwrap();
        if there[..length] == here[..length] {
            return None;
        }
        let at = (0..length).find(|&at| there[at] != here[at])?;
        let end = length.min(at + 16);
        Some(format!("{}+{:#x}: {:x?}, not {:x?}", fields[5], offset as usize + at, &there[at..end], &here[at..end]))
    })
}
