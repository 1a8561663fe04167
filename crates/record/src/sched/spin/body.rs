use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic};

use super::MAX_INSTRUCTIONS;
use super::carried::Carried;

/// Instructions of a loop that counts its turns and pauses: more would be work.
const MAX_COUNTING: usize = 24;

/// The instructions of a loop, from its top to the branch back.
pub struct Body {
    instructions: Vec<Instruction>,
    top: u64,
    end: u64,
}

impl Body {
    /// Reads the code of a loop; `None` if it is none that is understood: too long, or it does not end where it should.
    pub fn decode(code: &[u8], top: u64) -> Option<Self> {
        let end = top + code.len() as u64;
        let mut instructions = Vec::new();
        for instruction in &mut Decoder::with_ip(64, code, top, DecoderOptions::NONE) {
            if instruction.is_invalid() || instructions.len() == MAX_INSTRUCTIONS {
                return None;
            }
            instructions.push(instruction);
        }
        if instructions.last()?.next_ip() != end {
            return None;
        }
        let turn = on_a_turn(&instructions);
        // Code that is jumped back to, but from which no way leads here again, is no loop.
        if !turn.last().copied().unwrap_or(false) {
            return None;
        }
        let kept =
            instructions.into_iter().zip(turn).filter_map(|(instruction, on_turn)| on_turn.then_some(instruction));
        Some(Self { instructions: kept.collect(), top, end })
    }

    /// True if an instruction begins at `vaddr`.
    pub fn has(&self, vaddr: u64) -> bool {
        self.instructions.iter().any(|instruction| instruction.ip() == vaddr)
    }

    /// True if it does nothing but wait.
    pub fn waits(&self) -> bool {
        let leaves = |instruction: &&Instruction| {
            matches!(instruction.flow_control(), FlowControl::IndirectBranch | FlowControl::Interrupt)
                || matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Push | Mnemonic::Pop)
        };
        if self.instructions.iter().any(|instruction| leaves(&instruction)) {
            return false;
        }
        let inner = self.inner_loops();
        let pauses = self.instructions.iter().any(|instruction| {
            instruction.code() == Code::Pause
                && !inner.iter().any(|(from, to)| (*from..*to).contains(&instruction.ip()))
        });
        let carried = self.carried();
        if carried.stores {
            return false;
        }
        // What is called may work; but who pauses after each call asks it whether to go on.
        if !pauses && self.instructions.iter().any(is_call) {
            return false;
        }
        match pauses {
            true => !carried.registers || self.instructions.len() <= MAX_COUNTING,
            false => !carried.registers && !carried.memory && carried.loads,
        }
    }

    /// Loops inside of this one.
    fn inner_loops(&self) -> Vec<(u64, u64)> {
        let branches = self.instructions.iter().filter(|instruction| is_branch(instruction));
        let back = branches
            .filter(|instruction| (self.top + 1..=instruction.ip()).contains(&instruction.near_branch_target()));
        back.map(|instruction| (instruction.near_branch_target(), instruction.next_ip())).collect()
    }

    fn carried(&self) -> Carried {
        let mut factory = InstructionInfoFactory::new();
        let mut carried = Carried::default();
        // Up to here a branch may have skipped the code.
        let mut skipped_until = self.top;
        // A call leaves the stack as it was; what it returns is new in every turn.
        let own: Vec<Instruction> =
            self.instructions.iter().filter(|instruction| !is_call(instruction)).copied().collect();
        for instruction in &own {
            let conditional = instruction.ip() < skipped_until;
            carried.follow(instruction, factory.info(instruction), conditional);
            let target = if is_branch(instruction) { instruction.near_branch_target() } else { 0 };
            if target > instruction.ip() && target < self.end {
                skipped_until = skipped_until.max(target);
            }
        }
        carried.conclude(&own, &mut factory);
        carried
    }
}

/// For each instruction whether it is on a way from the first to the last: the way out of the function is not.
fn on_a_turn(instructions: &[Instruction]) -> Vec<bool> {
    let number = |address: u64| instructions.binary_search_by_key(&address, Instruction::ip).ok();
    let next = |at: usize| -> [Option<usize>; 2] {
        let instruction = &instructions[at];
        let following = Some(at + 1).filter(|next| *next < instructions.len());
        match instruction.flow_control() {
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => [None, None],
            FlowControl::UnconditionalBranch => [None, number(instruction.near_branch_target())],
            FlowControl::ConditionalBranch => [following, number(instruction.near_branch_target())],
            _ => [following, None],
        }
    };
    let mut from_top = vec![false; instructions.len()];
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut from_top[at], true) && at + 1 < instructions.len() {
            open.extend(next(at).into_iter().flatten());
        }
    }
    let last = instructions.len() - 1;
    let mut to_end = vec![false; instructions.len()];
    to_end[last] = true;
    // As often as there may be ways back inside.
    loop {
        let before = to_end.clone();
        for at in (0..last).rev() {
            to_end[at] |= next(at).into_iter().flatten().any(|next| to_end[next]);
        }
        if before == to_end {
            break;
        }
    }
    from_top.into_iter().zip(to_end).map(|(reached, ends)| reached && ends).collect()
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

fn is_branch(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}
