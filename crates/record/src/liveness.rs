//! Whether a process still runs.

/// False once the process has ended, zombies included.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = transect_attach::read_text(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may contain any character.
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().as_bytes().first().copied());
    !matches!(state, Some(Some(b'Z' | b'X')) | None)
}
