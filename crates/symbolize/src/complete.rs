//! Completing the names of a profile.

use std::collections::{BTreeMap, HashMap};

use transect_binary_info::demangle;
use transect_profile_model::{ComponentId, LossKind, Profile};

use crate::SymbolPlaces;
use crate::component_symbols::{ComponentSymbols, Resolved};
use crate::function_name::is_unnamed;
use crate::outcome::{Completed, Completion, NamedCount};
use crate::stacks;

/// A component and a virtual address in it.
pub(crate) type Location = (ComponentId, i64);

/// What the profile knows of an address.
struct Known {
    function: String,
    line: bool,
}

/// Looks for symbols of the components whose addresses `profile` kept, and puts functions, lines and inlined calls in their place.
/// Names that are there stay. Says what was found of each component.
///
/// Completed are the frames of call stacks (samples and waits refer to them), the functions of a walk with the line at which most
/// of their time is, and measured latencies. Calls that are inlined into a walk's functions are not: its tree was searched
/// without them.
pub fn complete(profile: &mut Profile, places: &SymbolPlaces) -> Completion {
    let mut completion = Completion::default();
    let mut resolved: HashMap<Location, Resolved> = HashMap::new();
    for (component, known) in kept(profile) {
        let row = &profile.components[component as usize];
        if row.synthetic {
            continue;
        }
        let found = places.find(row);
        let mut completed = Completed {
            component,
            addresses: known.len(),
            before: NamedCount::default(),
            after: NamedCount::default(),
            from: Vec::new(),
            missing: None,
        };
        for (address, known) in known {
            let vaddr = address.cast_unsigned();
            let mut of = found.symbols.resolve(vaddr, &known.function);
            let was_named = !is_unnamed(&known.function, vaddr);
            if was_named && let Some(outer) = of.code.frames.first_mut() {
                outer.function = known.function;
                of.code.named = true;
            }
            completed.before.functions += usize::from(was_named);
            completed.before.lines += usize::from(known.line);
            completed.after.functions += usize::from(of.code.named);
            completed.after.lines += usize::from(known.line || of.code.described);
            resolved.insert((component, address), of);
        }
        completed.from = found.symbols.used();
        let whole = completed.after == NamedCount { functions: completed.addresses, lines: completed.addresses };
        completed.missing = (!whole).then_some(found.missing);
        complete_latencies(profile, component, &found.symbols);
        completion.components.push(completed);
    }
    stacks::complete(&mut profile.sched, &resolved);
    complete_walk(profile, &resolved);
    completion.components.iter().for_each(|completed| mend_loss(profile, completed));
    completion
}

/// Addresses that the profile kept for want of a name or line, by component.
fn kept(profile: &Profile) -> BTreeMap<ComponentId, BTreeMap<i64, Known>> {
    let mut kept: BTreeMap<ComponentId, BTreeMap<i64, Known>> = BTreeMap::new();
    let mut add = |component: Option<ComponentId>, address: i64, function: &str, line: i32| {
        let Some(component) = component.filter(|&id| (id as usize) < profile.components.len()) else { return };
        let known = || Known { function: function.to_owned(), line: line > 0 };
        kept.entry(component).or_default().entry(address).or_insert_with(known);
    };
    let sched = &profile.sched;
    for at in &sched.addresses {
        let stack = sched.stacks.get(at.stack as usize);
        let frame = stack.and_then(|stack| sched.frames.get(*stack.frames.get(at.depth as usize)? as usize));
        if let Some(frame) = frame {
            add(frame.component, at.address, &frame.function, frame.line);
        }
    }
    for node in &profile.walk.nodes {
        if let Some(address) = node.address {
            add(node.component, address, &node.function, node.line);
        }
    }
    for latency in profile.latency.iter().filter(|latency| latency.symbol.is_empty() || latency.file.is_empty()) {
        add(Some(latency.component), latency.address, &latency.function, latency.line);
    }
    kept
}

fn complete_walk(profile: &mut Profile, resolved: &HashMap<Location, Resolved>) {
    for node in &mut profile.walk.nodes {
        let location = node.component.zip(node.address);
        let Some(Resolved { code, .. }) = location.and_then(|location| resolved.get(&location)) else { continue };
        let Some(outer) = code.frames.first() else { continue };
        node.function.clone_from(&outer.function);
        if code.described {
            node.file.clone_from(&outer.file);
            (node.line, node.address) = (outer.line, None);
        }
    }
}

fn complete_latencies(profile: &mut Profile, component: ComponentId, symbols: &ComponentSymbols) {
    for latency in profile.latency.iter_mut().filter(|latency| latency.component == component) {
        let vaddr = latency.address.cast_unsigned();
        if latency.symbol.is_empty()
            && is_unnamed(&latency.function, vaddr)
            && let Some(symbol) = symbols.resolve(vaddr, "").symbol
        {
            latency.function = demangle(&symbol);
            latency.symbol = symbol;
        }
        if latency.file.is_empty()
            && let Some(line) = symbols.beginning(vaddr)
        {
            (latency.file, latency.line) = (line.file, line.line as i32);
        }
    }
}

/// What has a name now is lost no more.
fn mend_loss(profile: &mut Profile, completed: &Completed) {
    let path = &profile.components[completed.component as usize].path;
    let left = (completed.addresses - completed.after.functions) as i64;
    for loss in profile.loss.iter_mut().filter(|loss| loss.what == LossKind::UnresolvedNames && loss.place == *path) {
        loss.count = loss.count.min(left);
    }
    profile.loss.retain(|loss| loss.what != LossKind::UnresolvedNames || loss.count > 0);
}
