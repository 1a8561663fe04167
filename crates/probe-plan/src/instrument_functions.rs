//! `-finstrument-functions`: calls of `__cyg_profile_func_enter` and `__cyg_profile_func_exit`.

use std::collections::HashMap;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};
use transect_binary_info::Object;

use crate::callee::Callees;
use crate::{
    Displaced, Event, ExitSupport, Fixup, FunctionTable, Proposal, Provider, ProviderKind, Site, Window, parallel,
};

/// Calls made by `-finstrument-functions`, direct, through the PLT or through the GOT. The function of a site is the
/// one that the call names in its first argument, where the code shows it: an inlined function has its own calls
/// inside of others.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstrumentFunctions;

const CALLED: &[&str] = &["__cyg_profile_func_enter", "__cyg_profile_func_exit"];

/// A call found.
struct Call {
    vaddr: u64,
    /// Index in [`CALLED`].
    callee: usize,
    tail: bool,
    length: usize,
    /// Function or slot that it leads to.
    target: u64,
    through_slot: bool,
    /// First argument.
    names: Option<u64>,
}

impl Provider for InstrumentFunctions {
    fn kind(&self) -> ProviderKind {
        ProviderKind::InstrumentFunctions
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let calls = {
            let callees = Callees::of(object, functions);
            if !callees.has_any(CALLED) {
                return proposal;
            }
            let ranges: Vec<(u64, u64)> = functions.bodies();
            parallel::map_pieces(&ranges, |&(start, end)| calls_in(object, &callees, start, end))
        };
        for call in calls.into_iter().flatten() {
            let named = call.names.and_then(|vaddr| functions.at(vaddr));
            let function = named.unwrap_or_else(|| functions.containing_or_add(call.vaddr));
            if functions.is_wanted(function) {
                proposal.sites.extend(site(object, &call, function));
            }
        }
        proposal
    }
}

fn site(object: &Object, call: &Call, function: u32) -> Option<Site> {
    let original = object.bytes_at(call.vaddr)?.get(..call.length)?.to_vec();
    let code: &[u8] = if call.through_slot { &[0xff, 0x25, 0, 0, 0, 0] } else { &[0xe9, 0, 0, 0, 0] };
    let from = code.len() as u16;
    let displaced = Displaced {
        code: code.to_vec(),
        fixups: vec![Fixup { at: from - 4, from, target: call.target }],
        resume: call.vaddr + call.length as u64,
        ends: true,
        starts: vec![(0, 0)],
    };
    Some(Site {
        function,
        vaddr: call.vaddr,
        provider: ProviderKind::InstrumentFunctions,
        event: if call.callee == 0 { Event::Entry } else { Event::Exit },
        exit: ExitSupport::NotEntry,
        red_zone: false,
        window: Window::Call { original, displaced, tail: call.tail },
        name: String::new(),
        usdt: None,
    })
}

/// Calls in one stretch of code, which is decoded from its start.
fn calls_in(object: &Object, callees: &Callees<'_>, start: u64, end: u64) -> Vec<Call> {
    let mut found = Vec::new();
    let Some(bytes) = object.bytes_at(start) else { return found };
    let size = bytes.len().min((end - start) as usize);
    let mut decoder = Decoder::with_ip(64, &bytes[..size], start, DecoderOptions::NONE);
    let mut infos = InstructionInfoFactory::new();
    let mut i = Instruction::default();
    // Registers known to hold an address, as far as a straight reading tells.
    let mut known: HashMap<Register, u64> = HashMap::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut i);
        let target = match i.code() {
            Code::Call_rel32_64 | Code::Jmp_rel32_64 => {
                callees.is_one_of(i.near_branch_target(), CALLED).map(|callee| (callee, i.near_branch_target(), false))
            }
            Code::Call_rm64 | Code::Jmp_rm64 if i.memory_base() == Register::RIP => {
                let slot = i.ip_rel_memory_address();
                callees.slot_is_one_of(slot, CALLED).map(|callee| (callee, slot, true))
            }
            _ => None,
        };
        if let Some((callee, target, through_slot)) = target
            && matches!(i.len(), 5 | 6)
            // 67 E8: a call through the table that the linker made direct.
            && matches!(bytes[(i.ip() - start) as usize], 0xe8 | 0xe9 | 0xff | 0x67)
        {
            let names = known.get(&Register::RDI).copied();
            let tail = matches!(i.code(), Code::Jmp_rel32_64 | Code::Jmp_rm64);
            found.push(Call { vaddr: i.ip(), callee, tail, length: i.len(), target, through_slot, names });
        }
        follow(&i, &mut infos, &mut known);
    }
    found
}

/// Registers that a call may change.
const SCRATCH: [Register; 9] = [
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

fn follow(i: &Instruction, infos: &mut InstructionInfoFactory, known: &mut HashMap<Register, u64>) {
    if matches!(i.code(), Code::Call_rel32_64 | Code::Call_rm64) {
        SCRATCH.iter().for_each(|register| _ = known.remove(register));
        return;
    }
    let value = match i.code() {
        Code::Lea_r64_m if i.memory_base() == Register::RIP => Some(i.ip_rel_memory_address()),
        Code::Mov_r32_imm32 => Some(i.immediate32().into()),
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if i.op1_kind() == OpKind::Register => {
            known.get(&i.op1_register()).copied()
        }
        _ => None,
    };
    for used in infos.info(i).used_registers() {
        if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess) {
            known.remove(&used.register().full_register());
        }
    }
    if let Some(value) = value.filter(|_| i.op0_kind() == OpKind::Register) {
        known.insert(i.op0_register().full_register(), value);
    }
}
