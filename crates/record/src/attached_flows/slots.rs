//! Slots that lead to stubs: written and put back while all threads stand.

use std::collections::BTreeMap;
use std::mem::offset_of;

use transect_attach::{AttachError, Memory, Target};
use transect_event_abi::process::{
    OBJECT_GONE, OBJECTS_OFFSET, ObjectRecord, ProcessHeader, SLOT_CAPACITY, SLOTS_OFFSET, SlotRecord,
};

use super::objects::{Candidate, Objects, places as places_of_code};
use super::places::{PROCESS, Places};
use crate::arena::Arena;
use crate::error::RecordError;

/// Words so far apart are read together.
const NEAR: u64 = 4096;
/// A word below it was never an address: what the linker wrote into a slot that the loader has not touched.
const LOWEST: u64 = 1 << 32;
/// Bytes read at once, at most.
const MOST: u64 = 1 << 20;

/// What a slot turned out to hold.
enum Verdict {
    /// A function of this other object.
    Bound(usize),
    /// A function of its own object: no call between components.
    Internal,
    /// Not what the loader will put there: it comes later, if ever.
    Unbound,
    /// An entry that leads on through another slot: its calls are counted there.
    PassedOn,
}

/// The slots of a process.
#[derive(Debug)]
pub struct Slots {
    /// Numbers given; 0 is never used.
    count: u32,
    /// Slots that the loader has not bound, with what they held when they were last looked at.
    unbound: Vec<(Candidate, u64)>,
    /// Slots that got no number.
    pub refused: u64,
    /// By object: slots hooked after the begin.
    pub late: Vec<(usize, u64)>,
}

impl Slots {
    /// None yet.
    pub fn new() -> Self {
        Self { count: 1, unbound: Vec::new(), refused: 0, late: Vec::new() }
    }

    /// Slots not bound so far that are now, outside of any stop.
    pub fn bound_since(&mut self, target: &Target, objects: &Objects) -> Vec<Candidate> {
        let places: Vec<u64> = self.unbound.iter().map(|(candidate, _)| candidate.address).collect();
        let mut values = read_words(target.memory(), &places).into_iter();
        let mut bound = Vec::new();
        self.unbound.retain_mut(|(candidate, before)| {
            let value = values.next().flatten().unwrap_or(0);
            let changed = std::mem::replace(before, value) != value;
            let is = changed && matches!(verdict(objects, candidate, value), Verdict::Bound(_) | Verdict::Internal);
            if is {
                bound.push(*candidate);
            }
            !is
        });
        bound
    }

    /// Slots, by object, that lead where no object is that could be looked into.
    pub fn lead_elsewhere(&self, objects: &Objects) -> Vec<(usize, u64)> {
        let is_elsewhere = |&&(_, value): &&(Candidate, u64)| value > LOWEST && objects.at(value).is_none();
        let mut counts = BTreeMap::new();
        for (candidate, _) in self.unbound.iter().filter(is_elsewhere) {
            if objects.all()[candidate.caller].is_loaded() {
                *counts.entry(candidate.caller).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// Leads slots that are bound to their stubs, in one stop of all threads. `late`: the recording has begun.
    ///
    /// # Errors
    /// If threads can't be stopped, or the process ends.
    pub fn hook(
        &mut self,
        target: &Target,
        places: &Places,
        arena: &Arena,
        objects: &mut Objects,
        mut candidates: Vec<Candidate>,
        late: bool,
    ) -> Result<(), RecordError> {
        if candidates.is_empty() {
            return Ok(());
        }
        candidates.sort_unstable_by_key(|candidate| candidate.address);
        let stop = match target.stop_all() {
            Ok(stop) => stop,
            Err(error) => {
                // Another time.
                self.unbound.extend(candidates.into_iter().map(|candidate| (candidate, 0)));
                return Err(error.into());
            }
        };
        // What was looked at may be gone, and something else be there.
        let there = places_of_code(&target.mappings()?);
        candidates.retain(|candidate| objects.get(candidate.caller).is_in(&there));
        let addresses: Vec<u64> = candidates.iter().map(|candidate| candidate.address).collect();
        let values = read_words(target.memory(), &addresses);
        let (mut hooks, first) = (Vec::new(), self.count);
        for (candidate, value) in candidates.into_iter().zip(values) {
            let Some(value) = value else { continue };
            match verdict(objects, &candidate, value) {
                Verdict::Bound(callee) => {
                    let callee_there = objects.get(callee).is_kernels() || objects.get(callee).is_in(&there);
                    if !callee_there || self.count as usize >= SLOT_CAPACITY {
                        self.refused += u64::from(callee_there);
                        continue;
                    }
                    hooks.push((self.count, candidate, callee, value));
                    self.count += 1;
                }
                Verdict::Internal => objects.get(candidate.caller).internal += 1,
                Verdict::PassedOn => objects.get(candidate.caller).refused += 1,
                Verdict::Unbound => self.unbound.push((candidate, value)),
            }
        }
        let memory = target.memory();
        let targets: Vec<u8> = hooks.iter().flat_map(|hook| hook.3.to_le_bytes()).collect();
        memory.write(places.target(first), &targets)?;
        // Before a slot leads to us: whoever puts it back must know it.
        let records: Vec<u8> =
            hooks.iter().flat_map(|(_, candidate, callee, value)| record(candidate, *callee, *value)).collect();
        arena.write(PROCESS, SLOTS_OFFSET + first as usize * size_of::<SlotRecord>(), &records)?;
        arena.write(PROCESS, offset_of!(ProcessHeader, slot_count), &self.count.to_le_bytes())?;
        let words: Vec<(u64, u64)> = hooks.iter().map(|hook| (hook.1.address, places.stub(hook.0))).collect();
        write_words(memory, &words)?;
        drop(stop);
        for (_, candidate, ..) in &hooks {
            objects.get(candidate.caller).hooked += 1;
            if late {
                match self.late.iter_mut().find(|(caller, _)| *caller == candidate.caller) {
                    Some((_, count)) => *count += 1,
                    None => self.late.push((candidate.caller, 1)),
                }
            }
        }
        Ok(())
    }
}

fn verdict(objects: &Objects, candidate: &Candidate, value: u64) -> Verdict {
    match objects.at(value) {
        None => Verdict::Unbound,
        // Its own entry, which lets the loader bind it, or its own function.
        Some(callee) if callee == candidate.caller => {
            if value == candidate.own {
                Verdict::Internal
            } else {
                Verdict::Unbound
            }
        }
        Some(callee) if objects.all()[callee].passes_on(value) => Verdict::PassedOn,
        Some(callee) => Verdict::Bound(callee),
    }
}

fn record(candidate: &Candidate, callee: usize, value: u64) -> Vec<u8> {
    let mut record = vec![0; size_of::<SlotRecord>()];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(offset_of!(SlotRecord, caller), &(candidate.caller as u16).to_le_bytes());
    put(offset_of!(SlotRecord, callee_plus_one), &(callee as u16 + 1).to_le_bytes());
    put(offset_of!(SlotRecord, symbol), &candidate.symbol.to_le_bytes());
    put(offset_of!(SlotRecord, kind), &[candidate.class]);
    put(offset_of!(SlotRecord, target), &value.to_le_bytes());
    put(offset_of!(SlotRecord, address), &candidate.address.to_le_bytes());
    record
}

/// Slots that held their stubs no longer, and were not changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// They hold something new.
    pub others: u64,
    /// They hold their target: the loader was about to bind them when they were hooked.
    pub bound: u64,
}

/// Puts the targets of a process' slots back, whose threads stand.
///
/// # Errors
/// If the process has ended.
pub fn put_back(memory: &Memory, places: &Places, arena: &Arena) -> Result<Changed, AttachError> {
    let slots = hooked(arena);
    let values = read_words(memory, &slots.iter().map(|slot| slot.1).collect::<Vec<_>>());
    let mut back = Vec::new();
    let mut changed = Changed::default();
    for (&(number, address, target, caller), value) in slots.iter().zip(values) {
        match value {
            Some(value) if value == places.stub(number) => back.push((address, target)),
            Some(value) if value == target => changed.bound += 1,
            // What is there after its object has gone is another's.
            Some(_) if !is_gone(arena, caller) => changed.others += 1,
            _ => {}
        }
    }
    write_words(memory, &back)?;
    Ok(changed)
}

/// Whether an object was unloaded.
fn is_gone(arena: &Arena, object: u16) -> bool {
    let at = OBJECTS_OFFSET + usize::from(object) * size_of::<ObjectRecord>() + offset_of!(ObjectRecord, flags);
    u32::from_le_bytes(arena.read(PROCESS, at, 4).try_into().unwrap_or_default()) & OBJECT_GONE != 0
}

/// Number, address, target and calling object of each slot that was hooked, by address.
fn hooked(arena: &Arena) -> Vec<(u32, u64, u64, u16)> {
    let head = arena.read(PROCESS, offset_of!(ProcessHeader, slot_count), 4);
    let count = u32::from_le_bytes(head.try_into().unwrap_or_default()).min(SLOT_CAPACITY as u32);
    let records = arena.read(PROCESS, SLOTS_OFFSET, count as usize * size_of::<SlotRecord>());
    let word = |record: &[u8], at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default());
    let mut slots: Vec<(u32, u64, u64, u16)> = (0..)
        .zip(records.chunks_exact(size_of::<SlotRecord>()))
        .map(|(number, record)| {
            let at = offset_of!(SlotRecord, caller);
            let caller = u16::from_le_bytes([record[at], record[at + 1]]);
            let (address, target) = (offset_of!(SlotRecord, address), offset_of!(SlotRecord, target));
            (number, word(record, address), word(record, target), caller)
        })
        .filter(|slot| slot.1 != 0)
        .collect();
    slots.sort_unstable_by_key(|slot| slot.1);
    slots
}

/// Reads words, whose addresses rise, as few reads as their distances allow; `None` for what is not mapped.
fn read_words(memory: &Memory, addresses: &[u64]) -> Vec<Option<u64>> {
    let mut values = Vec::with_capacity(addresses.len());
    while values.len() < addresses.len() {
        let rest = &addresses[values.len()..];
        let begin = rest[0];
        let together = |pair: &[u64]| pair[1].wrapping_sub(pair[0]) <= NEAR && pair[1].wrapping_sub(begin) < MOST;
        let count = 1 + rest.windows(2).take_while(|pair| together(pair)).count();
        let mut bytes = vec![0; (rest[count - 1] - begin) as usize + 8];
        let read = memory.read_some(begin, &mut bytes);
        values.extend(rest[..count].iter().map(|address| {
            let at = (address - begin) as usize;
            bytes[..read].get(at..at + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        }));
    }
    values
}

/// Writes words, whose addresses rise, neighbours together.
fn write_words(memory: &Memory, words: &[(u64, u64)]) -> Result<(), AttachError> {
    for run in words.chunk_by(|a, b| a.0 + 8 == b.0) {
        let bytes: Vec<u8> = run.iter().flat_map(|word| word.1.to_le_bytes()).collect();
        memory.write(run[0].0, &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_where_they_are() {
        let memory = Memory::open(std::process::id() as i32).unwrap();
        let words: Vec<u64> = (0..4096).collect();
        let address = |index: usize| &raw const words[index] as u64;
        // Neighbours, far ones, and one that is not mapped.
        let places = [16, address(0), address(1), address(7), address(4000), u64::MAX - 4095];
        let places: Vec<u64> = places.into_iter().collect();
        assert_eq!(read_words(&memory, &places), [None, Some(0), Some(1), Some(7), Some(4000), None]);
        write_words(&memory, &[(address(3), 30), (address(4), 40), (address(9), 90)]).unwrap();
        let found: Vec<u64> = [2, 3, 4, 5, 9, 10].into_iter().map(|at| memory.read_u64(address(at)).unwrap()).collect();
        assert_eq!(found, [2, 30, 40, 5, 90, 10]);
    }
}
