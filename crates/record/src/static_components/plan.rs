//! The static plan of one object: which functions are entered through code of ours, and what else is redirected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use transect_binary_info::{FunctionSymbol, Object, ReferenceKind, Transfer};
use transect_event_abi::static_plan::{
    SITE_DIRECT, SITE_OWN_ENTRY, SITE_OWN_SLOT, STATIC_COUNT_ONLY, STATIC_FRAMED, STATIC_MAGIC, STATIC_VERSION,
    STATIC_WINDOW_CAPACITY, StaticFixup, StaticFunction, StaticHeader, StaticRange, StaticSite, StaticTwin,
};
use transect_probe_plan::{Displaced, Event, ExitSupport, Function, PlanOptions, ProviderKind, Site, Window};

use super::region::{Placed, Region};

/// The components of an object: functions' addresses and component ids (from 1).
pub type Membership = HashMap<u64, u8>;

/// A plan, and what is not in it.
#[derive(Debug, Default)]
pub struct StaticPlan {
    /// The file's contents.
    pub bytes: Vec<u8>,
    /// Functions that can't be intercepted: component id, reason, how many.
    pub refused: BTreeMap<(u8, String), i64>,
}

/// A function's code and its component.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: u64,
    end: u64,
    component: u8,
}

/// Makes the plan of an object whose components are `names`, ids from 1 on.
pub fn make(object: &Object, symbols: &[FunctionSymbol], names: &[String], members: &Membership) -> StaticPlan {
    let stretches = stretches(object, symbols, members);
    let component_at = |address: u64| component_at(&stretches, address);
    let entered = entered_from_outside(object, symbols, members, component_at);
    let mut plan = StaticPlan::default();
    let sites = entry_sites(object, &entered, members, &mut plan.refused);
    let calls = Calls::of(object, &stretches, &sites);

    let mut region = Region::new(sites.len(), calls.twins.len(), names.len() + 1);
    let mut placed: BTreeMap<u64, Placed> = BTreeMap::new();
    let mut functions = Vec::new();
    let mut text = Names::default();
    names.iter().for_each(|name| _ = text.add(name));
    for (&vaddr, (site, raw)) in &sites {
        let (original, displaced) = window(site);
        let own = members[&vaddr];
        let at = region.add_function(own, &displaced);
        placed.insert(vaddr, at);
        let mut bytes = [0; STATIC_WINDOW_CAPACITY];
        bytes[..original.len()].copy_from_slice(original);
        let counted_only = site.exit != ExitSupport::PairedCall;
        let framed = calls.indirect_jumpers.contains(&vaddr) && !counted_only;
        functions.push(StaticFunction {
            vaddr,
            window_vaddr: site.vaddr,
            code: at.code,
            displaced: at.displaced,
            entry: at.entry,
            component: u32::from(own),
            name: text.add(raw),
            flags: if counted_only { STATIC_COUNT_ONLY } else { 0 } | if framed { STATIC_FRAMED } else { 0 },
            window_length: original.len() as u32,
            reserved: 0,
            original: bytes,
        });
    }
    let sites = calls.redirected(&mut region, &placed, members);
    let twins: Vec<StaticTwin> = calls
        .twins
        .iter()
        .enumerate()
        .map(|(n, (&(component, slot_vaddr), &symbol))| StaticTwin {
            slot_vaddr,
            component: u32::from(component),
            symbol,
            cell: region.cell(n),
            reserved: 0,
        })
        .collect();
    let range = object.text_range();
    let mut header = StaticHeader {
        magic: STATIC_MAGIC,
        version: STATIC_VERSION,
        component_count: names.len() as u32,
        function_count: functions.len() as u32,
        range_count: 0,
        twin_count: twins.len() as u32,
        site_count: sites.len() as u32,
        names_length: text.bytes.len() as u32,
        text_start: range.start,
        text_length: range.end - range.start,
        ..StaticHeader::default()
    };
    let ranges: Vec<StaticRange> = stretches
        .iter()
        .filter(|s| s.component != 0)
        .map(|s| StaticRange { vaddr: s.start, length: (s.end - s.start) as u32, component: s.component.into() })
        .collect();
    header.range_count = ranges.len() as u32;
    let (image, fixups) = region.finish(&mut header);
    header.fixup_count = fixups.len() as u32;
    plan.bytes = to_bytes(&header, &functions, &ranges, &fixups, &twins, &sites, &image, &text.bytes);
    plan
}

/// The stretches of code that function symbols describe, sorted, not overlapping; a member's wins.
fn stretches(object: &Object, symbols: &[FunctionSymbol], members: &Membership) -> Vec<Stretch> {
    let mut starts: BTreeMap<u64, u64> = BTreeMap::new();
    for s in symbols {
        let size = starts.entry(s.vaddr).or_default();
        *size = (*size).max(s.size);
    }
    let end = object.text_range().end;
    let following: Vec<u64> = starts.keys().copied().skip(1).chain([end]).collect();
    starts
        .into_iter()
        .zip(following)
        .map(|((start, size), next)| Stretch {
            start,
            end: if size == 0 { next } else { (start + size).min(next) },
            component: members.get(&start).copied().unwrap_or(0),
        })
        .collect()
}

fn stretch_at(stretches: &[Stretch], address: u64) -> Option<&Stretch> {
    let index = stretches.partition_point(|s| s.start <= address).checked_sub(1)?;
    Some(&stretches[index]).filter(|s| address < s.end)
}

fn component_at(stretches: &[Stretch], address: u64) -> u8 {
    stretch_at(stretches, address).map_or(0, |s| s.component)
}

/// Members that something outside of their component may call: the others need no code of ours.
fn entered_from_outside(
    object: &Object,
    symbols: &[FunctionSymbol],
    members: &Membership,
    component_at: impl Fn(u64) -> u8,
) -> BTreeMap<u64, String> {
    let split_off = |name: &str| name.contains(".cold");
    let mut candidates: BTreeMap<u64, &FunctionSymbol> = BTreeMap::new();
    for s in symbols.iter().filter(|s| members.contains_key(&s.vaddr) && !s.indirect) {
        let known = candidates.entry(s.vaddr).or_insert(s);
        // Of several names the public one, then the shortest.
        if (s.local, s.name.len()) < (known.local, known.name.len()) {
            *known = s;
        }
    }
    candidates.retain(|_, s| !split_off(&s.name));
    let resolvers: HashSet<u64> = symbols.iter().filter(|s| s.indirect).map(|s| s.vaddr).collect();
    candidates.retain(|vaddr, _| !resolvers.contains(vaddr));
    let targets: Vec<u64> = candidates.keys().copied().collect();
    let mut entered: HashSet<u64> = object
        .references_to(&targets)
        .iter()
        .filter(|r| r.kind == ReferenceKind::Address || component_at(r.at) != members[&r.target])
        .map(|r| r.target)
        .collect();
    for index in 0..object.dynamic_symbol_count() {
        if let Some(s) = object.dynamic_symbol(index).filter(|s| s.defined && s.kind.is_function()) {
            entered.insert(s.address);
        }
    }
    candidates.into_iter().filter(|(vaddr, _)| entered.contains(vaddr)).map(|(at, s)| (at, s.name.clone())).collect()
}

/// Where these functions can be entered, with their raw names.
fn entry_sites(
    object: &Object,
    entered: &BTreeMap<u64, String>,
    members: &Membership,
    refused: &mut BTreeMap<(u8, String), i64>,
) -> BTreeMap<u64, (Site, String)> {
    let wanted = |f: &Function| entered.contains_key(&f.vaddr);
    let options =
        PlanOptions { providers: vec![ProviderKind::PatchableEntry, ProviderKind::Entry], wanted: Some(&wanted) };
    let plan = transect_probe_plan::plan(object, &options);
    let mut found = BTreeMap::new();
    for site in plan.sites {
        let function = &plan.functions[site.function as usize];
        let fits = |w: &Window| matches!(w, Window::Displaced { .. } | Window::Sled { .. });
        if let Some(name) = entered.get(&function.vaddr)
            && site.event == Event::Entry
            && fits(&site.window)
            && window(&site).0.len() <= STATIC_WINDOW_CAPACITY
        {
            found.entry(function.vaddr).or_insert((site, name.clone()));
        }
    }
    let mut reasons: HashMap<u64, String> = HashMap::new();
    for r in &plan.refused {
        reasons.insert(plan.functions[r.function as usize].vaddr, r.reason.to_string());
    }
    for vaddr in entered.keys().filter(|vaddr| !found.contains_key(vaddr)) {
        let reason = reasons.remove(vaddr).unwrap_or_else(|| "no place for a jump at its entry".to_owned());
        *refused.entry((members[vaddr], reason)).or_default() += 1;
    }
    found
}

/// What a site's window holds, and what becomes of it.
fn window(site: &Site) -> (&[u8], Displaced) {
    match &site.window {
        Window::Displaced { original, displaced } => (original, displaced.clone()),
        Window::Sled { original, .. } => {
            (original, Displaced { resume: site.vaddr + original.len() as u64, ..Displaced::default() })
        }
        _ => (&[], Displaced::default()),
    }
}

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

/// What the code of the components, and jumps into them, refer to.
#[derive(Debug, Default)]
struct Calls {
    /// Linkage slots by calling component, with their symbols.
    twins: BTreeMap<(u8, u64), u32>,
    /// Calls through them.
    through: Vec<Through>,
    /// Direct calls and jumps to functions with entry code.
    direct: Vec<Direct>,
    /// What displaced instructions refer to: linkage entry or slot, and the slot.
    entries: HashMap<u64, u64>,
    /// Functions that may tail-call through a pointer.
    indirect_jumpers: HashSet<u64>,
}

impl Calls {
    fn of(object: &Object, stretches: &[Stretch], sites: &BTreeMap<u64, (Site, String)>) -> Calls {
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
        let mut jumps: Vec<u64> =
            object.references_to(&targets).iter().filter(|r| r.kind == ReferenceKind::Jump).map(|r| r.at).collect();
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
                    if jump && sites.contains_key(&function) && !in_window(at - 2) {
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
        thunks: &mut HashMap<usize, u32>,
        jumps: &mut HashMap<(u8, u64), u32>,
    ) {
        let number: HashMap<(u8, u64), usize> = self.twins.keys().copied().zip(0..).collect();
        let displaced: Vec<StaticFixup> = region.fixups.iter().copied().filter(|f| f.reserved != 0).collect();
        for fixup in displaced {
            let from = fixup.reserved as u8;
            let to = if let Some(&function) = placed.get(&fixup.target) {
                if members[&fixup.target] == from {
                    function.displaced
                } else {
                    *jumps.entry((from, fixup.target)).or_insert_with(|| region.add_jump(from, function))
                }
            } else if let Some(slot) = self.entries.get(&fixup.target) {
                let twin = number[&(from, *slot)];
                let cell = region.cell(twin);
                if *slot != fixup.target {
                    *thunks.entry(twin).or_insert_with(|| region.add_thunk(cell))
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
    fn redirected(&self, region: &mut Region, placed: &BTreeMap<u64, Placed>, members: &Membership) -> Vec<StaticSite> {
        let mut sites = Vec::new();
        let mut jumps: HashMap<(u8, u64), u32> = HashMap::new();
        let mut thunks: HashMap<usize, u32> = HashMap::new();
        self.redirect_displaced(region, placed, members, &mut thunks, &mut jumps);
        for d in &self.direct {
            let own = members[&d.function];
            let function = placed[&d.function];
            let target = if own == d.from {
                // Inside the component: straight to the function.
                function.displaced
            } else if d.jump {
                *jumps.entry((d.from, d.function)).or_insert_with(|| region.add_jump(d.from, function))
            } else {
                continue;
            };
            sites.push(StaticSite {
                displacement_vaddr: d.displacement_vaddr,
                old_target: d.old_target,
                target,
                twin: d.kind,
                symbol: d.symbol,
                load: 0,
            });
        }
        let number: HashMap<(u8, u64), usize> = self.twins.keys().copied().zip(0..).collect();
        for t in &self.through {
            let twin = number[&t.twin];
            let cell = region.cell(twin);
            let target = if t.direct { *thunks.entry(twin).or_insert_with(|| region.add_thunk(cell)) } else { cell };
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

/// Zero-terminated names, each once.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
}

impl Names {
    fn add(&mut self, name: &str) -> u32 {
        let at = self.bytes.len() as u32;
        self.bytes.extend(name.bytes().filter(|&b| b != 0));
        self.bytes.push(0);
        at
    }
}

#[allow(clippy::too_many_arguments)] // the parts of the file, in its order
fn to_bytes(
    header: &StaticHeader,
    functions: &[StaticFunction],
    ranges: &[StaticRange],
    fixups: &[StaticFixup],
    twins: &[StaticTwin],
    sites: &[StaticSite],
    image: &[u8],
    names: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes.extend(header.magic.to_le_bytes());
    words(
        &mut bytes,
        &[
            header.version,
            header.component_count,
            header.function_count,
            header.range_count,
            header.fixup_count,
            header.twin_count,
            header.site_count,
            header.region_length,
            header.data_length,
            header.names_length,
        ],
    );
    bytes.extend(header.text_start.to_le_bytes());
    bytes.extend(header.text_length.to_le_bytes());
    for f in functions {
        bytes.extend(f.vaddr.to_le_bytes());
        bytes.extend(f.window_vaddr.to_le_bytes());
        words(&mut bytes, &[f.code, f.displaced, f.entry, f.component, f.name, f.flags, f.window_length, f.reserved]);
        bytes.extend(f.original);
    }
    for r in ranges {
        bytes.extend(r.vaddr.to_le_bytes());
        words(&mut bytes, &[r.length, r.component]);
    }
    for f in fixups {
        words(&mut bytes, &[f.at, f.from, f.kind, f.reserved]);
        bytes.extend(f.target.to_le_bytes());
    }
    for t in twins {
        bytes.extend(t.slot_vaddr.to_le_bytes());
        words(&mut bytes, &[t.component, t.symbol, t.cell, t.reserved]);
    }
    for s in sites {
        bytes.extend(s.displacement_vaddr.to_le_bytes());
        bytes.extend(s.old_target.to_le_bytes());
        words(&mut bytes, &[s.target, s.twin, s.symbol, s.load]);
    }
    bytes.extend(image);
    bytes.extend(names);
    bytes
}
