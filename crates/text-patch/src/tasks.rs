//! Threads of this process, as `/proc` tells.

use core::ffi::CStr;

use crate::Refusal;
use crate::arch::syscall::{self, Errno};

/// A short text on the stack, for paths and small files.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    /// The parts one after the other; what doesn't fit is left out.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut text = Self { bytes: [0; N], length: 0 };
        for part in parts {
            for &byte in *part {
                if text.length + 1 < N {
                    text.bytes[text.length] = byte;
                    text.length += 1;
                }
            }
        }
        text
    }

    /// A file's beginning.
    pub fn read(path: &CStr) -> Result<Self, Errno> {
        let fd = syscall::open(path, false, false)?;
        let mut text = Self { bytes: [0; N], length: 0 };
        while text.length + 1 < N {
            match syscall::read(fd, &mut text.bytes[text.length..N - 1]) {
                Ok(0) => break,
                Ok(n) => text.length += n,
                Err(errno) => {
                    syscall::close(fd);
                    return Err(errno);
                }
            }
        }
        syscall::close(fd);
        Ok(text)
    }

    /// As a path.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// As bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn decimal(mut value: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = 10;
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

fn task_file<const N: usize>(tid: u32, name: &[u8]) -> Result<Text<N>, Errno> {
    let mut digits = [0; 10];
    let path = Text::<64>::of(&[b"/proc/self/task/", decimal(tid, &mut digits), b"/", name]);
    Text::read(path.path())
}

fn number(text: &[u8], radix: u64) -> u64 {
    let mut value = 0u64;
    for &byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'x' => continue,
            _ => break,
        };
        value = value.wrapping_mul(radix).wrapping_add(digit.into());
    }
    value
}

/// The value behind `key` in a file of lines `Key:\tvalue`.
fn field<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(key))?;
    let value = &line[key.len()..];
    Some(&value[value.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(value.len())..])
}

/// Calls `each` for every thread, this one included.
///
/// # Errors
/// [`Refusal::System`] without `/proc`, or with one that counts threads in another namespace than ours.
pub fn each_thread(each: &mut dyn FnMut(u32)) -> Result<(), Refusal> {
    let system = |errno: Errno| Refusal::System { call: "reading /proc/self/task", errno: errno.0 };
    let fd = syscall::open(c"/proc/self/task", false, true).map_err(system)?;
    let me = syscall::gettid();
    let mut seen_self = false;
    let mut buffer = [0u8; 2048];
    loop {
        let n = match syscall::directory_entries(fd, &mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(errno) => {
                syscall::close(fd);
                return Err(system(errno));
            }
        };
        let mut entries = &buffer[..n];
        // struct linux_dirent64: inode, offset, record length (u16 at 16), type, name at 19.
        while entries.len() > 19 {
            let length = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
            if length < 20 || length > entries.len() {
                break;
            }
            let tid = number(&entries[19..length], 10) as u32;
            if tid != 0 {
                seen_self |= tid == me;
                each(tid);
            }
            entries = &entries[length..];
        }
    }
    syscall::close(fd);
    if seen_self { Ok(()) } else { Err(Refusal::System { call: "finding this thread in /proc/self/task", errno: 3 }) }
}

/// Number of threads; 0 if unknown.
pub fn count() -> usize {
    let mut count = 0;
    each_thread(&mut |_| count += 1).map_or(0, |()| count)
}

/// Signals that a thread blocks; bit *n - 1* is signal *n*. `None` if it has ended.
pub fn blocked_signals(tid: u32) -> Option<u64> {
    let status = task_file::<4096>(tid, b"status").ok()?;
    if matches!(field(status.bytes(), b"State:")?.first(), Some(b'Z' | b'X')) {
        return None; // a first thread that has ended before the others
    }
    field(status.bytes(), b"SigBlk:").map(|value| number(value, 16))
}

/// The bit of a signal in a mask.
pub const fn signal_bit(signal: u8) -> u64 {
    1 << (signal - 1)
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// It has ended.
    Gone,
    /// On a CPU or ready for one, or unknown.
    Running,
    /// It waits in the kernel, and will go on here.
    Waiting {
        /// Program counter.
        pc: u64,
        /// Stack pointer.
        sp: u64,
    },
}

/// Where a thread is (`/proc/self/task/TID/syscall`).
pub fn whereabouts(tid: u32) -> Whereabouts {
    match task_file::<256>(tid, b"syscall") {
        Ok(text) if !text.bytes().starts_with(b"running") => {
            // "NR arg*6 sp pc" or "-1 sp pc"
            let trimmed = text.bytes().trim_ascii_end();
            let mut fields = trimmed.rsplit(|&byte| byte == b' ');
            match (fields.next(), fields.next(), fields.next()) {
                (Some(pc), Some(sp), Some(_)) => Whereabouts::Waiting { pc: number(pc, 16), sp: number(sp, 16) },
                _ => Whereabouts::Running,
            }
        }
        Ok(_) => Whereabouts::Running,
        Err(syscall::ESRCH | Errno(2)) => Whereabouts::Gone,
        Err(_) => Whereabouts::Running,
    }
}

/// The debugger of this process, if there is one.
pub fn tracer() -> Option<u32> {
    let status = Text::<4096>::read(c"/proc/thread-self/status").ok()?;
    let pid = number(field(status.bytes(), b"TracerPid:")?, 10) as u32;
    (pid != 0).then_some(pid)
}
