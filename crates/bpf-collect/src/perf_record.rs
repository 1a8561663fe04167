//! Records of the kernel's performance events, as bytes: what `linux/perf_event.h` says of those that are read here.

/// `PERF_RECORD_*`.
pub(crate) const LOST: u32 = 2;
/// See [`LOST`].
pub(crate) const COMM: u32 = 3;
/// See [`LOST`].
pub(crate) const MMAP2: u32 = 10;
/// A name that changes because another program runs.
pub(crate) const COMM_EXEC: u16 = 1 << 13;
/// Bytes of an mmap2 record before the path.
const MMAP2_HEAD: usize = 64;

/// Code that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// The file system's device, major and minor number.
    pub device: (u32, u32),
    /// Number of the file in it, 0: no file.
    pub inode: u64,
    /// As `/proc/PID/maps` has it; memory without a file has a name like `//anon`.
    pub path: String,
}

/// The word of eight bytes at a place of a record's body.
pub(crate) fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

/// The word of four bytes at a place of a record's body.
pub(crate) fn half(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

/// Text up to its zero byte.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// An mmap2 record whose body ends at `end`; what follows is the trailer of all records.
pub(crate) fn code_mapping(body: &[u8], end: usize) -> Option<CodeMapping> {
    let start = word(body, 8)?;
    Some(CodeMapping {
        start,
        end: start.checked_add(word(body, 16)?)?,
        offset: word(body, 24)?,
        device: (half(body, 32)?, half(body, 36)?),
        inode: word(body, 40)?,
        path: text(body.get(MMAP2_HEAD..end)?),
    })
}
