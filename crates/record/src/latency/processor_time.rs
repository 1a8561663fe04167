//! Processor time and threads of other processes.

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Processor time that all threads of a process have used, ns; 0 once it has ended.
pub fn of_process(pid: i32) -> f64 {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(clock_gettime);
    time.map_or(0.0, |time| time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// How often the kernel has put the threads of a process on a CPU, those that have ended left out; `None` once it has ended, or where
/// nobody counts it.
pub fn runs_of(pid: i32) -> Option<u64> {
    let of = |thread: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(thread.path().join("schedstat")).ok()?.split_whitespace().nth(2)?.parse().ok()
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
