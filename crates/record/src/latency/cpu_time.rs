//! CPU time and threads of other processes.

use std::iter::Sum;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPU time that all threads of a process have used, ns; 0 once it has ended.
pub fn of_process(pid: i32) -> f64 {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(clock_gettime);
    time.map_or(0.0, |time| time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// How often the kernel has put threads on a CPU, and how long they had waited for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runs {
    /// How often.
    pub count: u64,
    /// Time in the queue for a CPU, waits that have ended, ns.
    pub queued_ns: u64,
}

impl Sum for Runs {
    fn sum<I: Iterator<Item = Runs>>(runs: I) -> Runs {
        runs.fold(Runs::default(), |sum, one| Runs {
            count: sum.count + one.count,
            queued_ns: sum.queued_ns + one.queued_ns,
        })
    }
}

/// Those of a process' threads, those that have ended left out; `None` once it has ended, or where nobody counts them.
pub fn runs_of(pid: i32) -> Option<Runs> {
    let of = |thread: std::fs::DirEntry| -> Option<Runs> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut numbers = text.split_whitespace().skip(1).map(str::parse);
        Some(Runs { queued_ns: numbers.next()?.ok()?, count: numbers.next()?.ok()? })
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.flatten().map(of).sum()
}

/// Threads of a process; 0 once it has ended.
pub fn threads_of(pid: i32) -> usize {
    // Linked once by each of them, and by two more.
    let links = std::fs::metadata(format!("/proc/{pid}/task"))
        .map_or(0, |folder| std::os::linux::fs::MetadataExt::st_nlink(&folder));
    usize::try_from(links.saturating_sub(2)).unwrap_or(usize::MAX)
}
