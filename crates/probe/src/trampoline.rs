//! Trampolines: the code that a site's jump leads to. Generating it is a pure function; where the bytes are written,
//! and whether into this process or another, is the caller's business.
//!
//! A *block* is 64-aligned and holds the site's [`Descriptor`] and code. With T = block + 64:
//!
//! ```text
//! T:    0F 1F 44 00 00     nop          probe off        | one aligned 8-byte word; its last three bytes are the
//!  or   E9 <P - T - 5>     jmp P        probe on         | first of the displaced code and never change
//! T+5:  <displaced instructions>
//!       E9 <resume>        jmp resume   unless the window ends in a jump
//! P:    FF 15 <enter>      call [enter]                  an entry
//!       0F 83 <T+5>        jnc T+5                       not timed: go on, the stack is as it was
//!       48 8D 64 24 08     lea rsp, [rsp+8]              the frame has the return address
//!       E8 <T+5>           call T+5                      paired: R lands in the return address' slot
//! R:    48 8D 64 24 F8     lea rsp, [rsp-8]
//!       FF 15 <exit>       call [exit]                   puts the return address back
//!       C3                 ret
//! ```
//!
//! Where no exit is wanted and the handler is within reach, the word may be a call of it instead
//! ([`Block::on_direct`]), from which the handler returns to T+5: two jumps less.
//!
//! An entry without observable exit has `jmp T+5` for everything after the first call. A point inside a function saves
//! flags and red zone around the call:
//!
//! ```text
//! P:    48 8D 64 24 80     lea rsp, [rsp-128]
//!       9C                 pushfq
//!       FF 15 <enter>      call [enter]
//!       9D                 popfq
//!       48 8D A4 24 80 00 00 00   lea rsp, [rsp+128]
//!       E9 <T+5>           jmp T+5
//! ```
//!
//! A region site, a no-op at which the compiler keeps nothing in the flags, has the same without `pushfq` and `popfq`, and
//! jumps back to the function's code at once.
//!
//! Every call meets its return, so that the CPU's return prediction holds; a swapped return address would cost
//! about twenty cycles.

use crate::descriptor::Descriptor;

/// Most bytes of a block.
pub const CAPACITY: usize = 320;
/// Most bytes of displaced code.
pub const DISPLACED_CAPACITY: usize = CAPACITY - size_of::<Descriptor>() - 64;
/// Offset of T in a block.
pub const WORD: usize = size_of::<Descriptor>();
/// Offset of the displaced code in a block.
pub const BODY: usize = WORD + 5;

/// What a return site begins with: no other return address into a block leads to such code.
pub const RETURN_SITE: [u8; 5] = [0x48, 0x8D, 0x64, 0x24, 0xF8];
/// Bytes from P up to the return site.
pub const PROBE_LENGTH: u64 = 22;
const NOP5: [u8; 5] = [0x0F, 0x1F, 0x44, 0x00, 0x00];
const ENTER: usize = core::mem::offset_of!(Descriptor, enter);
const EXIT: usize = core::mem::offset_of!(Descriptor, exit);

/// A displacement to fill into the displaced code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixup {
    /// Offset of the four bytes.
    pub at: u16,
    /// Offset that it counts from: the byte after its instruction.
    pub from: u16,
    /// Absolute address that it means.
    pub target: u64,
}

/// How the handler is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// At a function's entry, with a paired call when the handler asks for it.
    Paired,
    /// At a function's entry or return, or in the place of a call of five bytes: nothing lives below the stack pointer.
    Plain,
    /// Inside of a function: red zone and flags are live.
    Point,
    /// Inside of a function, at a no-op whose compiler says that the flags are dead: the red zone alone is live.
    Region,
}

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Address of the block where it will run; 64-aligned.
    pub block: u64,
    /// Displaced code, empty for a sled; `ret` (C3) alone for a return sled or for the place of a call.
    pub code: &'a [u8],
    /// Its displacements.
    pub fixups: &'a [Fixup],
    /// Address after the window; None if the code never falls through.
    pub resume: Option<u64>,
    /// How the handler is called.
    pub call: Call,
}

/// A block ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its bytes, the descriptor's part zero and the probe off.
    pub bytes: [u8; CAPACITY],
    /// How many of them count; a multiple of 64.
    pub length: usize,
    /// Value of the word at [`WORD`] that switches the probe on.
    pub on: u64,
    /// Value that switches it off.
    pub off: u64,
    /// Offset of P, for sites that are switched in their own text.
    pub probe: usize,
    /// Offset of the return site R, 0 if there is none.
    pub return_site: usize,
}

impl Block {
    /// Value of the word that calls a `*Direct` handler without a way over P: for entries whose exit nobody wants.
    /// `block` is where the block runs. None if the handler is out of reach of a call.
    pub fn on_direct(&self, block: u64, handler: u64) -> Option<u64> {
        let mut word = self.off.to_le_bytes();
        word[..5].copy_from_slice(&call(block + WORD as u64, handler)?);
        Some(u64::from_le_bytes(word))
    }
}

/// Why no block could be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// A target is more than 2 GiB away from the block.
    OutOfReach {
        /// The target's address.
        target: u64,
    },
    /// The displaced code is longer than [`DISPLACED_CAPACITY`], or a fixup lies outside of it.
    BadCode,
}

/// The displacement that leads from `next` (the byte after the instruction) to `target`.
pub fn displacement(next: u64, target: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(next).cast_signed()).ok()
}

/// The jump of five bytes from `from` to `target`.
pub fn jump(from: u64, target: u64) -> Option<[u8; 5]> {
    branch(0xE9, from, target)
}

/// The call of five bytes.
pub fn call(from: u64, target: u64) -> Option<[u8; 5]> {
    branch(0xE8, from, target)
}

fn branch(opcode: u8, from: u64, target: u64) -> Option<[u8; 5]> {
    let [a, b, c, d] = displacement(from.wrapping_add(5), target)?.to_le_bytes();
    Some([opcode, a, b, c, d])
}

struct Writer {
    bytes: [u8; CAPACITY],
    at: usize,
    block: u64,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Opcode bytes, then a displacement to an offset in the block.
    fn near(&mut self, opcode: &[u8], offset: usize) {
        self.put(opcode);
        let displacement = offset as i64 - (self.at as i64 + 4);
        self.put(&(displacement as i32).to_le_bytes());
    }

    fn far(&mut self, opcode: &[u8], target: u64) -> Result<(), BuildError> {
        self.put(opcode);
        let next = self.block + self.at as u64 + 4;
        let displacement = displacement(next, target).ok_or(BuildError::OutOfReach { target })?;
        self.put(&displacement.to_le_bytes());
        Ok(())
    }
}

/// Builds a block.
///
/// # Errors
/// If a target is out of reach, or the displaced code doesn't fit.
pub fn build(request: &Request<'_>) -> Result<Block, BuildError> {
    if request.code.len() > DISPLACED_CAPACITY {
        return Err(BuildError::BadCode);
    }
    let mut w = Writer { bytes: [0xCC; CAPACITY], at: WORD, block: request.block };
    w.bytes[..WORD].fill(0);
    w.put(&NOP5);
    w.put(request.code);
    for fixup in request.fixups {
        let (at, from) = (BODY + usize::from(fixup.at), BODY + usize::from(fixup.from));
        if at + 4 > BODY + request.code.len() {
            return Err(BuildError::BadCode);
        }
        let value = displacement(request.block + from as u64, fixup.target)
            .ok_or(BuildError::OutOfReach { target: fixup.target })?;
        w.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    if let Some(resume) = request.resume {
        w.far(&[0xE9], resume)?;
    }
    let probe = w.at.next_multiple_of(16);
    w.at = probe;
    let mut return_site = 0;
    match request.call {
        Call::Paired => {
            w.near(&[0xFF, 0x15], ENTER);
            w.near(&[0x0F, 0x83], BODY);
            w.put(&[0x48, 0x8D, 0x64, 0x24, 0x08]);
            w.near(&[0xE8], BODY);
            return_site = w.at;
            debug_assert_eq!(return_site - probe, PROBE_LENGTH as usize);
            w.put(&RETURN_SITE);
            w.near(&[0xFF, 0x15], EXIT);
            w.put(&[0xC3]);
        }
        Call::Plain => {
            w.near(&[0xFF, 0x15], ENTER);
            w.near(&[0xE9], BODY);
        }
        Call::Region => {
            w.put(&[0x48, 0x8D, 0x64, 0x24, 0x80]);
            w.near(&[0xFF, 0x15], ENTER);
            w.put(&[0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0]);
            match request.resume {
                // Nothing was displaced.
                Some(resume) if request.code.is_empty() => w.far(&[0xE9], resume)?,
                _ => w.near(&[0xE9], BODY),
            }
        }
        Call::Point => {
            w.put(&[0x48, 0x8D, 0x64, 0x24, 0x80, 0x9C]);
            w.near(&[0xFF, 0x15], ENTER);
            w.put(&[0x9D, 0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0]);
            w.near(&[0xE9], BODY);
        }
    }
    let length = w.at.next_multiple_of(64);
    let mut word = [0u8; 8];
    word.copy_from_slice(&w.bytes[WORD..WORD + 8]);
    let off = u64::from_le_bytes(word);
    word[0] = 0xE9;
    word[1..5].copy_from_slice(&((probe - BODY) as u32).to_le_bytes());
    Ok(Block { bytes: w.bytes, length, on: u64::from_le_bytes(word), off, probe, return_site })
}
