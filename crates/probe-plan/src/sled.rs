//! No-ops that a compiler left for a jump.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use crate::Window;
use crate::displace::JUMP;

/// The five-byte no-op.
pub(crate) const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// The sled at the start of `code`: whole no-ops that cover a jump; `None` if there are too few of them.
///
/// Switched off it is one instruction: a five-byte no-op, which one-byte ones are merged to, or, if the no-ops are longer
/// than the jump, a short jump over them.
pub(crate) fn sled(code: &[u8], vaddr: u64) -> Option<Window> {
    let mut decoder = Decoder::with_ip(64, &code[..code.len().min(JUMP + 15)], vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut length = 0;
    while length < JUMP {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() || instruction.mnemonic() != Mnemonic::Nop {
            return None;
        }
        length += instruction.len();
    }
    let original = code.get(..length)?.to_vec();
    let off = if length == JUMP {
        NOP5
    } else {
        [0xeb, u8::try_from(length - 2).ok()?, original[2], original[3], original[4]]
    };
    Some(Window::Sled { original, off })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_no_ops() {
        assert_eq!(sled(&[0x90; 9], 0), Some(Window::Sled { original: vec![0x90; 5], off: NOP5 }));
        let long = [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0xc3];
        let off = [0xeb, 7, 0x1f, 0x84, 0];
        assert_eq!(sled(&long, 0), Some(Window::Sled { original: long[..9].to_vec(), off }));
        assert_eq!(sled(&[0x90, 0x90, 0x90, 0x90, 0xc3], 0), None);
        assert_eq!(sled(&[0x90, 0x90], 0), None);
    }
}
