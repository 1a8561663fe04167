//! What a function's first instructions do with its return address.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// Instructions looked at.
const LONGEST: usize = 24;

/// True if the straight line of instructions at the function's entry reads, writes or pops its return address (as
/// setjmp, vfork, getcontext and `__builtin_return_address` do). If it `may_read`, reading alone doesn't count.
pub(crate) fn uses_return_address(code: &[u8], vaddr: u64, size: u64, may_read: bool) -> bool {
    let size = code.len().min(size as usize).min(LONGEST * 15);
    let mut decoder = Decoder::with_ip(64, &code[..size], vaddr, DecoderOptions::NONE);
    let mut infos = InstructionInfoFactory::new();
    let mut i = Instruction::default();
    // Where the return address is, counted from rsp, and from rbp once that is a frame pointer.
    let mut depth = 0i64;
    let mut frame: Option<i64> = None;
    for _ in 0..LONGEST {
        if !decoder.can_decode() {
            return false;
        }
        decoder.decode_out(&mut i);
        if i.is_invalid() || i.flow_control() != FlowControl::Next {
            return false;
        }
        let passed_by = i.mnemonic() == Mnemonic::Lea || may_read && i.op0_kind() != OpKind::Memory;
        if !passed_by
            && (0..i.op_count()).any(|operand| i.op_kind(operand) == OpKind::Memory)
            && touches(&i, depth, frame)
        {
            return true;
        }
        let constant = || i.immediate(1).cast_signed();
        match i.mnemonic() {
            Mnemonic::Push => depth += 8,
            Mnemonic::Pushfq => depth += 8,
            Mnemonic::Pop | Mnemonic::Popfq if depth < 8 => return true,
            Mnemonic::Pop | Mnemonic::Popfq => depth -= 8,
            Mnemonic::Sub if i.op0_register() == Register::RSP && is_immediate(&i) => depth += constant(),
            Mnemonic::Add if i.op0_register() == Register::RSP && is_immediate(&i) => depth -= constant(),
            Mnemonic::Lea if i.op0_register() == Register::RSP && i.memory_base() == Register::RSP => {
                depth -= i.memory_displacement64().cast_signed();
            }
            Mnemonic::Lea => {
                // The caller's stack pointer, for a context to return with: lea 8(%rsp), %rdx. Arguments passed on
                // the stack are at the same address, so this alone says nothing.
            }
            Mnemonic::Mov if i.code() == Code::Mov_rm64_r64 || i.code() == Code::Mov_r64_rm64 => {
                if i.op1_register() == Register::RSP && i.op0_register() == Register::RBP {
                    frame = Some(depth);
                } else if i.op0_register() == Register::RSP && i.op0_kind() == OpKind::Register {
                    // The stack is switched: what was on it is reached by other ways from here on.
                    return false;
                } else if i.op0_register() == Register::RBP && i.op0_kind() == OpKind::Register {
                    frame = None;
                }
            }
            _ => {
                let mut writes = |register: Register| {
                    infos.info(&i).used_registers().iter().any(|used| {
                        used.register().full_register() == register
                            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None)
                    })
                };
                if writes(Register::RSP) {
                    // Alignment, a variable frame: where the return address is is not known any more.
                    return false;
                }
                if writes(Register::RBP) {
                    frame = None;
                }
            }
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

fn is_immediate(i: &Instruction) -> bool {
    matches!(i.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
}

/// True if the instruction's memory operand overlaps the return address.
fn touches(i: &Instruction, depth: i64, frame: Option<i64>) -> bool {
    let at = match (i.memory_base(), frame) {
        _ if i.memory_index() != Register::None => return false,
        (Register::RSP, _) => i.memory_displacement64().cast_signed(),
        (Register::RBP, Some(at)) => i.memory_displacement64().cast_signed() + (depth - at),
        _ => return false,
    };
    let size = i.memory_size().size().max(1) as i64;
    at < depth + 8 && at + size > depth
}
