//! Where `main` is in a program without symbols.

use transect_binary_info::Object;

/// Address of `main`, as the program's entry code hands it to the C library in its first argument: `lea main(%rip), %rdi`
/// or `mov $main, %rdi`.
pub(super) fn main_function(object: &Object) -> Option<u64> {
    let entry = object.entry_point();
    let code = object.bytes_from(entry).filter(|_| entry != 0)?;
    find(entry, &code[..code.len().min(ENTRY_BYTES)])
}

/// The entry code is not longer.
const ENTRY_BYTES: usize = 64;

fn find(entry: u64, code: &[u8]) -> Option<u64> {
    code.windows(7).enumerate().find_map(|(at, bytes)| {
        let operand = i32::from_le_bytes(*bytes.last_chunk()?);
        match bytes[..3] {
            [0x48, 0x8d, 0x3d] => Some((entry + at as u64 + 7).wrapping_add_signed(operand.into())),
            [0x48, 0xc7, 0xc7] => Some(u64::from(operand.cast_unsigned())),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn main_is_the_first_argument_of_the_entry_code() {
        let position_independent = [0x54, 0x31, 0xc9, 0x48, 0x8d, 0x3d, 0x55, 0xfa, 0xff, 0xff, 0xff, 0x15];
        assert_eq!(find(0x16f1, &position_independent), Some(0x1150));
        assert_eq!(find(0x402404, &[0x48, 0xc7, 0xc7, 0xf0, 0x1d, 0x40, 0x00]), Some(0x401df0));
        assert_eq!(find(0x1000, &[0x90; 32]), None);
    }
}
