//! Whether a process still runs.

/// False once the process has ended, zombies included; one whose first thread alone has ended runs.
pub fn is_alive(pid: u32) -> bool {
    transect_attach::runs(pid.cast_signed())
}
