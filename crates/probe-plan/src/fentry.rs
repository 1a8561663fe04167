//! `-mfentry`: a call of `__fentry__` before a function's prologue, or (`-mnop-mcount`) a five-byte no-op in its place,
//! listed in `__mcount_loc` (`-mrecord-mcount`) or not.

use transect_binary_info::Object;

use crate::address_section::addresses;
use crate::callee::Callees;
use crate::convention::Conventions;
use crate::displace::displace;
use crate::entry::after_endbr;
use crate::patchable_entry::entry_sled;
use crate::sled::NOP5;
use crate::{Event, FunctionTable, Proposal, Provider, ProviderKind, Site, Window};

/// Entries prepared by `-mfentry`. Where the call is still made it is displaced like any other: `__fentry__` goes on
/// being called. A five-byte no-op that is a function's first instruction counts even if no section lists it: compilers
/// put one there for nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fentry;

const CALLED: &[&str] = &["__fentry__"];

impl Provider for Fentry {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Fentry
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let conventions = Conventions::of(object, functions);
        let listed = addresses(object, "__mcount_loc");
        let mut sleds: Vec<u32> = listed.iter().filter_map(|&at| listed_function(functions, at)).collect();
        let mut calls = Vec::new();
        let callees = Callees::of(object, functions);
        let called = callees.has_any(CALLED);
        for index in 0..functions.functions().len() as u32 {
            if !functions.is_wanted(index) {
                continue;
            }
            let Some((code, vaddr)) = after_endbr(object, functions.functions()[index as usize].vaddr) else {
                continue;
            };
            if code.starts_with(&NOP5) {
                sleds.push(index);
            } else if called && calls_it(&callees, code, vaddr) {
                calls.push(index);
            }
        }
        sleds.sort_unstable();
        sleds.dedup();
        for index in sleds {
            proposal.sites.extend(entry_sled(object, functions, &conventions, index, self.kind()));
        }
        for index in calls {
            if let Some(site) = call_site(object, functions, &conventions, index) {
                functions.set_has_entry(index);
                proposal.sites.push(site);
            }
        }
        proposal
    }
}

/// The function at whose entry `at` stands.
fn listed_function(table: &FunctionTable, at: u64) -> Option<u32> {
    let index = table.containing(at)?;
    (at - table.functions()[index as usize].vaddr <= 4).then_some(index)
}

/// True if the first instruction calls `__fentry__`.
fn calls_it(callees: &Callees<'_>, code: &[u8], vaddr: u64) -> bool {
    let displacement = |at: usize| {
        let raw = code.get(at..at + 4)?.first_chunk()?;
        Some((vaddr + at as u64 + 4).wrapping_add_signed(i32::from_le_bytes(*raw).into()))
    };
    match code {
        [0xe8, ..] => displacement(1).is_some_and(|target| callees.is_one_of(target, CALLED).is_some()),
        [0xff, 0x15, ..] => displacement(2).is_some_and(|slot| callees.slot_is_one_of(slot, CALLED).is_some()),
        _ => false,
    }
}

fn call_site(object: &Object, table: &FunctionTable, conventions: &Conventions, index: u32) -> Option<Site> {
    let function = &table.functions()[index as usize];
    let exit = conventions.exit(function, table.details(index)).ok()?;
    let (code, vaddr) = after_endbr(object, function.vaddr)?;
    let size = function.size.saturating_sub(vaddr - function.vaddr);
    let window = displace(code, vaddr, table.limit(vaddr), size).ok()?;
    let original = code[..window.length].to_vec();
    Some(Site {
        function: index,
        vaddr,
        provider: ProviderKind::Fentry,
        event: Event::Entry,
        exit,
        red_zone: false,
        window: Window::Displaced { original, displaced: window.displaced },
        name: String::new(),
        usdt: None,
    })
}
