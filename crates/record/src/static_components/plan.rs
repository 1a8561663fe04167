//! The static plan of one object: which functions are entered through code of ours, and what else is redirected.

use std::collections::{BTreeMap, HashMap, HashSet};

use transect_binary_info::{FunctionSymbol, Object, ReferenceKind};
use transect_event_abi::static_plan::{
    STATIC_COUNT_ONLY, STATIC_FRAMED, STATIC_MAGIC, STATIC_VERSION, STATIC_WINDOW_CAPACITY, StaticFixup,
    StaticFunction, StaticHeader, StaticRange, StaticSite, StaticTwin,
};
use transect_probe_plan::{Displaced, Event, ExitSupport, Function, PlanOptions, ProviderKind, Site, Window};

use super::calls::Calls;
use super::region::{Placed, Region};
use super::stretch::{component_at, stretches};

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

/// Makes the plan of an object whose components are `names`, ids from 1 on.
pub fn make(object: &Object, symbols: &[FunctionSymbol], names: &[String], members: &Membership) -> StaticPlan {
    let stretches = stretches(object, symbols, members);
    let component_at = |address: u64| component_at(&stretches, address);
    let entered = entered_from_outside(object, symbols, members, component_at);
    let mut plan = StaticPlan::default();
    let sites = entry_sites(object, &entered, members, &mut plan.refused);
    let calls = Calls::of(object, &stretches, &sites);
    for function in &calls.too_short {
        let reason =
            "a jump to it is too short to be redirected: those calls count as their caller's caller's".to_owned();
        *plan.refused.entry((members[function], reason)).or_default() += 1;
    }

    let mut region = Region::new(sites.len(), calls.twins.len() + calls.own_cells.len(), names.len() + 1);
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
pub fn window(site: &Site) -> (&[u8], Displaced) {
    match &site.window {
        Window::Displaced { original, displaced } => (original, displaced.clone()),
        Window::Sled { original, .. } => {
            (original, Displaced { resume: site.vaddr + original.len() as u64, ..Displaced::default() })
        }
        _ => (&[], Displaced::default()),
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
