//! Jump tables of a function, recovered generously.
//!
//! Compilers reach a `switch`'s labels by a table of four-byte distances from the table (or from a label), found by
//! `lea table(%rip)`, or of addresses. Every table that the function could use is read as far as its entries lead into
//! code: entries too many do no harm, since they only matter where they lead into the window of a probe. Tables of
//! addresses need relocations, or are in the data of objects at fixed addresses: both are searched elsewhere.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use transect_binary_info::Object;

/// Longest table.
const ENTRIES: usize = 4096;
/// Most tables and bases that a function is given.
const BASES: usize = 64;

/// Where the jump tables of the function at `range` may lead, as far as that is inside of it; `None` if it jumps through
/// a register and nothing that could be a table was found.
pub(crate) fn targets(object: &Object, range: Range<u64>) -> Option<Vec<u64>> {
    let bytes = object.bytes_at(range.start)?;
    let size = bytes.len().min((range.end - range.start) as usize);
    let mut decoder = Decoder::with_ip(64, &bytes[..size], range.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let (mut tables, mut labels) = (Vec::new(), Vec::new());
    let mut jumps = false;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::Lea_r64_m && instruction.memory_base() == Register::RIP {
            let address = instruction.ip_rel_memory_address();
            if range.contains(&address) {
                labels.push(address);
            }
            tables.push(address);
        }
        // With an index register it is a table of addresses, which is found by its addresses.
        jumps |= instruction.code() == Code::Jmp_rm64 && instruction.op0_kind() == OpKind::Register;
    }
    for list in [&mut tables, &mut labels] {
        list.sort_unstable();
        list.dedup();
    }
    // A label as base goes with a table elsewhere; which with which is not told.
    labels.truncate(BASES);
    let mut found = Vec::new();
    for &table in &tables {
        let Some(bytes) = object.bytes_at(table) else { continue };
        let bases = std::iter::once(table).chain(labels.iter().copied().filter(|&label| label != table));
        for base in bases {
            for raw in bytes.chunks_exact(4).take(ENTRIES) {
                let distance = i32::from_le_bytes(raw.try_into().unwrap_or_default());
                let target = base.wrapping_add_signed(distance.into());
                if !range.contains(&target) {
                    break;
                }
                found.push(target);
            }
        }
    }
    (!jumps || !found.is_empty()).then_some(found)
}
