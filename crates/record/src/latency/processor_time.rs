//! Processor time of other processes.

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Processor time that all threads of a process have used, ns; 0 once it has ended.
pub fn of_process(pid: i32) -> f64 {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(clock_gettime);
    time.map_or(0.0, |time| time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}
