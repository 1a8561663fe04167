//! Ways to write to code.

use crate::Refusal;

/// How code is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// The first that works: pages already writable, `/proc/self/mem`, page protection.
    #[default]
    Auto,
    /// Pages are made writable *and* executable for the time of the patch (`mprotect`); other threads go on executing
    /// them.
    PageProtection,
    /// `/proc/self/mem`: works under W^X policies, a system call for each stretch of bytes.
    ProcMem,
    /// A second, writable mapping. Needs memory that was made for it, or text replaced by a copy in a memory file.
    Alias,
}

/// Code that can be written for good, so that its sites can be toggled without a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Added (wrapping) to an address, gives where to write it. 0 for pages that are writable themselves.
    pub offset: u64,
}

impl Alias {
    /// Where the byte at `address` is written.
    pub fn of(&self, address: u64) -> u64 {
        address.wrapping_add(self.offset)
    }
}

/// Makes executable pages writable for good, for toggling in place: by page protection (RWX), or by a writable alias of
/// a copy in shared memory that takes the pages' place, which W^X policies allow.
///
/// # Errors
/// [`Refusal::NotWritable`], [`Refusal::NotExecutable`].
pub fn open_for_toggling(start: u64, end: u64, access: Access) -> Result<Alias, Refusal> {
    let _ = (end, access);
    Err(Refusal::NotWritable { address: start, errno: 38 })
}
