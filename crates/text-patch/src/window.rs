//! A window: the bytes of code that one patch replaces.

/// Longest window: a jump of five bytes over at most five instructions, the last of up to 15 bytes.
pub const WINDOW_CAPACITY: usize = 19;

/// One replacement of code, for a batch.
///
/// `new` must be one instruction that begins at `address` (a jump or call of five bytes, or a no-op of the window's
/// length) followed by bytes that are never executed, or the old instructions themselves when a window is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Where the window begins, an instruction start.
    pub address: u64,
    /// Bytes in `old` and `new` that count.
    pub length: u8,
    /// What must stand there; anything else is foreign and refused.
    pub old: [u8; WINDOW_CAPACITY],
    /// What shall stand there.
    pub new: [u8; WINDOW_CAPACITY],
    /// Bit *i*: an old instruction begins at `address + i`. Bit 0 is always set.
    pub starts: u32,
    /// Where a thread goes on whose program counter is at old instruction start *i*: an address for each set bit of
    /// `starts` (index = byte offset), 0 elsewhere. Index 0 may be `address` itself.
    pub moves: [u64; WINDOW_CAPACITY],
}
