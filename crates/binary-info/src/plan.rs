//! The linkage plan: for each function slot of an object, how its code uses the slot.
//!
//! A slot that code only calls through can be hooked by replacing its word (Scaler, ASE '24, section 3.2, replaces
//! them all); one that code also reads as a pointer cannot, because programs compare function pointers and expect the
//! address that every other object sees.
//!
//! The analysis scans all executable bytes for displacements that lead to a slot. `call *slot(%rip)` and
//! `jmp *slot(%rip)` are recognised by their bytes; the other candidates are decoded from the start of their function,
//! since only there are instruction boundaries known; a load whose value is only called counts as a call. Where boundaries are unclear the slot counts as loaded: a slot
//! wrongly hooked changes the program, one wrongly left alone is merely counted as unhooked.
//!
//! A jump through a slot is a tail call only if a return address lies on top of the stack. Compilers with a calling
//! convention of their own (GHC keeps its stack in `rbp` and has a frame of C's at `rsp`) jump without one, and describe no
//! frames: slots that code without a frame description jumps through are left alone.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use transect_event_abi::plan::{PLAN_MAGIC, PLAN_VERSION, PlanHeader, PlanReloc, PlanSite, PlanSum, SlotUse};

use crate::call_target::Function;
use crate::code::{Functions, Stretch};
use crate::landing_pad::landing_pads;
use crate::linkage::{LinkageSlot, RelocationTable};
use crate::{BinaryError, Object, scan};

/// Within this distance of the slots the start of the global offset table is searched for along with them.
const NEAR: u64 = 1 << 20;

/// The use that an object's code makes of its function slots; the contents of a plan file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// One record for each function relocation.
    pub relocs: Vec<PlanReloc>,
    /// Call sites of the slots that are both called and loaded, by relocation.
    pub sites: Vec<PlanSite>,
}

/// One place in code that may refer to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Address of the displacement (or immediate).
    at: u64,
    /// Index in the list of slot addresses.
    slot: usize,
    /// True if the bytes before the displacement are those of an indirect call or jump.
    call: bool,
    /// True if they are those of an indirect jump.
    jump: bool,
    /// True for an absolute address in a fixed executable.
    absolute: bool,
}

/// What an instruction does with the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// Not a reference after all.
    None,
    /// Calls or jumps through it.
    Call,
    /// Compares it with zero: tells whether a weak function exists, not which one it is.
    NullTest,
    /// Loads it into a register.
    Register(Register),
    /// Reads or computes its address.
    Load,
}

/// Finds the use of every function slot of `object`.
///
/// Objects without dynamic linkage have an empty plan.
pub fn analyze(object: &Object) -> Plan {
    let slots = object.linkage_slots();
    let mut addresses: Vec<u64> = slots.iter().map(|s| s.vaddr).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let uses = slot_uses(object, &addresses);
    let mut plan = Plan::default();
    for slot in &slots {
        let index = addresses.binary_search(&slot.vaddr).unwrap_or_default();
        plan.push(slot, &uses[index]);
    }
    plan
}

/// References to one slot.
#[derive(Debug, Clone, Default)]
struct Uses {
    calls: usize,
    loads: usize,
    /// Displacements of verified `call *slot(%rip)` and `jmp *slot(%rip)`; only collected if there are loads.
    sites: Vec<u64>,
    /// A call whose displacement can't be redirected (absolute).
    fixed_calls: usize,
    /// A jump that may have no return address on the stack.
    bare_jumps: usize,
}

fn slot_uses(object: &Object, addresses: &[u64]) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); addresses.len()];
    let mut unclear = vec![false; addresses.len()];
    let mut candidates = Vec::new();
    for segment in object.segments.iter().filter(|s| s.executable) {
        let Some(code) = object.file_bytes(segment.file_offset, segment.file_size) else { continue };
        collect(object, code, segment.vaddr, addresses, &mut candidates, &mut unclear);
    }
    // Only where something besides calls refers to a slot do instruction boundaries matter.
    let mut needs_decoding = vec![false; addresses.len()];
    for candidate in &candidates {
        needs_decoding[candidate.slot] |= !candidate.call;
    }
    candidates.sort_unstable();
    let linkage = object.linkage_tables();
    let in_code = |at: u64| !linkage.is_empty() && !linkage.iter().any(|table| table.contains(&at));
    let jumps: Vec<(usize, u64)> =
        candidates.iter().filter(|c| c.jump && in_code(c.at)).map(|c| (c.slot, c.at)).collect();
    let functions = (needs_decoding.contains(&true) || !jumps.is_empty()).then(|| Functions::of(object));
    let (plain, checked): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|c| !needs_decoding[c.slot]);
    for candidate in plain {
        uses[candidate.slot].calls += 1;
    }
    if let Some(functions) = functions {
        verify(object, &functions, &checked, addresses, &mut uses);
        for (slot, at) in jumps {
            uses[slot].bare_jumps += usize::from(functions.stretch(at).is_some_and(|stretch| !stretch.certain));
        }
    }
    for (slot, unclear) in uses.iter_mut().zip(unclear) {
        slot.loads += usize::from(unclear);
    }
    uses
}

/// Adds the candidates in one executable segment.
fn collect(
    object: &Object,
    code: &[u8],
    start: u64,
    addresses: &[u64],
    candidates: &mut Vec<Candidate>,
    unclear: &mut [bool],
) {
    let (Some(&first), Some(&last)) = (addresses.first(), addresses.last()) else { return };
    let before = |p: usize, back: usize| p.checked_sub(back).map_or(0, |q| code[q]);
    let table = object.dynamic.as_ref().map_or(0, |d| d.global_offset_table);
    let mut table_taken = false;
    // lea _GLOBAL_OFFSET_TABLE_(%rip),%reg, its displacement at `p`
    let takes = |p: usize| {
        let Some(&[a, b, c, d]) = code.get(p..p + 4) else { return false };
        let target = (start + p as u64 + 4).wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])));
        before(p, 2) == 0x8d && before(p, 1) & 0xc7 == 0x05 && target == table
    };
    // The displacement counts from the end of the instruction: 4 bytes on, and an immediate of up to 4 bytes.
    let low = if table < first && first - table < NEAR { table } else { first };
    scan::displacements(code, start, low.saturating_sub(8)..last.saturating_sub(3), |p| {
        // ModRM with mode 0 and base 5: relative to the instruction pointer.
        let modrm = before(p, 1);
        if modrm & 0xc7 != 0x05 {
            return;
        }
        let at = start + p as u64;
        let displacement = i32::from_le_bytes([code[p], code[p + 1], code[p + 2], code[p + 3]]);
        let target = at.wrapping_add(4).wrapping_add_signed(i64::from(displacement));
        let call = before(p, 2) == 0xff && matches!(modrm, 0x15 | 0x25);
        // Twice in a row: not the table, but `__TMC_END__` of GCC's start files, which lld puts at the same address.
        table_taken |= takes(p) && !takes(p + 7) && !p.checked_sub(7).is_some_and(takes);
        for immediate in [0, 1, 2, 4] {
            if let Ok(slot) = addresses.binary_search(&target.wrapping_add(immediate)) {
                let call = call && immediate == 0;
                candidates.push(Candidate { at, slot, call, jump: call && modrm == 0x25, absolute: false });
            }
        }
    });
    if object.is_fixed() {
        scan::addresses(code, first..last.saturating_add(1), |p| {
            let address = u32::from_le_bytes([code[p], code[p + 1], code[p + 2], code[p + 3]]);
            if let Ok(slot) = addresses.binary_search(&u64::from(address)) {
                let call = before(p, 3) == 0xff && matches!(before(p, 2), 0x14 | 0x24) && before(p, 1) == 0x25;
                candidates.push(Candidate { at: start + p as u64, slot, call, jump: false, absolute: true });
            }
        });
    }
    if table_taken {
        collect_by_distance(code, table, addresses, unclear);
    }
    // Large code models reach slots by 64-bit constants: the address itself, or its distance from the offset table.
    scan::wide_immediates(code, |p| {
        let Some(raw) = code.get(p..).and_then(|rest| rest.first_chunk()) else { return };
        let value = u64::from_le_bytes(*raw);
        for address in [value, value.wrapping_add(table)] {
            if let Ok(slot) = addresses.binary_search(&address) {
                unclear[slot] = true;
            }
        }
    });
}

/// Marks the slots that code seems to reach by their distance from the global offset table, in a register.
fn collect_by_distance(code: &[u8], table: u64, addresses: &[u64], unclear: &mut [bool]) {
    let (Some(&first), Some(&last)) = (addresses.first(), addresses.last()) else { return };
    let low = u64::from(first.wrapping_sub(table) as u32);
    scan::addresses(code, low..low.saturating_add(last - first).saturating_add(1), |p| {
        // ModRM with mode 2: a register and a 32-bit displacement; perhaps with a scaled index between.
        let with_displacement = |back: usize| p.checked_sub(back).is_some_and(|q| code[q] & 0xc0 == 0x80);
        let distance = i32::from_le_bytes([code[p], code[p + 1], code[p + 2], code[p + 3]]);
        let slot = addresses.binary_search(&table.wrapping_add_signed(i64::from(distance)));
        if let (true, Ok(slot)) = (with_displacement(1) || with_displacement(2), slot) {
            unclear[slot] = true;
        }
    });
}

/// Decodes the functions that hold `candidates` (sorted by address) and books what they turn out to be.
fn verify(object: &Object, functions: &Functions, candidates: &[Candidate], addresses: &[u64], uses: &mut [Uses]) {
    let mut rest = candidates;
    while let Some(first) = rest.first() {
        let Some(stretch) = functions.stretch(first.at) else {
            // Mapped executable, but not of an executable section: headers, and tables (relocations hold the slots'
            // addresses) where the linker did not set code apart.
            rest = &rest[1..];
            continue;
        };
        let count = rest.partition_point(|c| c.at < stretch.range.end).max(1);
        let (here, later) = rest.split_at(count);
        verify_stretch(object, &stretch, here, addresses, uses);
        rest = later;
    }
}

fn verify_stretch(object: &Object, stretch: &Stretch, candidates: &[Candidate], addresses: &[u64], uses: &mut [Uses]) {
    let size = (stretch.range.end - stretch.range.start) as usize;
    let code = object.bytes_at(stretch.range.start).unwrap_or(&[]);
    let code = &code[..code.len().min(size)];
    let mut decoder = Decoder::with_ip(64, code, stretch.range.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut function = None;
    let mut rest = candidates;
    while let Some(candidate) = rest.first() {
        if !decoder.can_decode() || decoder.ip() > candidate.at {
            rest = &rest[1..];
            book(candidate, Reference::None, stretch, uses);
            continue;
        }
        decoder.decode_out(&mut instruction);
        while let Some(candidate) = rest.first().filter(|c| c.at < instruction.next_ip()) {
            let mut reference = reference(&decoder, &instruction, candidate, addresses[candidate.slot]);
            if let Reference::Register(register) = reference {
                let function = function.get_or_insert_with(|| decode_function(object, code, stretch));
                let called = stretch.certain && function.only_called(instruction.ip(), register);
                reference = if called { Reference::Call } else { Reference::Load };
            }
            book(candidate, reference, stretch, uses);
            rest = &rest[1..];
        }
    }
}

fn decode_function(object: &Object, code: &[u8], stretch: &Stretch) -> Function {
    let pads = match stretch.exceptions {
        None => Some(Vec::new()),
        Some(at) => object.bytes_at(at).and_then(|bytes| landing_pads(bytes, stretch.range.start)),
    };
    Function::decode(code, stretch, pads)
}

fn book(candidate: &Candidate, reference: Reference, stretch: &Stretch, uses: &mut [Uses]) {
    let uses = &mut uses[candidate.slot];
    match reference {
        Reference::Call if candidate.absolute => {
            uses.calls += 1;
            uses.fixed_calls += 1;
        }
        Reference::Call => {
            uses.calls += 1;
            uses.sites.push(candidate.at);
        }
        Reference::NullTest => {}
        Reference::Load | Reference::Register(_) => uses.loads += 1,
        // Outside of described functions the decoding may have started at the wrong byte.
        Reference::None if !stretch.certain => uses.loads += 1,
        Reference::None => {}
    }
}

/// What `instruction`, which spans the candidate's displacement, does with the slot at `address`.
fn reference(decoder: &Decoder<'_>, instruction: &Instruction, candidate: &Candidate, address: u64) -> Reference {
    let offsets = decoder.get_constant_offsets(instruction);
    let delta = (candidate.at - instruction.ip()) as usize;
    let in_displacement = offsets.has_displacement() && offsets.displacement_offset() == delta;
    let in_immediate = offsets.has_immediate() && offsets.immediate_offset() == delta;
    if candidate.absolute && in_immediate {
        return Reference::Load;
    }
    let hits = in_displacement
        && if instruction.is_ip_rel_memory_operand() {
            !candidate.absolute && instruction.ip_rel_memory_address() == address
        } else {
            candidate.absolute && instruction.memory_displacement64() == address
        };
    if !hits {
        return Reference::None;
    }
    match instruction.code() {
        Code::Call_rm64 | Code::Jmp_rm64 => Reference::Call,
        Code::Cmp_rm64_imm8 | Code::Cmp_rm64_imm32
            if instruction.op0_kind() == OpKind::Memory && instruction.immediate(1) == 0 =>
        {
            Reference::NullTest
        }
        Code::Mov_r64_rm64 => Reference::Register(instruction.op0_register()),
        _ => Reference::Load,
    }
}

impl Plan {
    fn push(&mut self, slot: &LinkageSlot, uses: &Uses) {
        let slot_use = match (uses.calls, uses.loads) {
            (0, 0) => SlotUse::Unreferenced,
            _ if uses.bare_jumps > 0 => SlotUse::Loaded,
            (_, 0) => SlotUse::Called,
            (0, _) => SlotUse::Loaded,
            // Lazy binding would undo a redirected site's target, and an absolute call has no displacement to redirect.
            _ if slot.jump_slot || uses.fixed_calls > 0 => SlotUse::Loaded,
            _ => SlotUse::CalledAndLoaded,
        };
        let first_site = self.sites.len() as u32;
        if slot_use == SlotUse::CalledAndLoaded {
            self.sites.extend(uses.sites.iter().map(|&displacement_vaddr| PlanSite { displacement_vaddr }));
        }
        let site_count = self.sites.len() as u32 - first_site;
        self.relocs.push(PlanReloc {
            table: match slot.table {
                RelocationTable::JmpRel => 0,
                RelocationTable::Rela => 1,
            },
            index: slot.index,
            slot_use: slot_use as u32,
            first_site,
            site_count,
            reserved: 0,
        });
    }

    /// The plan as a file's bytes, in the layout of [`transect_event_abi::plan`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = size_of::<PlanHeader>() + size_of_val(&self.relocs[..]) + size_of_val(&self.sites[..]);
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(PLAN_MAGIC.to_le_bytes());
        for word in [PLAN_VERSION, self.relocs.len() as u32, self.sites.len() as u32, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for r in &self.relocs {
            for word in [r.table, r.index, r.slot_use, r.first_site, r.site_count, r.reserved] {
                bytes.extend(word.to_le_bytes());
            }
        }
        for site in &self.sites {
            bytes.extend(site.displacement_vaddr.to_le_bytes());
        }
        let sum = sum(&bytes[size_of::<PlanHeader>()..], self.relocs.len(), self.sites.len());
        bytes[SUM_AT..][..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Inverse of [`Plan::to_bytes`].
    ///
    /// # Errors
    /// [`BinaryError::NotAPlan`] if the bytes are of another version, cut short, or refer to sites they don't hold.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BinaryError> {
        let word = |at: usize| {
            let raw = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(BinaryError::NotAPlan("cut short"))?;
            Ok::<u32, BinaryError>(u32::from_le_bytes(*raw))
        };
        if !bytes.starts_with(&PLAN_MAGIC.to_le_bytes()) {
            return Err(BinaryError::NotAPlan("another kind of file"));
        }
        if word(8)? != PLAN_VERSION {
            return Err(BinaryError::NotAPlan("another version"));
        }
        let (reloc_count, site_count) = (word(12)? as usize, word(16)? as usize);
        let relocs_at = size_of::<PlanHeader>();
        let sites_at = relocs_at + reloc_count * size_of::<PlanReloc>();
        if bytes.len() != sites_at + site_count * size_of::<PlanSite>() {
            return Err(BinaryError::NotAPlan("its length is not what its counts say"));
        }
        if word(SUM_AT)? != sum(&bytes[relocs_at..], reloc_count, site_count) {
            return Err(BinaryError::NotAPlan("its sum is not that of its records"));
        }
        let mut plan = Self::default();
        for at in (relocs_at..sites_at).step_by(size_of::<PlanReloc>()) {
            let reloc = PlanReloc {
                table: word(at)?,
                index: word(at + 4)?,
                slot_use: word(at + 8)?,
                first_site: word(at + 12)?,
                site_count: word(at + 16)?,
                reserved: word(at + 20)?,
            };
            let sites_end = u64::from(reloc.first_site) + u64::from(reloc.site_count);
            if reloc.table > 1 || !(1..=4).contains(&reloc.slot_use) || sites_end > site_count as u64 {
                return Err(BinaryError::NotAPlan("a record is out of range"));
            }
            plan.relocs.push(reloc);
        }
        for at in (sites_at..bytes.len()).step_by(size_of::<PlanSite>()) {
            let displacement_vaddr = u64::from(word(at)?) | u64::from(word(at + 4)?) << 32;
            plan.sites.push(PlanSite { displacement_vaddr });
        }
        Ok(plan)
    }
}

const SUM_AT: usize = std::mem::offset_of!(PlanHeader, sum);

/// What a plan's header says of its records.
fn sum(records: &[u8], reloc_count: usize, site_count: usize) -> u32 {
    let (words, _) = records.as_chunks();
    words
        .iter()
        .fold(PlanSum::of_counts(reloc_count as u32, site_count as u32), |sum, word| {
            sum.with(u64::from_le_bytes(*word))
        })
        .value()
}
