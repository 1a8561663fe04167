//! Mappings of this process. Asked of this thread's folder, for the process' own is empty once its first thread ended.

use crate::Refusal;
use crate::arch::syscall::{self, PROT_EXEC, PROT_READ, PROT_WRITE};

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// `PROT_` bits.
    pub protection: u64,
    /// Shared with other mappings of the file.
    pub shared: bool,
    /// Inode number of the file, 0 if none.
    pub inode: u64,
}

impl Mapping {
    /// Executable.
    pub fn executable(&self) -> bool {
        self.protection & PROT_EXEC != 0
    }

    /// Writable.
    pub fn writable(&self) -> bool {
        self.protection & PROT_WRITE != 0
    }

    /// From a line of `/proc/self/maps`.
    fn parse(line: &[u8]) -> Option<Self> {
        let (start, rest) = hexadecimal(line)?;
        let (end, rest) = hexadecimal(rest.strip_prefix(b"-")?)?;
        let flags = rest.strip_prefix(b" ")?.get(..4)?;
        let bit = |i: usize, byte, value| if flags[i] == byte { value } else { 0 };
        let protection = bit(0, b'r', PROT_READ) | bit(1, b'w', PROT_WRITE) | bit(2, b'x', PROT_EXEC);
        // " offset device inode", the last in decimal.
        let number = rest.get(5..)?.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(2);
        let inode = number.map_or(0, |digits| {
            digits
                .iter()
                .fold(0u64, |value, &digit| value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))))
        });
        Some(Self { start, end, protection, shared: flags[3] == b's', inode })
    }
}

fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(text.len());
    if length == 0 {
        return None;
    }
    let digit = |value: u64, &byte: &u8| value << 4 | u64::from((byte as char).to_digit(16).unwrap_or(0));
    Some((text[..length].iter().fold(0, digit), &text[length..]))
}

/// Calls `each` for every mapping, by address, until it returns false.
///
/// # Errors
/// [`Refusal::System`] without `/proc`.
pub fn each_mapping(each: &mut dyn FnMut(&Mapping) -> bool) -> Result<(), Refusal> {
    let system = |errno: syscall::Errno| Refusal::System { call: "reading /proc/thread-self/maps", errno: errno.0 };
    let fd = syscall::open(c"/proc/thread-self/maps", false, false).map_err(system)?;
    let mut buffer = [0u8; 4096];
    let mut held = 0;
    let mut skipping = false; // the rest of a line longer than the buffer
    let result = 'read: loop {
        let n = match syscall::read(fd, &mut buffer[held..]) {
            Ok(0) => break Ok(()),
            Ok(n) => n,
            Err(errno) => break Err(system(errno)),
        };
        held += n;
        let mut from = 0;
        while let Some(length) = buffer[from..held].iter().position(|&byte| byte == b'\n') {
            if !skipping
                && let Some(mapping) = Mapping::parse(&buffer[from..from + length])
                && !each(&mapping)
            {
                break 'read Ok(());
            }
            skipping = false;
            from += length + 1;
        }
        if from == 0 && held == buffer.len() {
            if !skipping
                && let Some(mapping) = Mapping::parse(&buffer)
                && !each(&mapping)
            {
                break Ok(());
            }
            skipping = true;
            held = 0;
        } else {
            buffer.copy_within(from..held, 0);
            held -= from;
        }
    };
    syscall::close(fd);
    result
}
