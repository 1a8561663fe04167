//! What the code of an object's components, and jumps into them, refer to, and where that is to lead instead.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use transect_binary_info::{Object, ReferenceKind, Transfer};
use transect_event_abi::static_plan::{
    SITE_DIRECT, SITE_OWN_CELL, SITE_OWN_ENTRY, SITE_OWN_SLOT, StaticFixup, StaticSite,
};
use transect_probe_plan::Site;

use super::plan::{Membership, window};
use super::region::{Placed, Region};
use super::stretch::{Stretch, component_at, stretch_at};

/// A call or jump to a function with entry code.
#[derive(Debug, Clone, Copy)]
struct Direct {
    displacement_vaddr: u64,
    /// Where it leads in the file.
    old_target: u64,
    function: u64,
    from: u8,
    jump: bool,
    /// A `SITE_` value.
    kind: u32,
    /// Of the dynamic symbol, if it leads through the object's own linkage.
    symbol: u32,
}

/// A call through linkage, or a load of the slot.
#[derive(Debug, Clone, Copy)]
struct Through {
    displacement_vaddr: u64,
    /// Where it leads in the file.
    old_target: u64,
    /// Calling component and slot.
    twin: (u8, u64),
    /// To the linkage table, not through the slot itself.
    direct: bool,
    load: bool,
}

/// Entries for jumps whose component is known, by that and the function.
#[derive(Default)]
struct KnownJumps(HashMap<(u8, u64), u32>);

impl KnownJumps {
    /// Where code of component `from` gets on to a function of component `own`: inside of it straight to the function, else
    /// with word of who comes.
    fn lead(&mut self, from: u8, own: u8, function: u64, at: Placed, region: &mut Region) -> u32 {
        match own == from {
            true => at.displaced,
            false => *self.0.entry((from, function)).or_insert_with(|| region.add_jump(from, at)),
        }
    }
}

/// What the code of the components, and jumps into them, refer to.
#[derive(Debug, Default)]
pub struct Calls {
    /// Linkage slots by calling component, with their symbols.
    pub twins: BTreeMap<(u8, u64), u32>,
    /// Calls through them.
    through: Vec<Through>,
    /// Direct calls and jumps to functions with entry code.
    direct: Vec<Direct>,
    /// What displaced instructions refer to: linkage entry or slot, and the slot.
    entries: HashMap<u64, u64>,
    /// Functions that may tail-call through a pointer.
    pub indirect_jumpers: HashSet<u64>,
    /// Functions with entry code that the rest of the object jumps to in two bytes, which can't tell who jumps.
    pub too_short: Vec<u64>,
    /// What displaced instructions of a component jump to functions with entry code through, the object's own linkage: the
    /// dynamic symbol and the function.
    pub own_cells: BTreeMap<(u8, u64), (u32, u64)>,
}

impl Calls {
    /// Reads the components' code; `sites` are the functions with entry code.
    pub fn of(object: &Object, stretches: &[Stretch], sites: &BTreeMap<u64, (Site, String)>) -> Calls {
        let slots: HashMap<u64, u32> = object
            .linkage_slots()
            .iter()
            .filter(|slot| object.dynamic_symbol(slot.symbol).is_some_and(|s| !s.defined))
            .map(|slot| (slot.vaddr, slot.symbol))
            .collect();
        let own_slots: HashMap<u64, (u32, u64)> = object
            .linkage_slots()
            .iter()
            .filter(|slot| !slots.contains_key(&slot.vaddr))
            .filter_map(|slot| Some((slot.vaddr, (slot.symbol, object.dynamic_symbol(slot.symbol)?.address))))
            .collect();
        // Windows are written by the agent: nothing in them is redirected.
        let in_window = |at: u64| {
            let before = sites.range(..=at).next_back();
            before.is_some_and(|(_, (site, _))| {
                let end = site.vaddr + window(site).0.len() as u64;
                at + 4 > site.vaddr && at < end
            })
        };
        let tables = object.linkage_tables();
        // Who jumps to a stretch of code.
        let mut jumps_on: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut calls = Calls::default();
        let mut entries: HashMap<u64, Option<u64>> = HashMap::new();
        // Jumps into the components from the rest: few functions hold any. Also through the object's own linkage.
        let own: HashSet<u64> =
            own_slots.iter().filter(|(_, (_, f))| sites.contains_key(f)).map(|(&slot, _)| slot).collect();
        let mut targets: Vec<u64> = sites.keys().copied().collect();
        targets.extend(object.linkage_entries().iter().filter(|(_, slot)| own.contains(slot)).map(|&(entry, _)| entry));
        let references = object.references_to(&targets);
        let mut jumps: Vec<u64> = references.iter().filter(|r| r.kind == ReferenceKind::Jump).map(|r| r.at).collect();
        for r in references.iter().filter(|r| r.kind == ReferenceKind::ShortJump) {
            if sites.contains_key(&r.target) && component_at(stretches, r.at) == 0 {
                calls.too_short.push(r.target);
            }
        }
        if !own.is_empty() {
            jumps.extend(object.jumps_through(&own));
        }
        let jumpers: BTreeSet<u64> =
            jumps.into_iter().filter_map(|at| stretch_at(stretches, at).map(|s| s.start)).collect();
        for s in stretches.iter().filter(|s| s.component != 0 || jumpers.contains(&s.start)) {
            for t in object.transfers(s.start, s.end - s.start) {
                let at = t.displacement_vaddr;
                // A symbol without size may seem to reach into the linkage table.
                if tables.iter().any(|table| table.contains(&at)) {
                    continue;
                }
                let direct = matches!(t.transfer, Transfer::Call | Transfer::Jump);
                let jump = matches!(t.transfer, Transfer::Jump | Transfer::JumpThrough);
                if direct && sites.contains_key(&t.target) {
                    if jump {
                        jumps_on.entry(t.target).or_default().push(s.start);
                    }
                    if !in_window(at) {
                        calls.direct.push(Direct {
                            displacement_vaddr: at,
                            old_target: t.target,
                            function: t.target,
                            from: s.component,
                            jump,
                            kind: SITE_DIRECT,
                            symbol: 0,
                        });
                    }
                    continue;
                }
                if t.transfer == Transfer::ShortJump {
                    // Too short to lead elsewhere: only a frame can tell who jumped.
                    if sites.contains_key(&t.target) {
                        calls.indirect_jumpers.insert(s.start);
                    }
                    jumps_on.entry(t.target).or_default().push(s.start);
                    continue;
                }
                if t.transfer == Transfer::IndirectJump {
                    calls.indirect_jumpers.insert(s.start);
                    continue;
                }
                if t.transfer == Transfer::Jump
                    && let Some(to) = stretch_at(stretches, t.target)
                {
                    jumps_on.entry(to.start).or_default().push(s.start);
                }
                let slot = match direct {
                    true => *entries.entry(t.target).or_insert_with(|| object.linkage_entry(t.target)),
                    false => Some(t.target),
                };
                let Some(slot) = slot else { continue };
                if let Some(&(symbol, function)) = own_slots.get(&slot) {
                    // A call's return address tells its caller, a jump's doesn't.
                    if jump {
                        jumps_on.entry(function).or_default().push(s.start);
                    }
                    if jump && sites.contains_key(&function) && !in_window(at) {
                        let kind = if direct { SITE_OWN_ENTRY } else { SITE_OWN_SLOT };
                        let (displacement_vaddr, old_target, from) = (at, t.target, s.component);
                        calls.direct.push(Direct {
                            displacement_vaddr,
                            old_target,
                            function,
                            from,
                            jump,
                            kind,
                            symbol,
                        });
                    }
                    continue;
                }
                if t.transfer == Transfer::JumpThrough && !slots.contains_key(&slot) {
                    // Through a pointer of the program's own.
                    calls.indirect_jumpers.insert(s.start);
                    continue;
                }
                if s.component == 0 {
                    continue;
                }
                if let Some(&symbol) = slots.get(&slot)
                    && !in_window(at)
                {
                    calls.twins.insert((s.component, slot), symbol);
                    calls.through.push(Through {
                        displacement_vaddr: at,
                        old_target: t.target,
                        twin: (s.component, slot),
                        direct,
                        load: t.transfer == Transfer::Load,
                    });
                }
            }
        }
        // Who jumps to a function that jumps on through a pointer does so as well.
        let mut open: Vec<u64> = calls.indirect_jumpers.iter().copied().collect();
        while let Some(at) = open.pop() {
            for &from in jumps_on.get(&at).into_iter().flatten() {
                if calls.indirect_jumpers.insert(from) {
                    open.push(from);
                }
            }
        }
        // What a window's displaced instructions go through.
        for (vaddr, (site, _)) in sites {
            let component = component_at(stretches, *vaddr);
            let displaced = window(site).1;
            for fixup in displaced.fixups.iter().filter(|f| f.target != displaced.resume) {
                let slot = object.linkage_entry(fixup.target).unwrap_or(fixup.target);
                if let Some(&symbol) = slots.get(&slot) {
                    calls.twins.insert((component, slot), symbol);
                    calls.entries.insert(fixup.target, slot);
                } else if let Some(&(symbol, function)) = own_slots.get(&slot)
                    && sites.contains_key(&function)
                {
                    calls.own_cells.insert((component, fixup.target), (symbol, function));
                    calls.entries.insert(fixup.target, slot);
                }
            }
        }
        calls
    }

    /// Points what displaced instructions refer to at where it is to lead now: their fixups are the region's, marked
    /// with the component they belong to.
    fn redirect_displaced(
        &self,
        region: &mut Region,
        placed: &BTreeMap<u64, Placed>,
        members: &Membership,
        thunks: &mut HashMap<u32, u32>,
        jumps: &mut KnownJumps,
    ) {
        let number: HashMap<(u8, u64), usize> = self.twins.keys().copied().zip(0..).collect();
        let own_cells: HashMap<(u8, u64), u32> =
            self.own_cells.keys().copied().zip(self.twins.len()..).map(|(key, n)| (key, region.cell(n))).collect();
        let displaced: Vec<StaticFixup> = region.fixups.iter().copied().filter(|f| f.reserved != 0).collect();
        for fixup in displaced {
            let from = fixup.reserved as u8;
            let to = if let Some(&function) = placed.get(&fixup.target) {
                // Its address must stay what it is for everybody.
                if !region.is_branch(fixup.at) {
                    continue;
                }
                jumps.lead(from, members[&fixup.target], fixup.target, function, region)
            } else if let Some(slot) = self.entries.get(&fixup.target) {
                let own = own_cells.get(&(from, fixup.target));
                let cell = own.copied().unwrap_or_else(|| region.cell(number[&(from, *slot)]));
                if *slot != fixup.target {
                    *thunks.entry(cell).or_insert_with(|| region.add_thunk(cell))
                } else if region.is_call_through(fixup.at) {
                    cell
                } else {
                    continue;
                }
            } else {
                continue;
            };
            region.settle(fixup, to);
        }
        region.fixups.iter_mut().for_each(|f| f.reserved = 0);
    }

    /// The sites, with code in the region for those that need some.
    pub fn redirected(
        &self,
        region: &mut Region,
        placed: &BTreeMap<u64, Placed>,
        members: &Membership,
    ) -> Vec<StaticSite> {
        let mut sites = Vec::new();
        let mut jumps = KnownJumps::default();
        let mut thunks: HashMap<u32, u32> = HashMap::new();
        self.redirect_displaced(region, placed, members, &mut thunks, &mut jumps);
        let mut lead = |from: u8, function: u64, region: &mut Region| {
            jumps.lead(from, members[&function], function, placed[&function], region)
        };
        for d in &self.direct {
            if members[&d.function] != d.from && !d.jump {
                continue;
            }
            let target = lead(d.from, d.function, region);
            sites.push(StaticSite {
                displacement_vaddr: d.displacement_vaddr,
                old_target: d.old_target,
                target,
                twin: d.kind,
                symbol: d.symbol,
                load: 0,
            });
        }
        for (n, (&(from, through), &(symbol, function))) in self.own_cells.iter().enumerate() {
            sites.push(StaticSite {
                displacement_vaddr: u64::from(region.cell(self.twins.len() + n)),
                old_target: u64::from(region.add_way_through(through, self.entries[&through] == through)),
                target: lead(from, function, region),
                twin: SITE_OWN_CELL,
                symbol,
                load: 0,
            });
        }
        let number: HashMap<(u8, u64), usize> = self.twins.keys().copied().zip(0..).collect();
        for t in &self.through {
            let twin = number[&t.twin];
            let cell = region.cell(twin);
            let target = if t.direct { *thunks.entry(cell).or_insert_with(|| region.add_thunk(cell)) } else { cell };
            sites.push(StaticSite {
                displacement_vaddr: t.displacement_vaddr,
                old_target: t.old_target,
                target,
                twin: twin as u32,
                symbol: 0,
                load: u32::from(t.load),
            });
        }
        sites
    }
}
