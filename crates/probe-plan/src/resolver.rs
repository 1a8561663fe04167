//! Functions that a resolver chooses among at load time (`STT_GNU_IFUNC`): in a stripped library only the public name
//! is left, and it names the resolver. Its candidates are the functions whose addresses it takes.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use transect_binary_info::Object;

use crate::FunctionTable;

/// Longest resolver that is looked at, bytes.
const LONGEST: usize = 4096;

/// Gives the candidates of every resolver its names: as their own where they have none, else as aliases.
pub(crate) fn name_variants(object: &Object, table: &mut FunctionTable) {
    let is_resolver = |table: &FunctionTable, index: u32| !table.details(index).resolves.is_empty();
    let resolvers: Vec<u32> = (0..table.functions().len() as u32).filter(|&index| is_resolver(table, index)).collect();
    for index in resolvers {
        let names = table.details(index).resolves.clone();
        let resolver = table.functions()[index as usize].clone();
        for candidate in candidates(object, &resolver) {
            let Some(found) = table.at(candidate).filter(|&found| !is_resolver(table, found)) else { continue };
            let function = table.function_mut(found);
            let mut names = names.iter();
            if function.symbol.is_empty()
                && let Some(first) = names.next()
            {
                function.symbol.clone_from(first);
                function.name = transect_binary_info::demangle(first);
            }
            let new: Vec<String> =
                names.filter(|n| **n != function.symbol && !function.aliases.contains(n)).cloned().collect();
            function.aliases.extend(new);
            function.aliases.sort_unstable();
        }
    }
}

/// Addresses that the resolver computes, in order.
fn candidates(object: &Object, resolver: &crate::Function) -> Vec<u64> {
    let Some(bytes) = object.bytes_at(resolver.vaddr) else { return Vec::new() };
    let size = bytes.len().min(resolver.size as usize).min(LONGEST);
    let mut decoder = Decoder::with_ip(64, &bytes[..size], resolver.vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut found = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        match instruction.code() {
            Code::Lea_r64_m if instruction.memory_base() == Register::RIP => {
                found.push(instruction.ip_rel_memory_address());
            }
            // At fixed addresses: mov $address, %eax.
            Code::Mov_r32_imm32 | Code::Mov_rm64_imm32 => found.push(instruction.immediate32().into()),
            _ => {}
        }
    }
    found
}
