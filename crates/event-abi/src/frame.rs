//! Where the agent keeps the return addresses of timed calls: for unwinders that meet its return site and do not know the
//! register that leads there, as of a thread that is blocked.

/// The agent's array of frames, by its name as a dynamic symbol.
pub const SYMBOL: &str = "transect_frames";
/// Bytes of a frame.
pub const SIZE: usize = 336;
/// Frames in the array.
pub const CAPACITY: usize = 65536;
/// They are handed out in order, so many at once; those that never were are all zero. Calls between components seldom nest
/// deeper, and so they last for 8,192 threads at once.
pub const CHUNK: usize = 8;
/// Offset of the address of the stack slot that the return address stood in.
pub const SLOT: usize = 24;
/// Offset of a `u32` that is 1 from call to return.
pub const OPEN: usize = 108;
