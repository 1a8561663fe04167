//! Calls that are open when a window begins: found on the stacks of the held threads, and made to look as if their
//! probes had seen them begin. Their return addresses are replaced by the trampolines' return sites, so that their ends
//! are seen.
//!
//! Only what the unwind tables say without a gap is believed: a word that merely looks like a return address is never
//! written. A thread that can't be followed although its stack mentions the function makes the window blind.

use std::ops::Range;

use transect_attach::{HeldRegisters, Mapping, Memory, Stop};

use super::Timable;
use super::held_stack::{FrameRules, HeldStack, OpenCall, OpenCalls, follows_a_call};
use super::thread_scopes::{Noted, ThreadScopes};
use crate::probe_session::{HandlerPlaces, LoadedObject, ProbeSession, contains, shadow_frames};

/// What a search needs to know.
pub struct Search<'a> {
    pub session: &'a ProbeSession,
    pub scopes: ThreadScopes,
    pub parent: &'a Timable,
    /// In the order of their rules.
    pub callees: &'a [Timable],
    /// The trampolines' memory.
    pub regions: &'a [Range<u64>],
    /// The unwinders' code.
    pub unwinders: &'a [Range<u64>],
    pub mappings: &'a [Mapping],
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Threads inside the function.
    pub inside: usize,
    /// Threads that may be inside, but can't be followed.
    pub blind: usize,
    /// (thread pointer, thread).
    pub threads: Vec<(u64, i32)>,
    /// A thread has no thread pointer: handlers can't tell it from others.
    pub unknown: bool,
}

/// The outermost call of the function, and the outermost callee within it, if there is one: (call, which).
type Inside = (OpenCall, Option<(OpenCall, usize)>);

impl Search<'_> {
    /// Looks through all held threads and notes open calls as begun at `start`.
    pub fn adopt(&self, stop: &Stop<'_>, rules: &mut FrameRules, start: u64) -> Found {
        let memory = self.session.target().memory();
        let mut found = Found::default();
        let all: Vec<_> = stop.registers().collect();
        for registers in &all {
            found.threads.push((registers.fs_base, registers.tid));
            found.unknown |= registers.fs_base == 0
                || memory.read_u64(registers.fs_base).is_ok_and(|word| word != registers.fs_base);
        }
        if found.unknown {
            return found;
        }
        for registers in &all {
            let stack = self.stack(registers);
            let here = contains(&self.parent.code, registers.rip);
            if !here && stack.whole && !stack.mentions(&self.parent.code, 0) {
                continue;
            }
            let calls = rules.calls(self.objects(), registers, &stack, &|slot, value| self.true_return(slot, value));
            match self.inside(&calls) {
                // It would meet our return site, and end the program.
                Some((parent, _)) if self.unwinds_through(&calls, parent.slot) => found.blind += 1,
                Some(inside) if self.note(memory, registers.fs_base, inside, start) => found.inside += 1,
                Some(_) => found.blind += 1,
                // Old return addresses lie about on stacks; a gap in the chain with the function above it is another
                // matter.
                None => {
                    let above = calls.calls.last().map_or(0, |call| call.slot);
                    let hidden = !calls.whole && (stack.mentions(&self.parent.code, above) || !stack.whole);
                    found.blind += usize::from(hidden);
                }
            }
        }
        found
    }

    /// Puts a thread's return addresses back. Gives what it has noted, and whether its call is open still.
    pub fn close(&self, registers: &HeldRegisters, rules: &mut FrameRules) -> Option<(Noted, bool)> {
        let memory = self.session.target().memory();
        let noted = self.scopes.of_thread(memory, registers.fs_base)?;
        let (slot, _) = noted.parent_open();
        let mut open = false;
        if slot != 0 {
            let there = memory.read_u64(slot).unwrap_or(0);
            // In a handler or trampoline, the address is about to be put there, or to be taken away.
            open = contains(self.regions, there)
                || contains(self.regions, registers.rip)
                || noted.thrown_at() != 0 && self.is_inside(registers, rules, slot);
            self.put_back(slot, there);
        }
        let (callee, ..) = noted.callee_open();
        if callee != 0 && callee != slot {
            self.put_back(callee, memory.read_u64(callee).unwrap_or(0));
        }
        Some((noted, open))
    }

    /// Puts the true return address back into a slot that holds one of our return sites.
    fn put_back(&self, slot: u64, there: u64) {
        if let Some(address) = self.true_return(slot, there).filter(|&address| address != 0) {
            let _ = self.session.target().memory().write(slot, &address.to_le_bytes());
        }
    }

    /// Whether a thread is still inside the call with this slot.
    fn is_inside(&self, registers: &HeldRegisters, rules: &mut FrameRules, slot: u64) -> bool {
        let stack = self.stack(registers);
        let calls = rules.calls(self.objects(), registers, &stack, &|slot, value| self.true_return(slot, value));
        calls.calls.iter().any(|call| call.slot == slot && contains(&self.parent.code, call.at))
    }

    /// The used part of a thread's stack: up to the end of its mapping, or to its thread control block, which C libraries
    /// put at the end of the stacks that they make.
    fn stack(&self, registers: &HeldRegisters) -> HeldStack<'_> {
        let pointer = registers.general[7];
        let end = self.mappings.iter().find(|m| (m.start..m.end).contains(&pointer)).map_or(0, |m| m.end);
        let end = if (pointer..end).contains(&registers.fs_base) { registers.fs_base & !7 } else { end };
        HeldStack::copy(self.session.target().memory(), pointer, end)
    }

    fn objects(&self) -> &[LoadedObject] {
        &self.session.objects
    }

    fn places(&self) -> &HandlerPlaces {
        &self.session.places
    }

    fn true_return(&self, slot: u64, value: u64) -> Option<u64> {
        if !contains(self.regions, value) {
            return None;
        }
        shadow_frames::return_address(self.session.target().memory(), self.places(), slot)
    }

    /// Whether an unwinder is at work below the call with this slot, past the probe at its entry.
    fn unwinds_through(&self, open: &OpenCalls, slot: u64) -> bool {
        open.calls.iter().any(|call| call.slot < slot && contains(self.unwinders, call.at))
    }

    fn inside(&self, open: &OpenCalls) -> Option<Inside> {
        let calls = &open.calls;
        let outermost = calls.iter().rposition(|call| contains(&self.parent.code, call.at))?;
        // From the outside in: the first callee that returns into the function.
        let callee = (0..outermost).rev().find_map(|i| {
            let which = self.callees.iter().position(|callee| contains(&callee.code, calls[i].at))?;
            contains(&self.parent.code, calls[i].returns_to.wrapping_sub(1)).then_some((calls[i], which))
        });
        Some((calls[outermost], callee))
    }

    /// Makes one thread's calls open. False if that can't be done; nothing is changed then but for shadow frames.
    fn note(&self, memory: &Memory, thread: u64, inside: Inside, start: u64) -> bool {
        let (parent, callee) = inside;
        let mut wanted = vec![(parent, self.parent)];
        wanted.extend(callee.map(|(call, which)| (call, &self.callees[which])));
        // All must be sound before anything is written.
        let sound = |(call, _): &(OpenCall, &Timable)| follows_a_call(memory, call.returns_to);
        if !wanted.iter().all(sound) {
            return false;
        }
        let callee = callee.map(|(call, which)| (call.slot, which));
        for (call, timable) in &wanted {
            let block = self.session.block_address(timable.site);
            if !shadow_frames::open(memory, self.places(), call.slot, call.returns_to, block) {
                return false;
            }
        }
        if !self.scopes.open(memory, thread, parent.slot, callee, start) {
            return false;
        }
        wanted.iter().all(|(call, timable)| {
            let site = self.session.sites[timable.site as usize].return_site;
            memory.write(call.slot, &site.to_le_bytes()).is_ok()
        })
    }
}

/// Whether a held thread is, or will be when its signal handler returns, where a probe may be about to put a return site on
/// its stack (`entries`).
pub fn is_on_the_way(stop: &Stop<'_>, entries: &[Range<u64>]) -> bool {
    stop.positions().map(|(_, at, _)| at).chain(stop.interrupted()).any(|at| contains(entries, at))
}
