//! The objects of the process as components, and the slots through which their code only calls.

use std::collections::HashSet;
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use transect_attach::{Mapping, Reach, Target};
use transect_binary_info::{Object, Plan, PlanCache, RelocationTable};
use transect_event_abi::api_table::{class, handler};
use transect_event_abi::plan::SlotUse;
use transect_event_abi::process::{
    OBJECT_CAPACITY, OBJECT_EXECUTABLE, OBJECT_GONE, OBJECT_HOOKED, OBJECT_NO_PLAN, OBJECT_SYNTHETIC, ObjectRecord,
};

use super::references;
use crate::api_data::ApiData;
use crate::error::RecordError;
use crate::probe_session::{KnownMappings, UnreadableObject, load};

/// An executable mapping: start, and file.
type Place = (u64, (u32, u32), u64);

/// One object.
#[derive(Debug)]
pub struct Component {
    path: PathBuf,
    build_id: Vec<u8>,
    flags: u32,
    bias: u64,
    reach: Reach,
    /// Its executable mappings, none once it is gone.
    code: Vec<Reach>,
    identity: ((u32, u32), u64),
    /// Where other objects' calls lead that a fixed executable passes on by its own slots.
    passed_on: HashSet<u64>,
    /// Slots by what became of them.
    pub hooked: u32,
    /// Slots left because code loads what is in them.
    pub address_taken: u32,
    /// Slots left for their calling convention, or for want of numbers.
    pub refused: u32,
    /// Slots left for want of a plan.
    pub unplanned: u32,
    /// Slots whose calls stay inside.
    pub internal: u32,
}

/// A slot that may get a stub.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Index of its object.
    pub caller: usize,
    /// Its address.
    pub address: u64,
    /// Index of its symbol.
    pub symbol: u32,
    /// The API's class.
    pub class: u8,
    /// The calling object's own definition of the symbol, 0 if it has none.
    pub own: u64,
}

/// All objects that were seen.
#[derive(Debug, Default)]
pub struct Objects {
    components: Vec<Component>,
    /// Objects whose calls are not counted, and why.
    pub unreadable: Vec<UnreadableObject>,
    known: KnownMappings,
    /// Executable mappings by address, with the index of their object.
    code: Vec<(Reach, usize)>,
}

impl Objects {
    /// Looks at what is mapped; gives the slots of objects that are new.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn look(&mut self, target: &Target, plans: &PlanCache, apis: &ApiData) -> Result<Vec<Candidate>, RecordError> {
        let mappings = target.mappings()?;
        let there = places(&mappings);
        self.known.retain(|(start, (device, inode))| there.contains(&(*start, *device, *inode)));
        for component in self.components.iter_mut().filter(|c| c.flags & OBJECT_SYNTHETIC == 0) {
            if !component.is_in(&there) {
                component.code.clear();
                component.flags |= OBJECT_GONE;
            }
        }
        if self.components.is_empty() {
            self.components.extend(mappings.iter().find(|m| m.path == Path::new("[vdso]")).map(kernel_object));
        }
        let executable = std::fs::read_link(format!("/proc/{}/exe", target.task())).unwrap_or_default();
        let (objects, unreadable) = load(target.task(), &mappings, &mut self.known);
        self.unreadable.extend(unreadable);
        let mut found = Vec::new();
        for object in objects {
            if self.components.len() == OBJECT_CAPACITY {
                let reason = format!("{OBJECT_CAPACITY} objects were loaded before it");
                self.unreadable.push(UnreadableObject { path: object.path, reason });
                continue;
            }
            let index = self.components.len();
            let loader = object.object.is_loader();
            let mut component = Component {
                build_id: object.object.build_id().map(|id| bytes_of(&id)).unwrap_or_default(),
                flags: OBJECT_HOOKED
                    | if loader { OBJECT_SYNTHETIC } else { 0 }
                    | if object.path == executable { OBJECT_EXECUTABLE } else { 0 },
                bias: object.bias,
                reach: object.reach,
                code: object.code,
                identity: object.identity,
                passed_on: passed_on(&object.object),
                path: object.path,
                hooked: 0,
                address_taken: 0,
                refused: 0,
                unplanned: 0,
                internal: 0,
            };
            if !loader {
                component.plan(index, &object.object, plans, apis, &mut found);
            }
            self.components.push(component);
        }
        let all = self.components.iter().enumerate();
        self.code = all.flat_map(|(index, c)| c.code.iter().map(move |code| (*code, index))).collect();
        self.code.sort_unstable_by_key(|(code, _)| code.low);
        Ok(found)
    }

    /// The object whose code holds an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        let after = self.code.partition_point(|(code, _)| code.low <= address);
        let (code, index) = self.code.get(after.checked_sub(1)?)?;
        (address < code.high).then_some(*index)
    }

    /// An object.
    pub fn get(&mut self, index: usize) -> &mut Component {
        &mut self.components[index]
    }

    /// All of them, in the order of their numbers.
    pub fn all(&self) -> &[Component] {
        &self.components
    }

    /// Whether no object calls others through linkage slots.
    pub fn have_no_slots(&self) -> bool {
        self.components.iter().all(|c| c.hooked + c.address_taken + c.refused + c.unplanned + c.internal == 0)
    }
}

/// The executable mappings of a process.
pub fn places(mappings: &[Mapping]) -> HashSet<Place> {
    mappings.iter().filter(|m| m.executable).map(|m| (m.start, m.device, m.inode)).collect()
}

/// The kernel's own object, to which some functions of the C library are bound.
fn kernel_object(mapping: &Mapping) -> Component {
    let reach = Reach { low: mapping.start, high: mapping.end };
    Component {
        path: PathBuf::from("linux-vdso.so.1"),
        build_id: Vec::new(),
        flags: OBJECT_HOOKED | OBJECT_SYNTHETIC,
        bias: mapping.start,
        reach,
        code: vec![reach],
        identity: ((0, 0), 0),
        passed_on: HashSet::new(),
        hooked: 0,
        address_taken: 0,
        refused: 0,
        unplanned: 0,
        internal: 0,
    }
}

/// Entries of a fixed executable's procedure linkage table that stand for functions of others.
fn passed_on(object: &Object) -> HashSet<u64> {
    if !object.is_fixed() {
        return HashSet::new();
    }
    let symbols = (0..object.dynamic_symbol_count()).filter_map(|index| object.dynamic_symbol(index));
    symbols.filter(|symbol| !symbol.defined && symbol.address != 0).map(|symbol| symbol.address).collect()
}

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

impl Component {
    /// Whether its code is mapped where it was.
    pub fn is_in(&self, there: &HashSet<Place>) -> bool {
        let (device, inode) = self.identity;
        !self.code.is_empty() && self.code.iter().all(|code| there.contains(&(code.low, device, inode)))
    }

    /// Path as the process sees it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is there still.
    pub fn is_loaded(&self) -> bool {
        !self.code.is_empty()
    }

    /// Whether it is the kernel's, which is never unmapped.
    pub fn is_kernels(&self) -> bool {
        self.identity.1 == 0
    }

    /// Whether an address is one of its entries that lead on to other objects.
    pub fn passes_on(&self, address: u64) -> bool {
        self.passed_on.contains(&address.wrapping_sub(self.bias))
    }

    /// Adds its slots that code only calls through.
    fn plan(&mut self, index: usize, object: &Object, plans: &PlanCache, apis: &ApiData, found: &mut Vec<Candidate>) {
        let plan = plans.ensure_object(object).ok().and_then(|file| Plan::from_bytes(&std::fs::read(file).ok()?).ok());
        if plan.is_none() {
            self.flags |= OBJECT_NO_PLAN;
        }
        let slots = object.linkage_slots();
        let code: Vec<Range<u64>> =
            self.code.iter().map(|c| c.low.wrapping_sub(self.bias)..c.high.wrapping_sub(self.bias)).collect();
        let loaded = references::loaded(object, &code, &slots.iter().map(|slot| slot.vaddr).collect());
        let mut uses = plan.iter().flat_map(|plan| &plan.relocs).peekable();
        for slot in slots {
            let table = u32::from(slot.table == RelocationTable::Rela);
            // Both are in the order of the tables.
            while uses.next_if(|at| (at.table, at.index) < (table, slot.index)).is_some() {}
            let slot_use = uses.peek().filter(|at| (at.table, at.index) == (table, slot.index)).map(|at| at.slot_use);
            let is = |wanted: SlotUse| slot_use == Some(wanted as u32);
            if is(SlotUse::Loaded) || is(SlotUse::CalledAndLoaded) || loaded.contains(&slot.vaddr) {
                self.address_taken += 1;
                continue;
            }
            if table == 1 && !is(SlotUse::Called) {
                self.unplanned += u32::from(plan.is_none());
                continue;
            }
            let Some(symbol) = object.dynamic_symbol(slot.symbol) else { continue };
            let api = apis.get(symbol.name);
            if api.is_some_and(|api| api.handler == handler::REFUSE) {
                self.refused += 1;
                continue;
            }
            let own = if symbol.defined { self.bias.wrapping_add(symbol.address) } else { 0 };
            found.push(Candidate {
                caller: index,
                address: self.bias.wrapping_add(slot.vaddr),
                symbol: slot.symbol,
                class: api.map_or(class::COMPUTE, |api| api.class),
                own,
            });
        }
    }

    /// Its record in the arena.
    pub fn record(&self) -> Vec<u8> {
        let mut record = vec![0; size_of::<ObjectRecord>()];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(ObjectRecord, base), &self.bias.to_le_bytes());
        put(offset_of!(ObjectRecord, start), &self.reach.low.to_le_bytes());
        put(offset_of!(ObjectRecord, end), &self.reach.high.to_le_bytes());
        put(offset_of!(ObjectRecord, flags), &self.flags.to_le_bytes());
        let id = &self.build_id[..self.build_id.len().min(32)];
        put(offset_of!(ObjectRecord, build_id_len), &(id.len() as u32).to_le_bytes());
        put(offset_of!(ObjectRecord, build_id), id);
        for (at, count) in [
            (offset_of!(ObjectRecord, hooked), self.hooked),
            (offset_of!(ObjectRecord, address_taken), self.address_taken),
            (offset_of!(ObjectRecord, refused), self.refused),
            (offset_of!(ObjectRecord, unplanned), self.unplanned),
            (offset_of!(ObjectRecord, internal), self.internal),
        ] {
            put(at, &count.to_le_bytes());
        }
        let path = self.path.as_os_str().as_bytes();
        put(offset_of!(ObjectRecord, path), &path[..path.len().min(919)]);
        record
    }
}
