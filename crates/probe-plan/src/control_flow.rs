//! Whether anything in the object leads into a window but its first instruction.
//!
//! All code is searched for direct branches by their bytes at every position: positions whose displacement leads to a
//! byte inside of some window are few, and only those are decoded, from the start of their function, to see whether
//! an instruction stands there. Where decoding meets something that is no instruction (data in the text), what was
//! found counts as a branch. Pointers in data, jump tables and exception tables are held against the same windows.

use std::collections::HashSet;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use transect_binary_info::Object;

use crate::convention::Conventions;
use crate::displace::JUMP;
use crate::{Event, FunctionTable, Refusal, Site, Window, jump_table, parallel};

/// Bytes searched by one thread at a time.
const PIECE: usize = 64 << 10;

/// One bit for each address of the object's code.
struct AddressSet {
    base: u64,
    bits: Vec<u64>,
}

impl AddressSet {
    fn new(base: u64, end: u64) -> Self {
        Self { base, bits: vec![0; ((end - base) / 64 + 1) as usize] }
    }

    fn insert(&mut self, address: u64) {
        let at = address.wrapping_sub(self.base);
        if let Some(word) = self.bits.get_mut((at / 64) as usize) {
            *word |= 1 << (at % 64);
        }
    }

    #[inline]
    fn contains(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.base);
        self.bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }
}

/// Something that looks like a branch at `at` to `target`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    at: u64,
    target: u64,
}

/// What the search finds.
#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    /// Places that look like a jump through a register or a table.
    indirect: Vec<u64>,
}

/// The windows, and what may lead into them.
struct Windows<'a> {
    sites: &'a [Site],
    table: &'a FunctionTable,
    /// Addresses inside: behind the first instruction start, within the jump.
    interior: AddressSet,
    /// First addresses of entries.
    heads: AddressSet,
    /// Objects at fixed addresses have them in immediates and in data.
    fixed: bool,
}

/// For each site (sorted by address): why it can't be, `None` if it can.
pub(crate) fn examine(object: &Object, table: &FunctionTable, sites: &[Site]) -> Vec<Option<Refusal>> {
    let mut verdicts = vec![None; sites.len()];
    let code = table.code();
    let (Some(first), Some(last)) = (code.first(), code.iter().map(|range| range.end).max()) else {
        return verdicts;
    };
    if sites.is_empty() {
        return verdicts;
    }
    let mut windows = Windows {
        sites,
        table,
        interior: AddressSet::new(first.start, last),
        heads: AddressSet::new(first.start, last),
        fixed: object.is_fixed(),
    };
    for site in sites {
        // Behind the jump nothing is changed, and the last instruction begins under it.
        (site.vaddr + 1..site.vaddr + JUMP as u64).for_each(|inside| windows.interior.insert(inside));
        if let (Event::Entry, Window::Displaced { .. }) = (site.event, &site.window) {
            windows.heads.insert(site.vaddr);
            windows.heads.insert(table.functions()[site.function as usize].vaddr);
        }
    }
    let found = windows.search(object);
    let mut refuse = |target: u64, reason: Refusal| {
        if let Some(index) = windows.site_at(target) {
            verdicts[index].get_or_insert(reason);
        }
    };
    for hit in windows.confirm(object, found.hits) {
        let inside = windows.interior.contains(hit.target);
        refuse(hit.target, if inside { Refusal::JumpTargetInside } else { Refusal::EntryIsLoopHead });
    }
    for target in windows.pointers(object) {
        refuse(target, Refusal::JumpTargetInside);
    }
    let mut unknown = Vec::new();
    for (function, targets) in windows.tables(object, &found.indirect) {
        match targets {
            Some(targets) => targets.into_iter().for_each(|target| refuse(target, Refusal::JumpTargetInside)),
            None => unknown.push(function),
        }
    }
    for (site, verdict) in sites.iter().zip(&mut verdicts) {
        // A label may be anywhere but in the first bytes, which come before the jump.
        if site.event == Event::Point && unknown.binary_search(&site.function).is_ok() {
            verdict.get_or_insert(Refusal::UnknownIndirectJump);
        }
    }
    let mut refuse = |target: u64, reason: Refusal| {
        if let Some(index) = windows.site_at(target) {
            verdicts[index].get_or_insert(reason);
        }
    };
    for site in sites.iter().filter(|site| site.event == Event::Entry) {
        let function = &table.functions()[site.function as usize];
        let exceptions = table.details(site.function).exceptions;
        let pads = exceptions.and_then(|at| object.landing_pads(function.vaddr, at)).unwrap_or_default();
        pads.into_iter().filter(|&pad| windows.interior.contains(pad)).for_each(|pad| {
            refuse(pad, Refusal::JumpTargetInside);
        });
    }
    if Conventions::of(object, table).restarts() {
        // Counted once more each time that the stack grows; the alternative is to count nothing.
        for verdict in verdicts.iter_mut().filter(|v| **v == Some(Refusal::EntryIsLoopHead)) {
            *verdict = None;
        }
    }
    verdicts
}

impl Windows<'_> {
    /// The site whose window, or whose function's first address, `target` is.
    fn site_at(&self, target: u64) -> Option<usize> {
        let next = self.sites.partition_point(|site| site.vaddr <= target);
        let before = next.checked_sub(1).filter(|&i| target < self.sites[i].range().end);
        // An entry's `endbr64` stands before its window.
        before.or_else(|| {
            let after = self.sites.get(next)?;
            (self.table.functions()[after.function as usize].vaddr == target).then_some(next)
        })
    }

    /// Searches all code.
    fn search(&self, object: &Object) -> Found {
        let mut pieces = Vec::new();
        for range in self.table.code() {
            let Some(bytes) = object.bytes_at(range.start) else { continue };
            let size = ((range.end - range.start) as usize).min(bytes.len());
            let bytes = &bytes[..size];
            for (index, _) in bytes.chunks(PIECE).enumerate() {
                let from = index * PIECE;
                // What begins in a piece may reach over its end.
                pieces.push((
                    range.start + from as u64,
                    &bytes[from..size.min(from + PIECE + 16)],
                    PIECE.min(size - from),
                ));
            }
        }
        let parts = parallel::map_pieces(&pieces, |&(start, bytes, count)| {
            let mut found = Found::default();
            self.search_piece(start, bytes, count, &mut found);
            found
        });
        let mut all = Found::default();
        for mut part in parts {
            all.hits.append(&mut part.hits);
            all.indirect.append(&mut part.indirect);
        }
        all
    }

    fn search_piece(&self, start: u64, bytes: &[u8], count: usize, found: &mut Found) {
        for position in 0..count.min(bytes.len()) {
            let class = CLASS[usize::from(bytes[position])];
            if class == Class::None {
                continue;
            }
            let rest = &bytes[position..];
            let at = start + position as u64;
            let mut test = |length: u64, displacement: Option<i64>, call: bool| {
                let Some(displacement) = displacement else { return };
                let target = (at + length).wrapping_add_signed(displacement);
                if self.interior.contains(target) || !call && self.heads.contains(target) && self.is_round(at, target) {
                    found.hits.push(Hit { at, target });
                }
            };
            match class {
                Class::None => {}
                Class::Short => test(2, rest.get(1).map(|&b| i64::from(b.cast_signed())), false),
                Class::Call => test(5, long(rest, 1), true),
                Class::Jump => test(5, long(rest, 1), false),
                // jcc near, xbegin; lea: the opcode's second byte.
                Class::Escape => {
                    if rest.get(1).is_some_and(|b| b & 0xf0 == 0x80) {
                        test(6, long(rest, 2), false);
                    }
                }
                Class::Lea => {
                    if rest.get(1).is_some_and(|b| b & 0xc7 == 0x05) {
                        test(6, long(rest, 2), true);
                    }
                }
                Class::Group5 => {
                    if rest.get(1).is_some_and(|b| matches!(b, 0xe0..=0xe7 | 0x24)) {
                        found.indirect.push(at);
                    }
                }
                Class::Move => {
                    if rest[0] == 0xc7 && rest.get(1) == Some(&0xf8) {
                        test(6, long(rest, 2), true);
                    }
                    if self.fixed {
                        let offset = if rest[0] == 0xc7 { 2 } else { 1 };
                        let value = long(rest, offset).map(|value| u64::from(value as u32));
                        if let Some(target) = value.filter(|&value| self.interior.contains(value)) {
                            found.hits.push(Hit { at, target });
                        }
                    }
                }
            }
        }
    }

    /// True if a jump at `at` to `target`, the first address of some entry, comes from the same function.
    fn is_round(&self, at: u64, target: u64) -> bool {
        let Some(index) = self.site_at(target) else { return false };
        let function = self.sites[index].function;
        let f = &self.table.functions()[function as usize];
        (f.vaddr..f.vaddr + f.size).contains(&at) || self.table.containing(at) == Some(function)
    }

    /// Those hits at which an instruction stands that leads there.
    fn confirm(&self, object: &Object, hits: Vec<Hit>) -> Vec<Hit> {
        let mut hits: Vec<(u64, Hit)> =
            hits.into_iter().filter_map(|hit| Some((self.table.decodable_before(hit.at)?, hit))).collect();
        hits.sort_unstable();
        hits.dedup();
        let groups: Vec<&[(u64, Hit)]> = hits.chunk_by(|a, b| a.0 == b.0).collect();
        parallel::map_pieces(&groups, |group| confirm_from(object, group)).concat()
    }

    /// Pointers to the inside of windows, in relocated words or (at fixed addresses) in data.
    fn pointers(&self, object: &Object) -> Vec<u64> {
        let relocated = object.relative_relocations();
        let mut found: Vec<u64> =
            relocated.iter().map(|r| r.target).filter(|&target| self.interior.contains(target)).collect();
        if !self.fixed {
            return found;
        }
        for range in object.data_ranges() {
            let start = range.start.next_multiple_of(8);
            let Some(bytes) = object.bytes_at(start) else { continue };
            let words = bytes[..bytes.len().min((range.end - start) as usize)].chunks_exact(8);
            let values = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            found.extend(values.filter(|&value| self.interior.contains(value)));
        }
        found
    }

    /// For each function with an indirect jump, sorted: entries of its jump tables that lead into windows, `None` if
    /// no table was found.
    fn tables(&self, object: &Object, indirect: &[u64]) -> Vec<(u32, Option<Vec<u64>>)> {
        let mut functions: Vec<u32> = indirect.iter().filter_map(|&at| self.table.containing(at)).collect();
        functions.sort_unstable();
        functions.dedup();
        let with_site: HashSet<u32> = self.sites.iter().map(|site| site.function).collect();
        functions.retain(|function| with_site.contains(function));
        parallel::map_pieces(&functions, |&function| {
            let f = &self.table.functions()[function as usize];
            let targets = jump_table::targets(object, f.vaddr..f.vaddr + f.size);
            let inside = |list: Vec<u64>| list.into_iter().filter(|&target| self.interior.contains(target)).collect();
            (function, targets.map(inside))
        })
    }
}

/// Decodes from the start of a group on, to the last of its places.
fn confirm_from(object: &Object, group: &[(u64, Hit)]) -> Vec<Hit> {
    let mut confirmed = Vec::new();
    let Some((from, _)) = group.first() else { return confirmed };
    let Some(bytes) = object.bytes_at(*from) else { return confirmed };
    let mut decoder = Decoder::with_ip(64, bytes, *from, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut sound = true;
    let mut waiting = group.iter().map(|(_, hit)| *hit).peekable();
    while let Some(&hit) = waiting.peek() {
        if !decoder.can_decode() {
            break;
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            sound = false;
        }
        let end = instruction.next_ip();
        if end <= hit.at {
            continue;
        }
        // The place may be behind a prefix of the instruction's.
        while let Some(hit) = waiting.next_if(|hit| hit.at < end) {
            if !sound || leads(&instruction, hit.target) {
                confirmed.push(hit);
            }
        }
    }
    confirmed
}

/// True if the instruction branches to `target` or makes a pointer to it.
fn leads(instruction: &Instruction, target: u64) -> bool {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch
        | FlowControl::UnconditionalBranch
        | FlowControl::Call
        | FlowControl::XbeginXabortXend => {
            instruction.op0_kind() == OpKind::NearBranch64 && instruction.near_branch_target() == target
        }
        _ if instruction.code() == Code::Lea_r64_m => {
            instruction.memory_base() == Register::RIP && instruction.ip_rel_memory_address() == target
        }
        _ => (0..instruction.op_count()).any(|operand| {
            matches!(instruction.op_kind(operand), OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64)
                && instruction.immediate(operand) == target
        }),
    }
}

fn long(bytes: &[u8], at: usize) -> Option<i64> {
    let raw = bytes.get(at..at + 4)?.first_chunk()?;
    Some(i32::from_le_bytes(*raw).into())
}

/// What a first opcode byte may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    None,
    Short,
    Call,
    Jump,
    Escape,
    Lea,
    Group5,
    Move,
}

const CLASS: [Class; 256] = {
    let mut class = [Class::None; 256];
    let mut byte = 0x70;
    while byte <= 0x7f {
        class[byte] = Class::Short;
        byte += 1;
    }
    byte = 0xe0;
    while byte <= 0xe3 {
        class[byte] = Class::Short;
        byte += 1;
    }
    byte = 0xb8;
    while byte <= 0xbf {
        class[byte] = Class::Move;
        byte += 1;
    }
    class[0xeb] = Class::Short;
    class[0xe8] = Class::Call;
    class[0xe9] = Class::Jump;
    class[0x0f] = Class::Escape;
    class[0x8d] = Class::Lea;
    class[0xff] = Class::Group5;
    class[0x68] = Class::Move;
    class[0xc7] = Class::Move;
    class
};
