//! Where a function's code goes: its calls and jumps out of itself.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess,
    OpKind, Register,
};

use crate::Object;

/// A call or jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// `call rel32`.
    Call,
    /// `jmp rel32`, or a conditional jump with a 32-bit distance.
    Jump,
    /// A jump with an 8-bit distance out of the function.
    ShortJump,
    /// `call *slot(%rip)`.
    CallThrough,
    /// `jmp *slot(%rip)`.
    JumpThrough,
    /// `mov slot(%rip), %register`: perhaps to call through the register.
    Load,
    /// Any other indirect jump that is not the jump of a `switch`: a tail call through a pointer.
    IndirectJump,
}

/// One call, jump or load of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSite {
    /// Which.
    pub transfer: Transfer,
    /// Unrelocated address of its 32-bit displacement, which ends the instruction; 0 if it has none.
    pub displacement_vaddr: u64,
    /// Where it leads, or the slot it goes through; 0 if unknown.
    pub target: u64,
}

impl Object {
    /// Calls, jumps and loads from fixed places in the code at `start`, decoded from there on; jumps inside of it are left out.
    pub fn transfers(&self, start: u64, size: u64) -> Vec<TransferSite> {
        let Some(code) = self.bytes_from(start) else { return Vec::new() };
        let code = &code[..code.len().min(size as usize)];
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut found = Vec::new();
        // Registers to which a `switch` may have added its table's address.
        let mut computed: Vec<Register> = Vec::new();
        let mut uses = InstructionInfoFactory::new();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let site =
                |transfer, target| TransferSite { transfer, displacement_vaddr: instruction.next_ip() - 4, target };
            let near = instruction.near_branch_target();
            match instruction.code() {
                Code::Call_rel32_64 => found.push(site(Transfer::Call, near)),
                Code::Jmp_rel32_64 if near.wrapping_sub(start) >= size => found.push(site(Transfer::Jump, near)),
                Code::Call_rm64 if instruction.is_ip_rel_memory_operand() => {
                    found.push(site(Transfer::CallThrough, instruction.ip_rel_memory_address()));
                }
                Code::Jmp_rm64 if instruction.is_ip_rel_memory_operand() => {
                    found.push(site(Transfer::JumpThrough, instruction.ip_rel_memory_address()));
                }
                Code::Mov_r64_rm64
                    if instruction.is_ip_rel_memory_operand() && instruction.segment_prefix() == Register::None =>
                {
                    found.push(site(Transfer::Load, instruction.ip_rel_memory_address()));
                }
                Code::Jmp_rm64 if !is_switch(&instruction, &computed) => {
                    found.push(TransferSite { transfer: Transfer::IndirectJump, displacement_vaddr: 0, target: 0 })
                }
                _ if (instruction.is_jmp_short() || instruction.is_jcc_short()) && near.wrapping_sub(start) >= size => {
                    found.push(TransferSite { transfer: Transfer::ShortJump, displacement_vaddr: 0, target: near });
                }
                _ if instruction.flow_control() == FlowControl::ConditionalBranch
                    && instruction.is_jcc_near()
                    && near.wrapping_sub(start) >= size =>
                {
                    found.push(site(Transfer::Jump, near));
                }
                _ => {}
            }
            let info = uses.info_options(&instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
            let written = info.used_registers().iter().filter(|u| {
                !matches!(u.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess)
            });
            for register in written.map(|u| u.register().full_register()) {
                computed.retain(|&r| r != register);
            }
            if matches!(instruction.code(), Code::Add_r64_rm64 | Code::Add_rm64_r64)
                && instruction.op0_kind() == OpKind::Register
            {
                computed.push(instruction.op0_register());
            }
        }
        found
    }
}

/// True for the jump of a `switch`: marked as one, through a table of addresses, or to an address just added up.
fn is_switch(jump: &Instruction, computed: &[Register]) -> bool {
    match jump.op0_kind() {
        OpKind::Register => jump.segment_prefix() == Register::DS || computed.contains(&jump.op0_register()),
        _ => {
            jump.segment_prefix() == Register::DS
                || jump.memory_index() != Register::None && jump.memory_index_scale() == 8
        }
    }
}
