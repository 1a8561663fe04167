//! Whether anything in the object leads into a window but its first instruction.
//!
//! All code is searched for direct branches by their bytes at every position: positions whose displacement leads to a
//! byte inside of some window are few, and only those are decoded, from the start of their function, to see whether
//! an instruction stands there. Where decoding meets something that is no instruction (data in the text), what was
//! found counts as a branch. Pointers in data, jump tables and exception tables are held against the same windows.
//!
//! In a stripped object the same search tells functions from their cold parts, which have unwind information of their
//! own: a function is called, or its address is taken, or others end by jumping to it, not under a condition.

use std::collections::{HashMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use transect_binary_info::Object;

use crate::address_set::{AddressSet, SharedSet};
use crate::convention::Conventions;
use crate::displace::JUMP;
use crate::opcode_class::{CLASS, Class, long};
use crate::{Event, FunctionTable, ProviderKind, Refusal, Site, Window, jump_table, parallel};

/// Alignment of functions in optimised code (`-falign-functions`), where they aren't packed for size.
const FUNCTION_ALIGNMENT: u64 = 16;

/// Bytes searched by one thread at a time.
const PIECE: usize = 64 << 10;

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
    /// Jumps from elsewhere to the first address of an entry without name.
    passes: Vec<Hit>,
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
    /// Those of `heads` that are called or whose address is taken.
    called: SharedSet,
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
        called: SharedSet::new(first.start, last),
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
    for (hit, certain) in windows.confirm(object, found.hits) {
        // What may be data is not believed to lead into the middle of an instruction.
        if !certain && !windows.is_start(hit.target) {
            continue;
        }
        let inside = windows.interior.contains(hit.target);
        refuse(hit.target, if inside { Refusal::JumpTargetInside } else { Refusal::EntryIsLoopHead });
    }
    for target in windows.pointers(object) {
        refuse(target, Refusal::JumpTargetInside);
    }
    for index in windows.parts(object, found.passes) {
        refuse(sites[index].vaddr, Refusal::PartOfFunction);
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
    for pad in windows.landing_pads(object) {
        refuse(pad, Refusal::JumpTargetInside);
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
            all.passes.append(&mut part.passes);
            all.indirect.append(&mut part.indirect);
        }
        all
    }

    fn search_piece(&self, start: u64, bytes: &[u8], count: usize, found: &mut Found) {
        for position in 0..count.min(bytes.len()) {
            let at = start + position as u64;
            let rest = &bytes[position..];
            if self.fixed
                && let Some(value) = long(rest, 0).map(|value| u64::from(value as u32))
            {
                // An address in an immediate.
                if self.heads.contains(value) {
                    self.called.insert(value);
                } else if self.interior.contains(value) {
                    found.hits.push(Hit { at, target: value });
                }
            }
            let (length, displacement, kind) = match CLASS[usize::from(bytes[position])] {
                Class::None => continue,
                Class::Short => (2, rest.get(1).map(|&b| i64::from(b.cast_signed())), Leads::Jumps),
                Class::Call => (5, long(rest, 1), Leads::Calls),
                Class::Jump => (5, long(rest, 1), Leads::Jumps),
                Class::Escape if rest.get(1).is_some_and(|b| b & 0xf0 == 0x80) => (6, long(rest, 2), Leads::Jumps),
                Class::Lea if rest.get(1).is_some_and(|b| b & 0xc7 == 0x05) => (6, long(rest, 2), Leads::Calls),
                Class::Transaction if rest.get(1) == Some(&0xf8) => (6, long(rest, 2), Leads::Jumps),
                Class::Group5 => {
                    if rest.get(1).is_some_and(|b| matches!(b, 0xe0..=0xe7 | 0x24)) {
                        found.indirect.push(at);
                    }
                    continue;
                }
                _ => continue,
            };
            let Some(displacement) = displacement else { continue };
            let target = (at + length).wrapping_add_signed(displacement);
            if self.interior.contains(target) {
                found.hits.push(Hit { at, target });
            } else if self.heads.contains(target) {
                match kind {
                    Leads::Calls => self.called.insert(target),
                    Leads::Jumps if self.is_round(at, target) => found.hits.push(Hit { at, target }),
                    Leads::Jumps if self.is_unnamed(target) => found.passes.push(Hit { at, target }),
                    Leads::Jumps => {}
                }
            }
        }
    }

    /// True if the entry at `target` is that of a function without name.
    fn is_unnamed(&self, target: u64) -> bool {
        let function = self.site_at(target).map(|index| self.sites[index].function);
        function.is_some_and(|function| self.table.functions()[function as usize].symbol.is_empty())
    }

    /// Sites at code without name that nobody calls, to which a conditional jump leads, or nothing but one jump, though
    /// it isn't aligned as functions are.
    fn parts(&self, object: &Object, passes: Vec<Hit>) -> Vec<usize> {
        /// Functions that jump there, and whether some jump is conditional: calls aren't.
        #[derive(Default)]
        struct Reached {
            from: HashSet<u64>,
            conditionally: bool,
        }
        let mut reached: HashMap<usize, Reached> = HashMap::new();
        for (pass, _) in self.confirm(object, passes) {
            let Some(index) = self.site_at(pass.target) else { continue };
            let entry = reached.entry(index).or_default();
            entry.from.insert(self.table.decodable_before(pass.at).unwrap_or(0));
            let opcode = object.bytes_at(pass.at).and_then(|bytes| bytes.first()).copied();
            entry.conditionally |= !matches!(opcode, Some(0xe9 | 0xeb));
        }
        let is_part = |(index, site): (usize, &Site)| {
            let f = &self.table.functions()[site.function as usize];
            let candidate = site.event == Event::Entry && site.provider == ProviderKind::Entry && f.symbol.is_empty();
            if !candidate || self.called.contains(f.vaddr) || self.called.contains(site.vaddr) {
                return None;
            }
            let (conditionally, from) = reached.get(&index).map_or((false, 0), |r| (r.conditionally, r.from.len()));
            // Functions are aligned, parts are packed.
            let part = conditionally || from <= 1 && !f.vaddr.is_multiple_of(FUNCTION_ALIGNMENT);
            part.then_some(index)
        };
        self.sites.iter().enumerate().filter_map(is_part).collect()
    }

    /// True if a jump at `at` to `target`, the first address of some entry, comes from the same function.
    fn is_round(&self, at: u64, target: u64) -> bool {
        let Some(index) = self.site_at(target) else { return false };
        let function = self.sites[index].function;
        let f = &self.table.functions()[function as usize];
        (f.vaddr..f.vaddr + f.size).contains(&at) || self.table.containing(at) == Some(function)
    }

    /// True if an instruction begins at `target`, as far as windows know.
    fn is_start(&self, target: u64) -> bool {
        let Some(site) = self.site_at(target).map(|index| &self.sites[index]) else { return true };
        match &site.window {
            Window::Displaced { displaced, .. } => {
                target <= site.vaddr
                    || displaced.starts.iter().any(|(offset, _)| site.vaddr + u64::from(*offset) == target)
            }
            _ => true,
        }
    }

    /// Those hits at which an instruction stands that leads there; true beside it if that is certain.
    fn confirm(&self, object: &Object, hits: Vec<Hit>) -> Vec<(Hit, bool)> {
        let mut hits: Vec<(u64, Hit)> =
            hits.into_iter().filter_map(|hit| Some((self.table.decodable_before(hit.at)?, hit))).collect();
        hits.sort_unstable();
        hits.dedup();
        let groups: Vec<&[(u64, Hit)]> = hits.chunk_by(|a, b| a.0 == b.0).collect();
        parallel::map_pieces(&groups, |group| confirm_from(object, group)).concat()
    }

    /// Landing pads inside of windows.
    fn landing_pads(&self, object: &Object) -> Vec<u64> {
        let tables: Vec<(u64, u64)> = if self.sites.iter().any(|site| site.event == Event::Point) {
            // A point may be in a part that has a table of its own.
            let frames = object.frame_entries();
            frames.iter().filter_map(|f| Some((f.range.start, f.exceptions?))).collect()
        } else {
            let of = |site: &Site| {
                let function = self.table.functions()[site.function as usize].vaddr;
                Some((function, self.table.details(site.function).exceptions?))
            };
            self.sites.iter().filter_map(of).collect()
        };
        let pads = tables.into_iter().filter_map(|(function, at)| object.landing_pads(function, at)).flatten();
        pads.filter(|&pad| self.interior.contains(pad)).collect()
    }

    /// Pointers to the inside of windows, in relocated words or (at fixed addresses) in data; those to entries are noted.
    fn pointers(&self, object: &Object) -> Vec<u64> {
        let mut found = Vec::new();
        let mut look = |target: u64| {
            if self.heads.contains(target) {
                self.called.insert(target);
            } else if self.interior.contains(target) {
                found.push(target);
            }
        };
        object.relative_relocations().iter().for_each(|relocation| look(relocation.target));
        look(object.entry_point());
        if !self.fixed {
            return found;
        }
        for range in object.data_ranges() {
            let start = range.start.next_multiple_of(8);
            let Some(bytes) = object.bytes_at(start) else { continue };
            let words = bytes[..bytes.len().min(range.end.saturating_sub(start) as usize)].chunks_exact(8);
            words.for_each(|word| look(u64::from_le_bytes(word.try_into().unwrap_or_default())));
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
fn confirm_from(object: &Object, group: &[(u64, Hit)]) -> Vec<(Hit, bool)> {
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
                confirmed.push((hit, sound));
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

/// What an instruction does with an address.
enum Leads {
    /// Control goes there and doesn't come back.
    Jumps,
    /// Control goes there and returns, or may go there later.
    Calls,
}
