//! The code of one function as a graph of instructions: found by following control from its entry, so that data between
//! instructions does no harm and cold parts that jumps lead to belong to it.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use rustc_hash::FxHashMap as HashMap;
use transect_binary_info::{FrameEntry, LandingPad, Object, RelativeRelocation};
use transect_probe_plan::{FunctionTable, LinkageNames, slot_of_stub};

use crate::jump_target;
use crate::returning::Returning;

/// How control passes from one instruction to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EdgeKind {
    /// It does, if the instruction ends at all.
    Sure,
    /// It may not: behind a call through a pointer, which may not return, or by a table read generously.
    Doubtful,
    /// By unwinding out of a call.
    Unwind,
}

/// One instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub vaddr: u64,
    /// Address behind it.
    pub end: u64,
    /// How control goes on behind it; `None` if it does not.
    pub falls: Option<EdgeKind>,
    /// What it does beside going on.
    pub exit: Option<Exit>,
}

/// Ways out of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It returns.
    Return,
    /// It jumps to another function.
    TailCall,
    /// It jumps to a place that is not known: another function, presumably.
    Unknown,
}

/// A function's instructions, in the order they were found; the first is its entry.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub steps: Vec<Step>,
    pub at: HashMap<u64, u32>,
    /// Jumps and unwinding, by places in `steps`.
    pub jumps: Vec<(u32, u32, EdgeKind)>,
    /// The function's body and its cold parts as tables tell.
    pub ranges: Vec<Range<u64>>,
}

/// What an object's code is read with.
pub(crate) struct Program<'a> {
    pub object: &'a Object,
    pub functions: FunctionTable,
    pub linkage: LinkageNames,
    frames: Vec<FrameEntry>,
    /// Where relocated words point to, by their addresses, sorted.
    relocations: Vec<RelativeRelocation>,
    /// Calls at these addresses keep all registers.
    pub sites: Vec<u64>,
}

/// Tables that end others are found this often.
const MOST_ATTEMPTS: usize = 8;
/// More instructions are no function.
const MOST_STEPS: usize = 2_000_000;

impl<'a> Program<'a> {
    pub fn of(object: &'a Object, sites: Vec<u64>) -> Self {
        let functions = FunctionTable::of(object);
        let linkage = LinkageNames::of(object);
        let mut relocations = object.relative_relocations();
        relocations.sort_by_key(|relocation| relocation.vaddr);
        Self { object, functions, linkage, frames: object.frame_entries(), relocations, sites }
    }

    /// The word at `vaddr` as the loader leaves it, if it is an address of this object.
    pub fn pointer_at(&self, vaddr: u64) -> Option<u64> {
        if let Ok(index) = self.relocations.binary_search_by_key(&vaddr, |relocation| relocation.vaddr) {
            return Some(self.relocations[index].target);
        }
        if !self.object.is_fixed() {
            return None;
        }
        self.object.bytes_at(vaddr)?.first_chunk().map(|raw| u64::from_le_bytes(*raw))
    }

    /// Addresses inside of `ranges`, their first one apart, that relocated words hold.
    pub fn labels(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        let inside = |target: u64| ranges.iter().any(|range| range.contains(&target) && range.start != target);
        let mut labels: Vec<u64> = self.relocations.iter().map(|r| r.target).filter(|&target| inside(target)).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    /// Follows control through the function.
    pub fn body(&self, function: u32, returning: &mut Returning) -> Body {
        let entry = self.functions.functions()[function as usize].vaddr;
        let ranges = self.functions.ranges(function);
        let mut tables = Vec::new();
        let mut attempts = 0;
        loop {
            let mut walk = Walk::new(self, ranges.clone());
            walk.follow(entry, returning);
            attempts += 1;
            if jump_target::resolve(&mut walk, returning, &mut tables) || attempts == MOST_ATTEMPTS {
                return walk.body;
            }
        }
    }

    /// Functions that hold sites, and those that jump to parts of themselves that hold some and that no name assigns.
    pub fn functions_with_sites(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut orphans = Vec::new();
        for &site in &self.sites {
            match self.functions.containing(site) {
                Some(function) => found.push(function),
                None => orphans.push(site),
            }
        }
        if !orphans.is_empty() {
            found.extend(self.jumping_to(&orphans));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Functions with direct jumps into the code without owner around `orphans`.
    fn jumping_to(&self, orphans: &[u64]) -> Vec<u32> {
        let frame_of =
            |site: &u64| self.frames.iter().find(|frame| frame.range.contains(site)).map(|f| f.range.clone());
        let parts: Vec<Range<u64>> = orphans.iter().filter_map(frame_of).collect();
        let mut found = Vec::new();
        for (index, f) in self.functions.functions().iter().enumerate() {
            let Some(bytes) = self.object.bytes_at(f.vaddr) else { continue };
            let bytes = &bytes[..bytes.len().min(f.size as usize)];
            let decoder = Decoder::with_ip(64, bytes, f.vaddr, DecoderOptions::NONE);
            let leads = |instruction: Instruction| {
                matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
                    && parts.iter().any(|part| part.contains(&instruction.near_branch_target()))
            };
            if decoder.into_iter().any(leads) {
                found.push(index as u32);
            }
        }
        found
    }

    /// Where the direct jump at `vaddr` leads.
    pub fn jump_target(&self, vaddr: u64) -> Option<u64> {
        let instruction = self.decode(vaddr)?;
        (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target())
    }

    /// The instruction at `vaddr`.
    pub fn decode(&self, vaddr: u64) -> Option<Instruction> {
        let bytes = self.object.bytes_at(vaddr)?;
        let mut decoder = Decoder::with_ip(64, &bytes[..bytes.len().min(16)], vaddr, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Landing pads of calls in the code at `range`.
    fn landing_pads(&self, range: &Range<u64>) -> Vec<LandingPad> {
        let first = self.frames.partition_point(|frame| frame.range.end <= range.start);
        let frames = self.frames[first..].iter().take_while(|frame| frame.range.start < range.end);
        let of_frame = |frame: &FrameEntry| self.object.unwinding(frame.range.start, frame.exceptions?);
        frames.filter_map(of_frame).flatten().collect()
    }
}

/// Follows control and collects what it meets.
pub(crate) struct Walk<'a, 'p> {
    pub program: &'p Program<'a>,
    pub body: Body,
    /// Jumps through registers and memory that are not resolved.
    pub indirect: Vec<u32>,
    pads: Vec<LandingPad>,
    /// Jumps whose targets are not decoded yet.
    pending: Vec<(u32, u64, EdgeKind)>,
}

impl<'a, 'p> Walk<'a, 'p> {
    pub fn new(program: &'p Program<'a>, ranges: Vec<Range<u64>>) -> Self {
        let pads = ranges.iter().flat_map(|range| program.landing_pads(range)).collect();
        let body = Body { ranges, ..Body::default() };
        Self { program, body, indirect: Vec::new(), pads, pending: Vec::new() }
    }

    /// True if `vaddr` is in the function as tables know it.
    pub fn is_inside(&self, vaddr: u64) -> bool {
        self.body.ranges.iter().any(|range| range.contains(&vaddr))
    }

    /// Follows control from `entry` on, and everything that it leads to.
    pub fn follow(&mut self, entry: u64, returning: &mut Returning) {
        self.run(entry, returning);
        while let Some((from, target, kind)) = self.pending.pop() {
            self.run(target, returning);
            if let Some(&to) = self.body.at.get(&target) {
                self.body.jumps.push((from, to, kind));
            }
        }
    }

    /// Adds a way from an instruction to `target`.
    pub fn add_jump(&mut self, from: u32, target: u64, kind: EdgeKind) {
        self.pending.push((from, target, kind));
    }

    /// Decodes from `start` to where control doesn't simply go on, or to what is known.
    fn run(&mut self, start: u64, returning: &mut Returning) {
        let program = self.program;
        if self.body.at.contains_key(&start) {
            return;
        }
        let Some(bytes) = program.object.bytes_at(start) else { return };
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() && self.body.steps.len() < MOST_STEPS {
            let vaddr = decoder.ip();
            if self.body.at.contains_key(&vaddr) {
                return;
            }
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return;
            }
            let number = self.body.steps.len() as u32;
            let end = instruction.next_ip();
            self.body.at.insert(vaddr, number);
            self.body.steps.push(Step { vaddr, end, falls: None, exit: None });
            let falls = self.leads(number, &instruction, returning).filter(|_| self.continues(vaddr, end));
            self.body.steps[number as usize].falls = falls;
            if falls.is_none() {
                return;
            }
        }
    }

    /// True if the code behind an instruction may belong to the same function.
    fn continues(&self, vaddr: u64, end: u64) -> bool {
        if self.is_inside(vaddr) { self.is_inside(end) } else { self.program.functions.at(end).is_none() }
    }

    /// Notes where an instruction leads; the answer is how it goes on behind itself.
    fn leads(&mut self, number: u32, instruction: &Instruction, returning: &mut Returning) -> Option<EdgeKind> {
        match instruction.flow_control() {
            FlowControl::Next => Some(EdgeKind::Sure),
            FlowControl::Call | FlowControl::IndirectCall => {
                if is_system_call(instruction) {
                    return Some(EdgeKind::Sure);
                }
                let vaddr = instruction.ip();
                // A site may be a call, which throws nothing, in the middle of calls that do.
                if self.program.sites.binary_search(&vaddr).is_ok() {
                    return Some(EdgeKind::Sure);
                }
                let pads = self.pads.iter().filter(|pad| pad.calls.contains(&vaddr));
                self.pending.extend(pads.map(|pad| (number, pad.pad, EdgeKind::Unwind)));
                self.call(instruction, returning)
            }
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                if instruction.op0_kind() == OpKind::NearBranch64 {
                    self.jump(number, instruction.near_branch_target());
                }
                Some(EdgeKind::Sure)
            }
            FlowControl::UnconditionalBranch => {
                if instruction.op0_kind() == OpKind::NearBranch64 {
                    self.jump(number, instruction.near_branch_target());
                }
                None
            }
            FlowControl::IndirectBranch => {
                self.indirect.push(number);
                None
            }
            FlowControl::Return => {
                self.body.steps[number as usize].exit = Some(Exit::Return);
                None
            }
            // `int` is a system call or a breakpoint; `ud2` and `hlt` end.
            FlowControl::Interrupt => Some(EdgeKind::Sure),
            FlowControl::Exception => None,
        }
    }

    /// A jump to a fixed place: within the function, to a part of it, or to another function.
    fn jump(&mut self, number: u32, target: u64) {
        if !self.is_inside(target) && (self.program.functions.at(target).is_some() || self.is_stub(target)) {
            self.body.steps[number as usize].exit = Some(Exit::TailCall);
            return;
        }
        self.pending.push((number, target, EdgeKind::Sure));
    }

    fn is_stub(&self, target: u64) -> bool {
        slot_of_stub(self.program.object, target).is_some()
    }

    fn call(&self, instruction: &Instruction, returning: &mut Returning) -> Option<EdgeKind> {
        let returns = match instruction.code() {
            Code::Call_rel32_64 => returning.returns(self.program, instruction.near_branch_target()),
            Code::Call_rm64 if instruction.memory_base() == Register::RIP => {
                returning.returns_through(self.program, instruction.ip_rel_memory_address())
            }
            _ => return Some(EdgeKind::Doubtful),
        };
        returns.then_some(EdgeKind::Sure)
    }
}

fn is_system_call(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Syscall | Code::Sysenter)
}
