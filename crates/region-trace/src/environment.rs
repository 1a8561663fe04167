//! What the process was started with, as the kernel tells it: libc may not be ready yet, or not be there.

use transect_event_abi::region_arena::REGION_FILE_VARIABLE;
use transect_region_ring::syscall;

/// Most bytes of the file's name, the zero byte included.
pub const PATH_CAPACITY: usize = 256;

/// A file read byte by byte.
struct Bytes {
    file: i64,
    buffer: [u8; 1024],
    at: usize,
    end: usize,
}

impl Bytes {
    fn open(path: &[u8]) -> Option<Bytes> {
        let file = syscall::open(path, false);
        (file >= 0).then_some(Bytes { file, buffer: [0; 1024], at: 0, end: 0 })
    }

    fn next(&mut self) -> Option<u8> {
        if self.at >= self.end {
            self.end = usize::try_from(syscall::read(self.file, &mut self.buffer)).ok()?;
            self.at = 0;
        }
        let byte = *self.buffer.get(..self.end)?.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn word(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            *byte = self.next()?;
        }
        Some(u64::from_le_bytes(bytes))
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        syscall::close(self.file);
    }
}

/// Value of the variable that names the recorder's file, with a zero byte behind it.
pub fn region_file() -> Option<[u8; PATH_CAPACITY]> {
    let mut environment = Bytes::open(b"/proc/self/environ\0")?;
    let name = REGION_FILE_VARIABLE.as_bytes();
    loop {
        let mut matched = 0;
        let mut byte = environment.next()?;
        while matched < name.len() && name.get(matched) == Some(&byte) {
            matched += 1;
            byte = environment.next()?;
        }
        if matched == name.len() && byte == b'=' {
            let mut value = [0; PATH_CAPACITY];
            for place in value.iter_mut().take(PATH_CAPACITY - 1) {
                match environment.next() {
                    None | Some(0) => return Some(value),
                    Some(byte) => *place = byte,
                }
            }
            return None;
        }
        while byte != 0 {
            byte = environment.next()?;
        }
    }
}

/// What the kernel says of the program.
pub struct Auxiliary {
    /// It has more rights than who started it.
    pub secure: bool,
    /// Address of sixteen random bytes, 0 if there are none.
    pub random: u64,
}

/// Reads it.
pub fn auxiliary() -> Option<Auxiliary> {
    const END: u64 = 0;
    const SECURE: u64 = 23;
    const RANDOM: u64 = 25;
    let mut vector = Bytes::open(b"/proc/self/auxv\0")?;
    let mut found = Auxiliary { secure: false, random: 0 };
    loop {
        let (kind, value) = (vector.word()?, vector.word()?);
        match kind {
            END => return Some(found),
            SECURE => found.secure = value != 0,
            RANDOM => found.random = value,
            _ => {}
        }
    }
}
