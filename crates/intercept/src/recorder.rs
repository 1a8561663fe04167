//! What the recorder does: whether it is there, whether it can answer.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::syscall as sys;
use crate::environment;
use crate::plan::PathBuffer;

/// How long its answers are waited for until this process looks whether it is stopped (SIGSTOP, a debugger), milliseconds.
pub const STOPPED_AFTER_MS: u64 = 50;

/// True while the link to the recorder's memory file leads anywhere: a recorder that was killed left it behind, and from
/// another user namespace or another `/proc` it is out of reach.
pub fn lives() -> bool {
    sys::readable_path(arena_link().bytes.as_ptr())
}

/// The link to the recorder's memory file, beside the agent.
fn arena_link() -> PathBuffer {
    let agent = environment::agent_path();
    let dir = &agent[..agent.iter().rposition(|&b| b == b'/').unwrap_or(0)];
    let mut link = PathBuffer::empty();
    link.push(dir);
    link.push(b"/arena");
    link
}

/// True if the recorder is stopped: asked once so much was waited, or at once if it was stopped the last time.
pub fn is_stopped_after(waited_ms: u64) -> bool {
    static STOPPED: AtomicBool = AtomicBool::new(false);
    if waited_ms < STOPPED_AFTER_MS && !STOPPED.load(Ordering::Relaxed) {
        return false;
    }
    let stopped = is_stopped();
    STOPPED.store(stopped, Ordering::Relaxed);
    stopped
}

/// True if the recorder is stopped and can't answer. Its memory file's link leads through its folder in `/proc`.
fn is_stopped() -> bool {
    let mut target = [0u8; 64];
    let length = sys::readlink(arena_link().bytes.as_ptr(), &mut target);
    let Some(target) = target.get(..length.max(0) as usize) else { return false };
    let Some(process) = process_folder(target) else { return false };
    let mut path = PathBuffer::empty();
    path.push(process);
    path.push(b"/stat");
    let fd = sys::open(path.bytes.as_ptr(), false);
    if fd < 0 {
        return false;
    }
    let mut stat = [0u8; 128];
    let read = sys::read(fd, &mut stat);
    sys::close(fd);
    matches!(state_in(stat.get(..read.max(0) as usize).unwrap_or(&[])), Some(b'T' | b't'))
}

/// `/proc/12` of `/proc/12/fd/3`.
fn process_folder(target: &[u8]) -> Option<&[u8]> {
    let digits = target.strip_prefix(b"/proc/")?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &target[..6 + digits])
}

/// The state in a `/proc/PID/stat`: behind the name, which may hold anything.
fn state_in(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{process_folder, state_in};

    #[test]
    fn the_recorder_is_found_by_its_memory_file() {
        assert_eq!(process_folder(b"/proc/4711/fd/3"), Some(&b"/proc/4711"[..]));
        assert_eq!(process_folder(b"/proc/self/fd/3"), None);
        assert_eq!(process_folder(b"/memfd:x"), None);
        assert_eq!(state_in(b"12 (a) T) (b) S 1 2"), Some(b'S'));
        assert_eq!(state_in(b"12 (transect) T 1 2"), Some(b'T'));
        assert_eq!(state_in(b"12 (tran"), None);
    }
}
