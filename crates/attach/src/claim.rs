//! One at a time: rights to a process that no two recorders, and no two threads of one, may have together.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use crate::process::read_text;

/// Between two tries while nobody is seen to hold it.
const SHORTLY: Duration = Duration::from_millis(5);
/// Between two tries for a right that is held for a few system calls.
const MOMENT: Duration = Duration::from_micros(200);

/// What only one may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Count the process' calls.
    CountCalls,
    /// Write a call site into it, for as long as a thread makes calls there.
    WriteCallSite,
}

impl Right {
    /// The folder whose lock stands for it: open to the same as the memory is, so that nobody else can keep a recorder off.
    fn open(self, pid: i32) -> Option<File> {
        let folder = match self {
            Self::CountCalls => "fd",
            Self::WriteCallSite => "fdinfo",
        };
        File::open(format!("/proc/{pid}/{folder}")).ok()
    }
}

/// A right that is held: the lock of a folder in `/proc`. It ends with whoever holds it, however that ends, and leaves no file
/// behind.
#[derive(Debug)]
pub struct Claim(File);

impl Claim {
    /// Claims a right; `None` where its folder can't be opened or locked, as for who may not attach either.
    ///
    /// # Errors
    /// With the number of the process that has it. One that has ended, or can't be seen from here, is waited for until
    /// `deadline`, and has none.
    pub fn of(pid: i32, right: Right, deadline: Instant) -> Result<Option<Self>, Option<i32>> {
        let Some(folder) = right.open(pid) else { return Ok(None) };
        loop {
            match take_free(&folder) {
                Some(true) => return Ok(Some(Self(folder))),
                Some(false) => {}
                None => return Ok(None),
            }
            let holder = holder(&folder);
            if holder.is_some() || Instant::now() > deadline {
                return Err(holder);
            }
            std::thread::sleep(SHORTLY);
        }
    }

    /// Claims a right that others have for moments only; `None` where it can't be had within that time.
    pub(crate) fn within(pid: i32, right: Right, patience: Duration) -> Option<Self> {
        let folder = right.open(pid)?;
        let deadline = Instant::now() + patience;
        while !take_free(&folder)? {
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(MOMENT);
        }
        Some(Self(folder))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing would leave it locked where a child has just been forked, which has the descriptor for a moment.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Whether nobody had the lock of a file, which is taken then; `None` if it can't be locked.
fn take_free(file: &File) -> Option<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Who has the lock of a file, as the kernel lists it.
fn holder(file: &File) -> Option<i32> {
    let found = file.metadata().ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
    let locks = read_text("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 00:15:5211009 0 EOF`; who waits for it has an arrow.
    let held = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, "WRITE", pid, of, ..] = &words[..] else { return None };
        (of == file).then(|| pid.parse::<i32>().ok()).flatten().filter(|&pid| pid > 0)
    };
    locks.lines().find_map(held)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn running(program: &str, arguments: &[&str]) -> Ended {
        let mut command = Command::new(program);
        Ended(command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn one_has_it_at_a_time_and_is_named() {
        let program = running("sleep", &["100"]);
        let pid = program.0.id().cast_signed();
        let own = std::process::id().cast_signed();
        let claims: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| Claim::of(pid, Right::CountCalls, soon()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| matches!(claim, Ok(Some(_)))).count(), 1, "{claims:?}");
        assert_eq!(claims.iter().filter(|claim| matches!(claim, Err(Some(holder)) if *holder == own)).count(), 7);
        drop(claims);
        assert!(matches!(Claim::of(pid, Right::CountCalls, soon()), Ok(Some(_))));
    }

    #[test]
    fn nothing_is_left_of_one_that_was_killed() {
        let program = running("sleep", &["100"]);
        let pid = program.0.id().cast_signed();
        // It keeps the lock itself, and its child does not have it.
        let mut other = running("flock", &["-o", &format!("/proc/{pid}/fd"), "sleep", "20"]);
        let has_it = Some(other.0.id().cast_signed());
        let deadline = soon();
        while !matches!(Claim::of(pid, Right::CountCalls, deadline), Err(holder) if holder == has_it) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(SHORTLY);
        }
        other.0.kill().unwrap();
        other.0.wait().unwrap();
        assert!(matches!(Claim::of(pid, Right::CountCalls, soon()), Ok(Some(_))));
    }

    #[test]
    fn what_is_not_there_is_claimed_by_nobody() {
        assert!(matches!(Claim::of(-1, Right::CountCalls, soon()), Ok(None)));
    }
}
