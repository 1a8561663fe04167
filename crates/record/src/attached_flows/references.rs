//! Slots that code refers to other than by a call or jump through memory.
//!
//! A plan takes a slot that is loaded into a register, and then only called, as called. For an agent that remains that is right; but
//! a register, or the stack it is saved on, would still hold a stub's address when the image is unmapped.

use std::collections::HashSet;
use std::ops::Range;

use transect_binary_info::Object;

/// `call *slot(%rip)` and `jmp *slot(%rip)`, up to their displacement.
const BY_DISPLACEMENT: [[u8; 2]; 2] = [[0xff, 0x15], [0xff, 0x25]];
/// The same with an absolute address.
const BY_ADDRESS: [[u8; 3]; 2] = [[0xff, 0x14, 0x25], [0xff, 0x24, 0x25]];
const PAGE: u64 = 4096;

/// Those of `slots` that code in these ranges of an object may load; all of them if the code can't be read. All addresses are
/// unrelocated.
pub fn loaded(object: &Object, code: &[Range<u64>], slots: &HashSet<u64>) -> HashSet<u64> {
    let mut found = HashSet::new();
    for range in code {
        // A mapping begins with its page, the segment perhaps within.
        let begin = (range.start..range.start + PAGE).find_map(|at| Some((at, object.bytes_at(at)?)));
        let Some((start, bytes)) = begin else { return slots.clone() };
        let length = (range.end - start).min(bytes.len() as u64) as usize;
        look(&bytes[..length], start, object.is_fixed(), slots, &mut found);
    }
    found
}

/// Every position counts: where instructions begin is not known, and a slot left by mistake is merely listed.
fn look(code: &[u8], start: u64, fixed: bool, slots: &HashSet<u64>, found: &mut HashSet<u64>) {
    let (Some(&low), Some(&high)) = (slots.iter().min(), slots.iter().max()) else { return };
    let is_slot = |address: u64| low <= address && address <= high && slots.contains(&address);
    for (at, bytes) in code.windows(4).enumerate() {
        let word = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let before = &code[..at];
        let target = (start + at as u64 + 4).wrapping_add_signed(word.into());
        if is_slot(target) && !BY_DISPLACEMENT.iter().any(|call| before.ends_with(call)) {
            found.insert(target);
        }
        let absolute = u64::from(word.cast_unsigned());
        if fixed && is_slot(absolute) && !BY_ADDRESS.iter().any(|call| before.ends_with(call)) {
            found.insert(absolute);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_through_memory_is_told_from_a_load() {
        let slots = HashSet::from([0x3000, 0x3008, 0x3010, 0x40_3000]);
        let code = [
            &[0xff, 0x15][..], // 0x1000: call *0x3000(%rip)
            &0x1ffa_i32.to_le_bytes(),
            &[0x48, 0x8b, 0x1d], // 0x1006: mov 0x3008(%rip),%rbx
            &0x1ffb_i32.to_le_bytes(),
            &[0xff, 0x25], // 0x100d: jmp *0x3010(%rip)
            &0x1ffd_i32.to_le_bytes(),
            &[0xff, 0x14, 0x25], // call *0x403000
            &0x40_3000_i32.to_le_bytes(),
        ]
        .concat();
        let mut found = HashSet::new();
        look(&code, 0x1000, true, &slots, &mut found);
        assert_eq!(found, HashSet::from([0x3008]));
        let load = [0x48, 0x8b, 0x04, 0x25, 0x00, 0x30, 0x40, 0x00];
        look(&load, 0x1000, false, &slots, &mut found);
        assert_eq!(found, HashSet::from([0x3008]), "a number");
        look(&load, 0x1000, true, &slots, &mut found);
        assert_eq!(found, HashSet::from([0x3008, 0x40_3000]));
    }
}
