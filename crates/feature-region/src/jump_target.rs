//! Where jumps through registers lead: the tables of `switch` and of computed gotos.
//!
//! A table's address travels through registers, often from far away (out of a loop), so registers' values are followed
//! over the whole function. The table's end comes from the comparison before the jump, else from where its entries no
//! longer lead into the function. What can't be followed is read generously, and its edges are doubtful.

use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use rustc_hash::FxHashMap as HashMap;

use crate::body::{EdgeKind, Exit, Program, Walk};
use crate::returning::Returning;

/// Longest table.
const ENTRIES: u64 = 1 << 14;
/// Tables may lead to code with tables.
const ROUNDS: usize = 64;

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Value {
    #[default]
    Unknown,
    /// An address of the object.
    Address(u64),
    /// An entry of the table of four-byte distances, chosen by a register.
    Distance { table: u64, index: Register },
    /// An entry of the table of addresses.
    Pointer { table: u64, index: Register },
    /// An address and a distance from it.
    Sum { base: u64, table: u64, index: Register },
}

type Registers = [Value; 16];

/// Gives the indirect jumps of a body their targets, and follows those. `tables` are the addresses of tables that are
/// known; more are added. False if one of those ends a table that was read beyond its end, when it was not known yet: the
/// body is to be followed anew.
pub(crate) fn resolve(walk: &mut Walk<'_, '_>, returning: &mut Returning, tables: &mut Vec<u64>) -> bool {
    let known_before = tables.len();
    // Targets found so far by jump: registers may become known differently once more code is seen.
    let mut given: HashMap<u32, Vec<u64>> = HashMap::default();
    for _ in 0..ROUNDS {
        if walk.indirect.is_empty() {
            return true;
        }
        let values = Followed::of(walk, tables);
        tables.clone_from(&values.tables);
        let mut grown = false;
        for number in walk.indirect.clone() {
            let targets = values.targets(walk, number);
            let known = given.entry(number).or_default();
            for target in targets.unwrap_or_default() {
                if !known.contains(&target) {
                    known.push(target);
                    walk.add_jump(number, target, EdgeKind::Sure);
                    grown = true;
                }
            }
        }
        if !grown {
            break;
        }
        follow_pending(walk, returning);
    }
    if tables.len() > known_before {
        let values = Followed::of(walk, tables);
        for (&number, known) in &given {
            if values.targets(walk, number).is_some_and(|targets| known.iter().any(|to| !targets.contains(to))) {
                return false;
            }
        }
    }
    let unresolved: Vec<u32> =
        walk.indirect.iter().copied().filter(|number| given.get(number).is_none_or(Vec::is_empty)).collect();
    if unresolved.is_empty() {
        return true;
    }
    let candidates = generous(walk);
    for number in unresolved {
        // Through memory that is no table it is a tail call: of a virtual function, of a pointer.
        let through_register = walk
            .program
            .decode(walk.body.steps[number as usize].vaddr)
            .is_some_and(|instruction| instruction.op0_kind() == OpKind::Register);
        if !through_register || candidates.is_empty() {
            walk.body.steps[number as usize].exit = Some(Exit::Unknown);
            continue;
        }
        candidates.iter().for_each(|&target| walk.add_jump(number, target, EdgeKind::Doubtful));
    }
    follow_pending(walk, returning);
    true
}

fn follow_pending(walk: &mut Walk<'_, '_>, returning: &mut Returning) {
    if let Some(entry) = walk.body.steps.first().map(|step| step.vaddr) {
        walk.follow(entry, returning);
    }
}

/// Everything that looks like a table of this function, all tables together, else all of its labels whose address is
/// taken.
fn generous(walk: &Walk<'_, '_>) -> Vec<u64> {
    let mut tables: Vec<u64> = Vec::new();
    for step in &walk.body.steps {
        if let Some(instruction) = walk.program.decode(step.vaddr)
            && instruction.code() == Code::Lea_r64_m
            && instruction.memory_base() == Register::RIP
        {
            tables.push(instruction.ip_rel_memory_address());
        }
    }
    tables.sort_unstable();
    tables.dedup();
    let mut found = Vec::new();
    for (place, &table) in tables.iter().enumerate() {
        let room = tables.get(place + 1).map_or(ENTRIES, |next| (next - table) / 4);
        found.extend(distances(walk, table, table, room.min(ENTRIES)));
    }
    if found.is_empty() {
        found = walk.program.labels(&walk.body.ranges);
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Targets of at most `most` distances, up to the first that leads elsewhere.
fn distances(walk: &Walk<'_, '_>, table: u64, base: u64, most: u64) -> Vec<u64> {
    let Some(bytes) = walk.program.object.bytes_at(table) else { return Vec::new() };
    let entries = bytes.chunks_exact(4).take(most as usize);
    entries
        .map(|raw| base.wrapping_add_signed(i32::from_le_bytes(raw.try_into().unwrap_or_default()).into()))
        .take_while(|&target| walk.is_inside(target))
        .collect()
}

/// Values of registers at the places that jumps lead to.
struct Followed {
    at: HashMap<u32, Registers>,
    /// The step before, where there is exactly one; by jumps and by going on.
    before: HashMap<u32, Option<u32>>,
    /// Addresses of tables that registers hold somewhere, sorted.
    tables: Vec<u64>,
}

impl Followed {
    /// `tables` are known already.
    fn of(walk: &Walk<'_, '_>, tables: &[u64]) -> Self {
        let mut followed = Self { at: HashMap::default(), before: HashMap::default(), tables: tables.to_vec() };
        let mut targets: HashMap<u32, Vec<u32>> = HashMap::default();
        let note = |from: u32, to: u32, before: &mut HashMap<u32, Option<u32>>| {
            before.entry(to).and_modify(|only| *only = None).or_insert(Some(from));
        };
        for &(from, to, _) in &walk.body.jumps {
            targets.entry(from).or_default().push(to);
            note(from, to, &mut followed.before);
        }
        for (number, step) in walk.body.steps.iter().enumerate() {
            if step.falls.is_some()
                && let Some(&to) = walk.body.at.get(&step.end)
            {
                note(number as u32, to, &mut followed.before);
            }
        }
        let mut uses = InstructionInfoFactory::new();
        let mut work = vec![0u32];
        followed.at.insert(0, Registers::default());
        while let Some(first) = work.pop() {
            let Some(&registers) = followed.at.get(&first) else { continue };
            let mut registers = registers;
            let mut number = first;
            while let Some(step) = walk.body.steps.get(number as usize) {
                let Some(instruction) = walk.program.decode(step.vaddr) else { break };
                apply(walk.program, &instruction, &mut registers, &mut uses, &mut followed.tables);
                for &to in targets.get(&number).into_iter().flatten() {
                    if followed.join(to, &registers) {
                        work.push(to);
                    }
                }
                if step.falls.is_none() {
                    break;
                }
                let Some(&next) = walk.body.at.get(&step.end) else { break };
                // Where ways meet, values meet.
                if followed.before.get(&next).is_none_or(Option::is_none) {
                    if followed.join(next, &registers) {
                        work.push(next);
                    }
                    break;
                }
                number = next;
            }
        }
        followed.tables.sort_unstable();
        followed.tables.dedup();
        followed
    }

    /// True if something changed.
    fn join(&mut self, to: u32, registers: &Registers) -> bool {
        let Some(known) = self.at.get_mut(&to) else {
            self.at.insert(to, *registers);
            return true;
        };
        let mut changed = false;
        for (known, new) in known.iter_mut().zip(registers) {
            if known != new && *known != Value::Unknown {
                *known = Value::Unknown;
                changed = true;
            }
        }
        changed
    }

    /// Registers just before a step.
    fn before(&self, walk: &Walk<'_, '_>, number: u32) -> Option<Registers> {
        // Back to the nearest place at which values are kept, then forward again.
        let mut path = Vec::new();
        let mut at = number;
        let mut registers = loop {
            if let Some(registers) = self.at.get(&at) {
                break *registers;
            }
            at = (*self.before.get(&at)?)?;
            path.push(at);
            if path.len() > walk.body.steps.len() {
                return None;
            }
        };
        let mut uses = InstructionInfoFactory::new();
        for &step in path.iter().rev() {
            let instruction = walk.program.decode(walk.body.steps[step as usize].vaddr)?;
            apply(walk.program, &instruction, &mut registers, &mut uses, &mut Vec::new());
        }
        Some(registers)
    }

    /// Where the indirect jump `number` leads; `None` if its table is not known.
    fn targets(&self, walk: &Walk<'_, '_>, number: u32) -> Option<Vec<u64>> {
        let instruction = walk.program.decode(walk.body.steps[number as usize].vaddr)?;
        let registers = self.before(walk, number)?;
        let value = if instruction.op0_kind() == OpKind::Register {
            value_of(&registers, instruction.op0_register())
        } else {
            pointer(&instruction, &registers)?
        };
        match value {
            Value::Sum { base, table, index } => {
                Some(distances(walk, table, base, self.entries(walk, number, table, 4, index)))
            }
            Value::Pointer { table, index } => {
                let most = self.entries(walk, number, table, 8, index);
                let entries = (0..most).map_while(|entry| walk.program.pointer_at(table + entry * 8));
                Some(entries.take_while(|&target| walk.is_inside(target)).collect())
            }
            _ => None,
        }
    }

    /// Most entries that a table can have: up to the next table, and as the comparison of its index says.
    fn entries(&self, walk: &Walk<'_, '_>, number: u32, table: u64, size: u64, index: Register) -> u64 {
        let next = self.tables.partition_point(|&other| other <= table);
        let room = self.tables.get(next).map_or(ENTRIES, |next| (next - table) / size);
        self.compared(walk, number, index).unwrap_or(ENTRIES).min(room.max(1)).min(ENTRIES)
    }

    /// One more than the greatest index, from a comparison that only this way leads on from.
    fn compared(&self, walk: &Walk<'_, '_>, number: u32, index: Register) -> Option<u64> {
        const FAR: usize = 64;
        let mut at = number;
        let mut limit: Option<Mnemonic> = None;
        for _ in 0..FAR {
            let before = (*self.before.get(&at)?)?;
            let step = &walk.body.steps[before as usize];
            let instruction = walk.program.decode(step.vaddr)?;
            let fell = walk.body.steps[at as usize].vaddr == step.end;
            match instruction.mnemonic() {
                Mnemonic::Ja | Mnemonic::Jae if fell => limit = Some(instruction.mnemonic()),
                Mnemonic::Jbe | Mnemonic::Jb if !fell => limit = Some(instruction.mnemonic()),
                Mnemonic::Cmp => {
                    if let Some(limit) = limit
                        && instruction.op0_kind() == OpKind::Register
                        && instruction.op0_register().full_register() == index
                        && matches!(
                            instruction.op1_kind(),
                            OpKind::Immediate8
                                | OpKind::Immediate8to16
                                | OpKind::Immediate8to32
                                | OpKind::Immediate8to64
                                | OpKind::Immediate16
                                | OpKind::Immediate32
                                | OpKind::Immediate32to64
                        )
                    {
                        let greatest = instruction.immediate(1);
                        let inclusive = matches!(limit, Mnemonic::Ja | Mnemonic::Jbe);
                        return greatest
                            .checked_add(u64::from(inclusive))
                            .filter(|&count| (1..=ENTRIES).contains(&count));
                    }
                    limit = None;
                }
                _ => {}
            }
            at = before;
        }
        None
    }
}

fn place(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

fn value_of(registers: &Registers, register: Register) -> Value {
    place(register).map_or(Value::Unknown, |place| registers[place])
}

/// The table that a memory operand with an index reads from.
fn table(instruction: &Instruction, registers: &Registers, size: u32) -> Option<(u64, Register)> {
    let index = instruction.memory_index();
    if index == Register::None || instruction.memory_index_scale() != size {
        return None;
    }
    let offset = instruction.memory_displacement64();
    let base = match instruction.memory_base() {
        Register::None => 0,
        register => match value_of(registers, register) {
            Value::Address(base) => base,
            _ => return None,
        },
    };
    Some((base.wrapping_add(offset), index.full_register()))
}

fn pointer(instruction: &Instruction, registers: &Registers) -> Option<Value> {
    table(instruction, registers, 8).map(|(table, index)| Value::Pointer { table, index })
}

/// Registers that a call may change.
const CHANGED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// What an instruction leaves in registers.
fn apply(
    program: &Program<'_>,
    instruction: &Instruction,
    registers: &mut Registers,
    uses: &mut InstructionInfoFactory,
    tables: &mut Vec<u64>,
) {
    let result = match instruction.code() {
        Code::Lea_r64_m if instruction.memory_base() == Register::RIP => {
            Value::Address(instruction.ip_rel_memory_address())
        }
        Code::Lea_r64_m
            if instruction.memory_base() == Register::None && instruction.memory_index() == Register::None =>
        {
            Value::Address(instruction.memory_displacement64())
        }
        Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32
            if instruction.op0_kind() == OpKind::Register =>
        {
            Value::Address(instruction.immediate(1))
        }
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64
            if instruction.op0_kind() == OpKind::Register && instruction.op1_kind() == OpKind::Register =>
        {
            value_of(registers, instruction.op1_register())
        }
        Code::Mov_r64_rm64 if instruction.op1_kind() == OpKind::Memory => {
            pointer(instruction, registers).unwrap_or_default()
        }
        Code::Movsxd_r64_rm32 if instruction.op1_kind() == OpKind::Memory => {
            table(instruction, registers, 4).map(|(table, index)| Value::Distance { table, index }).unwrap_or_default()
        }
        Code::Add_r64_rm64 | Code::Add_rm64_r64
            if instruction.op0_kind() == OpKind::Register && instruction.op1_kind() == OpKind::Register =>
        {
            let (a, b) =
                (value_of(registers, instruction.op0_register()), value_of(registers, instruction.op1_register()));
            match (a, b) {
                (Value::Distance { table, index }, Value::Address(base))
                | (Value::Address(base), Value::Distance { table, index }) => Value::Sum { base, table, index },
                _ => Value::Unknown,
            }
        }
        _ => Value::Unknown,
    };
    if let Value::Distance { table, .. } | Value::Pointer { table, .. } = result {
        tables.push(table);
    }
    let target = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
        .then(|| place(instruction.op0_register()))
        .flatten();
    if result != Value::Unknown
        && let Some(target) = target
    {
        registers[target] = result;
        return;
    }
    if instruction.is_call_near() || instruction.is_call_near_indirect() {
        // Sites keep everything.
        if program.sites.binary_search(&instruction.ip()).is_err() {
            CHANGED_BY_CALLS
                .iter()
                .filter_map(|&register| place(register))
                .for_each(|at| registers[at] = Value::Unknown);
        }
        return;
    }
    for used in uses.info(instruction).used_registers() {
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if writes && let Some(at) = place(used.register()) {
            registers[at] = Value::Unknown;
        }
    }
}
