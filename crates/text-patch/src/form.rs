//! Forms of a five-byte site, and what an instruction does to a thread that meets INT3 in its place.

use crate::Refusal;

/// `call rel32`.
pub const CALL: u8 = 0xE8;
/// `jmp rel32`.
pub const JUMP: u8 = 0xE9;
/// `jmp rel8`.
pub const SHORT_JUMP: u8 = 0xEB;
/// `ret`.
pub const RETURN: u8 = 0xC3;
/// `int3`.
pub const INT3: u8 = 0xCC;
/// The no-op of five bytes.
pub const NOP5: [u8; 5] = [0x0F, 0x1F, 0x44, 0x00, 0x00];

/// A five-byte call or jump at `address` to `target`.
///
/// # Errors
/// [`Refusal::OutOfReach`] beyond ±2 GiB.
pub fn transfer(opcode: u8, address: u64, target: u64) -> Result<[u8; 5], Refusal> {
    let distance = target.wrapping_sub(address.wrapping_add(5)) as i64;
    let displacement = i32::try_from(distance).map_err(|_| Refusal::OutOfReach { address, target })?;
    let [a, b, c, d] = displacement.to_le_bytes();
    Ok([opcode, a, b, c, d])
}

/// The off form that lets a site be switched by one store, whatever its place in its 8-byte word, given its on form:
///
/// ```text
/// address % 8   on               off                 store
///   0..=3       E8|E9 r0 r1 r2 r3   0F 1F 44 00 00      8 bytes, aligned
///   4..=6       E8|E9 r0 r1 r2 r3   EB 03 r1 r2 r3      2 bytes
///   7           E8|E9 r0 r1 r2 r3   E8|E9 s0 s1 s2 s3   4 bytes, aligned: the displacement of a stub that returns
/// ```
///
/// `idle` is that stub: `ret` for a call; for a jump, code that does what the site is to do while off (for an empty
/// site a jump to `address + 5`). It isn't used for the other places.
///
/// # Errors
/// [`Refusal::OutOfReach`] if the stub is too far.
pub fn off_form(address: u64, on: [u8; 5], idle: u64) -> Result<[u8; 5], Refusal> {
    match address % 8 {
        0..=3 => Ok(NOP5),
        4..=6 => Ok(short_jump_over(on, 5)),
        _ => transfer(on[0], address, idle),
    }
}

/// The off form `EB length-2` with the on form's displacement resident: one 2-byte store switches it (or a 1-byte
/// store, where the displacement's low byte happens to be `length - 2`), and no neighbour's byte is touched. For sleds
/// of `length` 5 to 129 bytes; XRay's have 11 (`EB 09`). It must not stand at `address % 8 == 7`.
pub const fn short_jump_over(on: [u8; 5], length: u8) -> [u8; 5] {
    [SHORT_JUMP, length - 2, on[2], on[3], on[4]]
}

/// What a site's five bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `call rel32`.
    Call,
    /// `jmp rel32`.
    Jump,
    /// `jmp rel8` over at least the rest of the site, whose bytes are free.
    ShortJump,
    /// `ret`; the bytes behind it are free.
    Return,
    /// One no-op of five bytes.
    Nop,
}

impl Form {
    /// Reads five bytes; `None` for anything but a single instruction that owns them all.
    pub const fn of(bytes: [u8; 5]) -> Option<Self> {
        match bytes {
            [CALL, ..] => Some(Self::Call),
            [JUMP, ..] => Some(Self::Jump),
            [SHORT_JUMP, 3..=0x7F, ..] => Some(Self::ShortJump),
            [RETURN, ..] => Some(Self::Return),
            [0x0F, 0x1F, 0x44, _, _] | [0x66 | 0x2E | 0x3E, 0x0F, 0x1F, 0x40..=0x43 | 0x45..=0x47, _] => {
                Some(Self::Nop)
            }
            [0x66 | 0x2E | 0x3E, 0x66 | 0x2E | 0x3E, 0x66 | 0x2E | 0x3E, 0x66 | 0x2E | 0x3E, 0x90] => Some(Self::Nop),
            _ => None,
        }
    }
}
