//! Facts about the recording machine.

use transect_profile_model::Machine;

/// Reads them.
pub fn here() -> Machine {
    let names = rustix::system::uname();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = info
        .lines()
        .find_map(|l| l.strip_prefix("model name").and_then(|l| l.split_once(':')))
        .map(|(_, name)| name.trim().to_owned())
        .unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: i64 = memory
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))
        .and_then(|l| l.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    Machine {
        hostname: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpu,
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes: kib * 1024,
    }
}
