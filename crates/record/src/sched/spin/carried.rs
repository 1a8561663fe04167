//! What a loop carries from one turn to the next.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

/// A variable on the stack: base register, displacement, size.
type Slot = (Register, u64, u64);

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The instruction itself.
    Constant,
    /// A register that the loop has not changed so far.
    Register(Register),
}

/// What was found so far, instruction by instruction.
#[derive(Debug, Default)]
pub struct Carried {
    /// Some register is carried.
    pub registers: bool,
    /// Some variable on the stack is carried.
    pub memory: bool,
    /// Memory other than the stack is changed, so that turns differ.
    pub stores: bool,
    /// Memory is read.
    pub loads: bool,
    /// Registers that hold what an instruction of this turn put there, whatever way it took.
    defined: HashSet<Register>,
    /// Registers that were read before that.
    exposed: HashSet<Register>,
    written: HashSet<Register>,
    /// Registers whose value this turn has put there: the same in every turn if the source is.
    constant: HashMap<Register, Source>,
    /// Variables on the stack that hold such a constant.
    slots_constant: HashMap<Slot, Source>,
    /// Registers that memory is exchanged with.
    exchanged: Vec<(Register, Option<Source>)>,
    slots_defined: Vec<Slot>,
    slots_exposed: Vec<Slot>,
    slots_written: Vec<Slot>,
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn overlap(one: &Slot, other: &Slot) -> bool {
    let (a, b) = (one.1.cast_signed(), other.1.cast_signed());
    one.0 == other.0 && a < b + other.2 as i64 && b < a + one.2 as i64
}

impl Carried {
    /// Takes in the next instruction; `conditional` if a branch of this turn may have skipped it.
    pub fn follow(&mut self, instruction: &Instruction, info: &InstructionInfo, conditional: bool) {
        for memory in info.used_memory() {
            self.follow_memory(instruction, info, memory, conditional);
        }
        for used in info.used_registers() {
            let register = used.register().full_register();
            if reads(used.access()) && !self.defined.contains(&register) {
                self.exposed.insert(register);
            }
        }
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            let register = used.register().full_register();
            self.written.insert(register);
            if !conditional && used.access() == OpAccess::Write {
                self.defined.insert(register);
            }
            match self.source(instruction, info).filter(|_| used.access() == OpAccess::Write) {
                Some(source) => self.constant.insert(register, source),
                None => self.constant.remove(&register),
            };
        }
    }

    fn follow_memory(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        memory: &UsedMemory,
        conditional: bool,
    ) {
        let slot = stack_slot(memory);
        let access = memory.access();
        if reads(access) {
            self.loads = true;
            if let Some(slot) = slot
                && !self.slots_defined.contains(&slot)
            {
                self.slots_exposed.push(slot);
            }
        }
        if !writes(access) {
            return;
        }
        match (slot, instruction.mnemonic()) {
            // Taking a lock: the same value in every turn.
            (_, Mnemonic::Xchg | Mnemonic::Cmpxchg) => {
                let register = instruction.op1_register().full_register();
                self.exchanged.push((register, self.constant.get(&register).copied()));
            }
            (_, Mnemonic::Bts | Mnemonic::Or) if instruction.has_lock_prefix() && sets_constant_bits(instruction) => {}
            (Some(slot), _) => {
                self.slots_written.push(slot);
                self.slots_constant.retain(|known, _| !overlap(known, &slot));
                let source = self.source(instruction, info);
                if let Some(source) = source.filter(|_| instruction.mnemonic() == Mnemonic::Mov) {
                    self.slots_constant.insert(slot, source);
                }
                if !conditional && access == OpAccess::Write {
                    self.slots_defined.push(slot);
                }
            }
            (None, _) => self.stores = true,
        }
    }

    /// What the instruction puts into its first operand, if that is the same in every turn.
    fn source(&self, instruction: &Instruction, info: &InstructionInfo) -> Option<Source> {
        let of_itself = instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register();
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd, OpKind::Memory) => {
                let slot = info.used_memory().iter().find_map(stack_slot)?;
                self.slots_constant.get(&slot).copied()
            }
            (Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd, OpKind::Register) => {
                let register = instruction.op1_register().full_register();
                let own = self.constant.get(&register).copied();
                own.or_else(|| (!self.written.contains(&register)).then_some(Source::Register(register)))
            }
            (Mnemonic::Mov, _) => Some(Source::Constant),
            (Mnemonic::Xor | Mnemonic::Sub, _) => of_itself.then_some(Source::Constant),
            _ => None,
        }
    }

    /// Draws the conclusions when all instructions have been taken in.
    pub fn conclude(&mut self, instructions: &[Instruction], factory: &mut InstructionInfoFactory) {
        self.registers = self.exposed.iter().any(|register| self.written.contains(register));
        let read_first = |written: &Slot| self.slots_exposed.iter().any(|exposed| overlap(exposed, written));
        self.memory = self.slots_written.iter().any(read_first);
        // A value that was computed from what was read is an update of shared data, not the taking of a lock.
        let updates = |(register, source): &(Register, Option<Source>)| match source {
            Some(Source::Constant) => false,
            Some(Source::Register(register)) => self.written.contains(register),
            None => self.written.contains(register),
        };
        self.stores |= self.exchanged.iter().any(updates);
        // Slots are what they seem only while their base does not change.
        let moves = |instruction: &Instruction| {
            let info = factory.info(instruction);
            info.used_registers().iter().any(|used| used.register() == Register::RSP && writes(used.access()))
        };
        self.stores |=
            !self.slots_written.is_empty() && (self.written.contains(&Register::RBP) || instructions.iter().any(moves));
    }
}

/// A variable at a fixed place on the stack.
fn stack_slot(memory: &UsedMemory) -> Option<Slot> {
    let fixed = matches!(memory.base(), Register::RSP | Register::RBP) && memory.index() == Register::None;
    fixed.then(|| (memory.base(), memory.displacement(), memory.memory_size().size() as u64))
}

fn sets_constant_bits(instruction: &Instruction) -> bool {
    !matches!(instruction.op1_kind(), OpKind::Register)
}
