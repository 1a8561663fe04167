//! Displacing instructions: the same computation at another address.
//!
//! Every instruction is copied byte for byte, save those that depend on where they stand:
//!
//! ```text
//! op disp32(%rip)      the same, displacement left to a fixup
//! jcc rel8|rel32       0F 8x rel32                            fixup
//! jmp rel8|rel32       E9 rel32                               fixup, ends
//! loop*, jrcxz rel8    op +2; EB 05; E9 rel32                 fixup; the short jump passes the long one by
//! call target          lea -8(%rsp),%rsp; push %rax           last instruction of the window only
//!                      lea resume(%rip),%rax                  fixup
//!                      mov %rax,8(%rsp); pop %rax
//!                      jmp target                             fixup, ends
//! ```
//!
//! A displaced call pushes the return address of the original: the callee returns into the original text, where
//! unwinders, exception tables and debuggers find what they expect. The word below the pushed address is written; a
//! function that calls keeps nothing there.

use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

use crate::{Displaced, Fixup, Refusal};

/// Bytes that a jump takes.
pub const JUMP: usize = 5;

/// The instructions that a window displaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplacedWindow {
    /// Bytes of the file that the window takes, padding included.
    pub length: usize,
    /// The same elsewhere.
    pub displaced: Displaced,
}

/// Displaces the instructions at the start of `code`, which stands at `vaddr`, that a jump of five bytes would destroy.
/// `limit` bytes belong to the place: what follows them may be reached in other ways. `size` bytes belong to the
/// function; only padding is taken beyond.
///
/// # Errors
/// A [`Refusal`]: too short, a call that would return into the window, instructions that can't be displaced.
pub fn displace(code: &[u8], vaddr: u64, limit: u64, size: u64) -> Result<DisplacedWindow, Refusal> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(code.len());
    let mut decoder = Decoder::with_ip(64, &code[..limit.min(JUMP + 15)], vaddr, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut out = Displaced::default();
    let mut at = 0;
    while at < JUMP {
        if at >= limit {
            return Err(Refusal::TooShort);
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            // Cut by the limit, or not an instruction.
            return Err(if limit < JUMP + 15 && decoder.last_error() == iced_x86::DecoderError::NoMoreBytes {
                Refusal::TooShort
            } else {
                Refusal::NotDecodable
            });
        }
        let next = at + instruction.len();
        if out.ends || at as u64 >= size {
            if !is_padding(&instruction) {
                return Err(Refusal::TooShort);
            }
            // Nobody passes here: as much as the jump needs, whole or not.
            at = next.min(JUMP);
            continue;
        }
        if instruction.code() == Code::Endbr64 && at > 0 {
            // It marks where indirect branches lead.
            return Err(Refusal::JumpTargetInside);
        }
        let bytes = &code[at..next];
        out.starts.push((at as u8, out.code.len() as u16));
        let offsets = decoder.get_constant_offsets(&instruction);
        append(&mut out, &instruction, bytes, &offsets, next < JUMP)?;
        at = next;
    }
    out.resume = vaddr + at as u64;
    Ok(DisplacedWindow { length: at, displaced: out })
}

/// What assemblers and linkers fill gaps with.
pub(crate) fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Fnop)
        || matches!(instruction.code(), Code::Xchg_r16_AX | Code::Xchg_r32_EAX | Code::Xchg_r64_RAX)
            && instruction.op0_register() == instruction.op1_register()
}

/// Appends what `instruction` becomes; `inner` if more of the window follows it.
fn append(
    out: &mut Displaced,
    instruction: &Instruction,
    bytes: &[u8],
    offsets: &ConstantOffsets,
    inner: bool,
) -> Result<(), Refusal> {
    use FlowControl as F;
    if instruction.flow_control() != F::Next && is_cut_by_some(bytes) {
        return Err(Refusal::NotRelocatable);
    }
    match instruction.flow_control() {
        F::Next => {}
        F::ConditionalBranch => return conditional(out, instruction, bytes),
        F::UnconditionalBranch => {
            if !instruction.is_jmp_short_or_near() {
                return Err(Refusal::NotRelocatable);
            }
            out.code.push(0xe9);
            push_displacement(out, instruction.near_branch_target());
            out.ends = true;
            return Ok(());
        }
        F::Call if inner => return Err(Refusal::CallInside),
        F::IndirectCall if inner => return Err(Refusal::CallInside),
        F::Call if instruction.code() == Code::Call_rel32_64 => return call(out, instruction),
        F::IndirectCall if instruction.is_call_near_indirect() => return indirect_call(out, instruction),
        F::IndirectBranch if instruction.is_jmp_near_indirect() => out.ends = true,
        F::Return => {
            if !matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) {
                return Err(Refusal::NotRelocatable);
            }
            out.ends = true;
        }
        F::Exception if matches!(instruction.code(), Code::Ud2) => out.ends = true,
        // System calls are restarted at their own address, breakpoints and transactions compared with it.
        _ => return Err(Refusal::NotRelocatable),
    }
    match instruction.code() {
        Code::Syscall | Code::Sysenter | Code::Hlt | Code::Int3 => return Err(Refusal::NotRelocatable),
        _ => {}
    }
    let start = out.code.len();
    out.code.extend_from_slice(bytes);
    if instruction.is_ip_rel_memory_operand() {
        relocate_operand(out, instruction, bytes, offsets, start)?;
    }
    Ok(())
}

/// True for a branch with an operand-size prefix, which one maker's CPUs ignore and another's obey. A `REX.W`
/// behind it (the padded call of `__tls_get_addr`) overrides it in both.
fn is_cut_by_some(bytes: &[u8]) -> bool {
    let is_prefix = |b: &u8| matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let count = bytes.iter().take_while(|b| is_prefix(b)).count();
    let prefixes = &bytes[..count];
    // Of several REX prefixes, and of one before other prefixes, only a last one counts.
    prefixes.contains(&0x66) && prefixes.last().is_none_or(|last| last & 0xf8 != 0x48)
}

/// Leaves the displacement of a `%rip`-relative operand to a fixup.
fn relocate_operand(
    out: &mut Displaced,
    instruction: &Instruction,
    bytes: &[u8],
    offsets: &ConstantOffsets,
    start: usize,
) -> Result<(), Refusal> {
    // With an address-size prefix the address is cut to 32 bits.
    if instruction.memory_base() != Register::RIP || offsets.displacement_size() != 4 {
        return Err(Refusal::NotRelocatable);
    }
    let at = start + offsets.displacement_offset();
    out.code[at..at + 4].fill(0);
    out.fixups.push(Fixup {
        at: at as u16,
        from: (start + bytes.len()) as u16,
        target: instruction.ip_rel_memory_address(),
    });
    Ok(())
}

/// Appends a four-byte displacement that counts from its own end.
fn push_displacement(out: &mut Displaced, target: u64) {
    let at = out.code.len() as u16;
    out.code.extend_from_slice(&[0; 4]);
    out.fixups.push(Fixup { at, from: at + 4, target });
}

fn conditional(out: &mut Displaced, instruction: &Instruction, bytes: &[u8]) -> Result<(), Refusal> {
    let target = instruction.near_branch_target();
    if instruction.is_jcc_short_or_near() {
        // Both forms have the condition in the low half of their opcode.
        let opcode = bytes[bytes.len() - if instruction.is_jcc_short() { 2 } else { 5 }];
        out.code.extend_from_slice(&[0x0f, 0x80 | opcode & 0x0f]);
        push_displacement(out, target);
        return Ok(());
    }
    if !(instruction.is_loop() || instruction.is_loopcc() || instruction.is_jcx_short()) {
        return Err(Refusal::NotRelocatable);
    }
    out.code.extend_from_slice(&bytes[..bytes.len() - 1]);
    out.code.extend_from_slice(&[2, 0xeb, 5, 0xe9]);
    push_displacement(out, target);
    Ok(())
}

/// Pushes the return address of the original call, all registers and flags kept.
fn push_return(out: &mut Displaced, return_to: u64) {
    // lea -8(%rsp),%rsp; push %rax; lea return_to(%rip),%rax
    out.code.extend_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0xf8, 0x50, 0x48, 0x8d, 0x05]);
    push_displacement(out, return_to);
    // mov %rax,8(%rsp); pop %rax
    out.code.extend_from_slice(&[0x48, 0x89, 0x44, 0x24, 0x08, 0x58]);
    out.ends = true;
}

fn call(out: &mut Displaced, instruction: &Instruction) -> Result<(), Refusal> {
    push_return(out, instruction.next_ip());
    out.code.push(0xe9);
    push_displacement(out, instruction.near_branch_target());
    Ok(())
}

/// `call *X` becomes `jmp *X` behind the push of its return address.
fn indirect_call(out: &mut Displaced, instruction: &Instruction) -> Result<(), Refusal> {
    let code = match instruction.code() {
        Code::Call_rm64 => Code::Jmp_rm64,
        _ => return Err(Refusal::NotRelocatable),
    };
    let mut jump = *instruction;
    jump.set_code(code);
    match instruction.op0_kind() {
        OpKind::Register if instruction.op0_register() == Register::RSP => return Err(Refusal::NotRelocatable),
        OpKind::Register => {}
        OpKind::Memory => {
            if instruction.memory_index() == Register::ESP || instruction.memory_base() == Register::ESP {
                return Err(Refusal::NotRelocatable);
            }
            if instruction.memory_base() == Register::RSP {
                // The pushed address is on the stack by now.
                let moved = instruction.memory_displacement64().wrapping_add(8);
                i32::try_from(moved.cast_signed()).map_err(|_| Refusal::NotRelocatable)?;
                jump.set_memory_displacement64(moved);
                jump.set_memory_displ_size(8);
            }
        }
        _ => return Err(Refusal::NotRelocatable),
    }
    push_return(out, instruction.next_ip());
    let start = out.code.len();
    // An address near the operand's target, so that the encoder has a displacement in reach.
    let mut encoder = Encoder::new(64);
    let length = encoder.encode(&jump, instruction.ip()).map_err(|_| Refusal::NotRelocatable)?;
    let offsets = encoder.get_constant_offsets();
    let bytes = encoder.take_buffer();
    debug_assert_eq!(bytes.len(), length);
    out.code.extend_from_slice(&bytes);
    if instruction.is_ip_rel_memory_operand() {
        relocate_operand(out, instruction, &bytes, &offsets, start)?;
    }
    Ok(())
}
