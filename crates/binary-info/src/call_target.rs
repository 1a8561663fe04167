//! Whether a linkage slot that code loads into a register is used as a call target only.
//!
//! Compilers that don't use a procedure linkage table (`-fno-plt`, Rust) load a slot once and call it several times:
//! `mov slot(%rip),%rbx … call *%rbx … call *%rbx`. Such a load is a call. The value is followed forwards through the
//! function, over all branches, until nothing holds it any more; whatever else reads it ends the search with "no",
//! and so does every doubt (an indirect jump, a jump out of the function, an argument register at a call).

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};

use crate::code::Stretch;
use crate::landing_pad::LandingPad;

/// A set of general-purpose registers, one bit each, by number (rax = 0 … r15 = 15).
type Registers = u16;

const fn set(numbers: &[u16]) -> Registers {
    let mut bits = 0;
    let mut i = 0;
    while i < numbers.len() {
        bits |= 1 << numbers[i];
        i += 1;
    }
    bits
}

/// rcx, rdx, rsi, rdi, r8, r9: integer arguments.
const ARGUMENTS: Registers = set(&[1, 2, 6, 7, 8, 9]);
/// rax, rdx: results.
const RESULTS: Registers = set(&[0, 2]);
/// rbx, rsp, rbp, r12–r15: kept over calls.
const PRESERVED: Registers = set(&[3, 4, 5, 12, 13, 14, 15]);

/// Where control goes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    /// Conditional jump to an address.
    Branch(u64),
    /// Unconditional jump to an address.
    Jump(u64),
    /// Jump through a register or memory.
    IndirectJump,
    /// Call of a fixed address.
    DirectCall,
    /// Call through a register or memory.
    Call,
    Return,
    /// Never goes on (`ud2`, `hlt`, `int3`).
    End,
}

/// What matters of one instruction.
#[derive(Debug, Clone, Copy)]
struct Step {
    address: u64,
    /// Registers read, save those that are only compared with zero or copied.
    reads: Registers,
    /// Registers overwritten as a whole.
    kills: Registers,
    /// `mov %a, %b`: the two.
    copy: Option<(Registers, Registers)>,
    /// The register that a call or jump goes through.
    target: Registers,
    flow: Flow,
}

/// A function, decoded.
pub(crate) struct Function {
    instructions: Vec<Instruction>,
    infos: InstructionInfoFactory,
    /// `None` if the exception table was not understood.
    pads: Option<Vec<LandingPad>>,
}

impl Function {
    /// Decodes `code`, the bytes of `stretch`.
    pub(crate) fn decode(code: &[u8], stretch: &Stretch, pads: Option<Vec<LandingPad>>) -> Self {
        let decoder = Decoder::with_ip(64, code, stretch.range.start, DecoderOptions::NONE);
        Self { instructions: decoder.into_iter().collect(), infos: InstructionInfoFactory::new(), pads }
    }

    fn position(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// True if the value that the instruction at `address` loads into a register is only called, jumped to or compared
    /// with zero.
    pub(crate) fn only_called(&mut self, address: u64, register: Register) -> bool {
        let Some(load) = self.position(address) else { return false };
        let Some(holding) = bit(register) else { return false };
        // By instruction: the registers that hold the value when control arrives, as far as known.
        let mut arriving = vec![0; self.instructions.len()];
        let mut open = vec![(load + 1, holding)];
        while let Some((index, registers)) = open.pop() {
            let Some(instruction) = self.instructions.get(index) else { continue };
            let holding = arriving[index] | registers;
            if holding == arriving[index] {
                continue;
            }
            arriving[index] = holding;
            let step = step(instruction, &mut self.infos);
            let Some(left) = step.pass(holding) else { return false };
            if left == 0 {
                continue;
            }
            match step.flow {
                Flow::Next => open.push((index + 1, left)),
                Flow::Branch(target) => {
                    let Some(target) = self.position(target) else { return false };
                    open.extend([(index + 1, left), (target, left)]);
                }
                Flow::Jump(target) => {
                    let Some(target) = self.position(target) else { return false };
                    open.push((target, left));
                }
                Flow::DirectCall | Flow::Call => {
                    open.push((index + 1, left));
                    let Some(pads) = &self.pads else { return false };
                    for pad in pads.iter().filter(|pad| pad.calls.contains(&step.address)) {
                        let Some(target) = self.position(pad.pad) else { return false };
                        open.push((target, left));
                    }
                }
                Flow::Return | Flow::End => {}
                // A tail call through the value itself ends here; where else it leads is not known.
                Flow::IndirectJump if step.target & holding != 0 => {}
                Flow::IndirectJump => return false,
            }
        }
        true
    }
}

impl Step {
    /// The registers that hold the value after the instruction; `None` if it lets the value out.
    fn pass(&self, holding: Registers) -> Option<Registers> {
        if self.reads & holding != 0 {
            return None;
        }
        let tail_call = self.flow == Flow::IndirectJump && self.target & holding != 0;
        let leaves = match self.flow {
            Flow::DirectCall | Flow::Call => ARGUMENTS,
            // Who jumps to a function passes arguments; a value in a preserved register would be the caller's.
            Flow::IndirectJump if tail_call => ARGUMENTS & !self.target | PRESERVED & !self.target,
            Flow::Return => RESULTS,
            _ => 0,
        };
        if leaves & holding != 0 {
            return None;
        }
        let mut left = holding & !self.kills;
        // A compiler that knows the callee's code (gcc -fipa-ra) keeps values even in registers that it may overwrite.
        if self.flow == Flow::Call {
            left &= PRESERVED;
        }
        if let Some((from, to)) = self.copy
            && from & holding != 0
        {
            left |= to;
        }
        Some(left)
    }
}

/// The bit of a general-purpose register of any width.
fn bit(register: Register) -> Option<Registers> {
    let full = register.full_register();
    full.is_gpr64().then(|| 1 << full.number())
}

fn step(instruction: &Instruction, infos: &mut InstructionInfoFactory) -> Step {
    let register = |operand: u32| {
        (instruction.op_kind(operand) == OpKind::Register).then(|| bit(instruction.op_register(operand))).flatten()
    };
    let target = || instruction.near_branch_target();
    let (flow, goes_through) = match instruction.flow_control() {
        FlowControl::Next => (Flow::Next, 0),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => (Flow::Branch(target()), 0),
        FlowControl::UnconditionalBranch => (Flow::Jump(target()), 0),
        FlowControl::IndirectBranch => (Flow::IndirectJump, register(0).unwrap_or(0)),
        // A system call reads arguments and keeps most registers; as a call it is stricter than need be.
        FlowControl::Call | FlowControl::Interrupt => (Flow::DirectCall, 0),
        FlowControl::IndirectCall => (Flow::Call, register(0).unwrap_or(0)),
        FlowControl::Return => (Flow::Return, 0),
        FlowControl::Exception => (Flow::End, 0),
    };
    let flow = match instruction.code() {
        Code::Int3 | Code::Hlt | Code::INVALID => Flow::End,
        Code::Syscall => Flow::DirectCall,
        _ => flow,
    };
    let copy = match instruction.code() {
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 => register(1).zip(register(0)),
        _ => None,
    };
    let null_test = match instruction.code() {
        Code::Test_rm64_r64 => register(0).is_some() && register(0) == register(1),
        Code::Cmp_rm64_imm8 | Code::Cmp_rm64_imm32 => register(0).is_some() && instruction.immediate(1) == 0,
        _ => false,
    };
    let (mut reads, mut kills) = (0, 0);
    for used in infos.info(instruction).used_registers() {
        let Some(bit) = bit(used.register()) else { continue };
        match used.access() {
            // Writing 32 bits clears the upper half; writing fewer leaves a part of the old value.
            OpAccess::Write if used.register().size() >= 4 => kills |= bit,
            OpAccess::None | OpAccess::NoMemAccess => {}
            _ => reads |= bit,
        }
    }
    if null_test {
        reads = 0;
    }
    if let Some((from, _)) = copy {
        reads &= !from;
    }
    if matches!(flow, Flow::DirectCall | Flow::Call | Flow::IndirectJump) {
        reads &= !goes_through;
    }
    Step { address: instruction.ip(), reads, kills, copy, target: goes_through, flow }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The function at 0x1000 begins with `mov slot(%rip),%rbx`.
    fn rbx_only_called(rest: &[u8]) -> bool {
        let mut code = vec![0x48, 0x8b, 0x1d, 0, 0, 0, 0];
        code.extend(rest);
        let stretch = Stretch { range: 0x1000..0x1000 + code.len() as u64, certain: true, exceptions: None };
        Function::decode(&code, &stretch, Some(Vec::new())).only_called(0x1000, Register::RBX)
    }

    const CALL_RBX: [u8; 2] = [0xff, 0xd3];
    const POP_RBX: [u8; 1] = [0x5b];
    const RET: [u8; 1] = [0xc3];

    #[test]
    fn calls_are_calls() {
        assert!(rbx_only_called(&[&CALL_RBX[..], &CALL_RBX, &POP_RBX, &RET].concat()));
        // 1: call *%rbx; dec %eax; jne 1b; pop %rbx; ret
        assert!(rbx_only_called(&[0xff, 0xd3, 0xff, 0xc8, 0x75, 0xfa, 0x5b, 0xc3]));
        // mov %rbx,%rax; pop %rbx; jmp *%rax
        assert!(rbx_only_called(&[0x48, 0x89, 0xd8, 0x5b, 0xff, 0xe0]));
        // test %rbx,%rbx; je +2; call *%rbx; pop %rbx; ret
        assert!(rbx_only_called(&[0x48, 0x85, 0xdb, 0x74, 0x02, 0xff, 0xd3, 0x5b, 0xc3]));
    }

    #[test]
    fn everything_else_is_a_pointer() {
        // mov %rbx,%rdi; call *%rbx: an argument
        assert!(!rbx_only_called(&[0x48, 0x89, 0xdf, 0xff, 0xd3, 0x5b, 0xc3]));
        // mov %rbx,%rax; pop %rbx; ret: a result
        assert!(!rbx_only_called(&[0x48, 0x89, 0xd8, 0x5b, 0xc3]));
        // mov %rbx,(%rsp): stored
        assert!(!rbx_only_called(&[0x48, 0x89, 0x1c, 0x24, 0x5b, 0xc3]));
        // cmp %rbx,%rax: compared
        assert!(!rbx_only_called(&[0x48, 0x39, 0xd8, 0x5b, 0xc3]));
        // jmp *%rax: a jump table, perhaps
        assert!(!rbx_only_called(&[0xff, 0xe0]));
        // mov %rbx,%r10; call nearby; mov %r10,(%rsp): the callee may be known not to touch r10
        assert!(!rbx_only_called(&[0x49, 0x89, 0xda, 0xe8, 0, 0, 0, 0, 0x4c, 0x89, 0x14, 0x24, 0x5b, 0xc3]));
        // jmp far outside
        assert!(!rbx_only_called(&[0xe9, 0, 0, 1, 0]));
        // je +2; call *%rbx; push %rbx; pop %rbx; ret: on one path pushed
        assert!(!rbx_only_called(&[0x74, 0x02, 0xff, 0xd3, 0x53, 0x5b, 0xc3]));
    }

    #[test]
    fn exceptions_carry_preserved_registers() {
        // call *%rbx; pop %rbx; ret; pad: mov %rbx,%rdi; ret
        let code = [0x48, 0x8b, 0x1d, 0, 0, 0, 0, 0xff, 0xd3, 0x5b, 0xc3, 0x48, 0x89, 0x1f, 0xc3];
        let stretch = Stretch { range: 0x1000..0x1000 + code.len() as u64, certain: true, exceptions: None };
        let pad = LandingPad { calls: 0x1007..0x1009, pad: 0x100b };
        let only_called = |pads| Function::decode(&code, &stretch, pads).only_called(0x1000, Register::RBX);
        assert!(only_called(Some(vec![])));
        assert!(!only_called(Some(vec![pad])));
        assert!(!only_called(None));
    }
}
