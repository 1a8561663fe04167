//! The few system calls that are made inside of the program, without libc.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

/// No such process.
pub const ESRCH: i64 = -3;

unsafe fn call(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
    let result: i64;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; callers answer for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Opens a file; `path` ends in a zero byte. Negative errno on failure.
pub fn open(path: &[u8], write: bool) -> i64 {
    const CLOSE_ON_EXEC: u64 = 0o2_000_000;
    if path.last() != Some(&0) {
        return -22;
    }
    // SAFETY: the path ends in a zero byte, as was just looked.
    unsafe { call(257, -100i64 as u64, path.as_ptr() as u64, if write { 2 } else { 0 } | CLOSE_ON_EXEC, 0, 0, 0) }
}

/// Reads into `bytes`; negative errno on failure.
pub fn read(file: i64, bytes: &mut [u8]) -> i64 {
    // SAFETY: the kernel writes within `bytes`.
    unsafe { call(0, file as u64, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0) }
}

/// Closes a file.
pub fn close(file: i64) {
    // SAFETY: the descriptor is the caller's own.
    unsafe { call(3, file as u64, 0, 0, 0, 0, 0) };
}

/// Bytes of a file; negative errno on failure.
pub fn size(file: i64) -> i64 {
    // SAFETY: SEEK_END moves the descriptor's offset, which nobody uses.
    unsafe { call(8, file as u64, 0, 2, 0, 0, 0) }
}

/// Maps a file for reading and writing, shared; negative errno on failure.
pub fn map_shared(file: i64, bytes: u64) -> i64 {
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    unsafe { call(9, 0, bytes, 3, 0x4001, file as u64, 0) }
}

/// A page of zeros that reads as zeros again in a child of fork, if the kernel can do that (4.14); negative errno on
/// failure.
pub fn map_wiped_on_fork() -> i64 {
    const WIPE_ON_FORK: u64 = 18;
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    let page = unsafe { call(9, 0, 4096, 3, 0x22, u64::MAX, 0) };
    if page > 0 {
        // SAFETY: the page that was just made.
        unsafe { call(28, page as u64, 4096, WIPE_ON_FORK, 0, 0, 0) };
    }
    page
}

/// This process' number.
pub fn process_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(39, 0, 0, 0, 0, 0, 0) as i32 }
}

/// This thread's number.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(186, 0, 0, 0, 0, 0, 0) as i32 }
}

/// This thread's thread pointer; 0 if it has none.
pub fn thread_pointer() -> u64 {
    const GET_FS: u64 = 0x1003;
    let mut pointer = 0u64;
    // SAFETY: the kernel writes eight bytes.
    unsafe { call(158, GET_FS, &raw mut pointer as u64, 0, 0, 0, 0) };
    pointer
}

/// This thread's name.
pub fn thread_name() -> [u64; 2] {
    let mut name = [0u64; 2];
    // SAFETY: the kernel writes 16 bytes.
    unsafe { call(157, 16, name.as_mut_ptr() as u64, 0, 0, 0, 0) };
    name
}

/// Whether a process is known not to exist.
pub fn is_gone(pid: u32) -> bool {
    // SAFETY: signal 0 is none.
    let exists = unsafe { call(62, u64::from(pid), 0, 0, 0, 0, 0) != ESRCH };
    // Nobody may have waited for it yet.
    !exists || matches!(state(pid), Some(b'Z' | b'X'))
}

/// A process's state as `/proc/PID/stat` has it (proc_pid_stat(5)); `None` if that can't be read.
fn state(pid: u32) -> Option<u8> {
    const BEFORE: &[u8] = b"/proc/";
    const BEHIND: &[u8] = b"/stat\0";
    let mut path = [0; BEFORE.len() + 10 + BEHIND.len()];
    let digits = (1..10).take_while(|&digits| pid / 10u32.pow(digits) > 0).count() + 1;
    let end = BEFORE.len() + digits;
    path[..BEFORE.len()].copy_from_slice(BEFORE);
    let mut rest = pid;
    for digit in path[BEFORE.len()..end].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    path[end..end + BEHIND.len()].copy_from_slice(BEHIND);
    let file = open(&path[..end + BEHIND.len()], false);
    if file < 0 {
        return None;
    }
    let mut text = [0; 128];
    let length = read(file, &mut text);
    close(file);
    // The name stands in parentheses, has few bytes, and may hold any.
    let text = text.get(..usize::try_from(length).ok()?)?;
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name_end + 2).copied()
}

/// Sleeps while the word has this value, at most `nanoseconds`.
pub fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: the word is valid for the call, and the kernel reads 16 bytes of `time`.
    unsafe { call(202, word.as_ptr() as u64, 0, u64::from(value), time.as_ptr() as u64, 0, 0) };
}

/// Wakes everybody who sleeps on the word.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call.
    unsafe { call(202, word.as_ptr() as u64, 1, i32::MAX as u64, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn who_has_ended_is_gone_before_anybody_waits_for_it() {
        assert!(!is_gone(std::process::id()) && is_gone(4_194_304));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while state(child.id()) != Some(b'Z') {
            std::thread::yield_now();
        }
        assert!(is_gone(child.id()));
        child.wait().unwrap();
        assert!(is_gone(child.id()));
    }
}
