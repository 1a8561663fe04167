//! Word patching: up to eight bytes at any address.

use crate::Refusal;

/// A word to patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordPatch {
    /// Where it is executed.
    pub address: u64,
    /// Where it is written (may be the same).
    pub alias: u64,
    /// Bytes that count, 1 to 8.
    pub length: u8,
    /// What must stand there.
    pub old: [u8; 8],
    /// What shall stand there.
    pub new: [u8; 8],
    /// Where a thread goes on that meets the word meanwhile, a copy of the old or of the new instructions; 0 if the
    /// old or the new instruction can be emulated.
    pub moved: u64,
}

/// A patch that was started and not finished.
#[derive(Debug)]
#[must_use = "an unfinished patch leaves INT3 in the code"]
pub struct Pending {
    /// The patch.
    pub patch: WordPatch,
}

/// Patches a word, synchronously. False if another thread is patching there.
///
/// # Errors
/// Foreign bytes, overlap with another patch under way, not emulatable, no serialization.
///
/// # Safety
/// `alias` is a writable mapping of the memory at `address`; one instruction begins at `address` in both forms and
/// none within.
pub unsafe fn patch(patch: &WordPatch) -> Result<bool, Refusal> {
    let _ = patch;
    Ok(false)
}
