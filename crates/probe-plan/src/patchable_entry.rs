//! `-fpatchable-function-entry=N,M`: no-ops at a function's entry, M of them before it, listed in a section of its own.

use transect_binary_info::Object;

use crate::address_section::addresses;
use crate::entry::after_endbr;
use crate::{
    Event, ExitSupport, Function, FunctionTable, Proposal, Provider, ProviderKind, Site, convention::Conventions,
    displace, sled,
};

/// Entries with room made by `-fpatchable-function-entry`. With fewer than five bytes behind the entry the no-ops are
/// displaced like any instruction.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatchableEntry;

impl Provider for PatchableEntry {
    fn kind(&self) -> ProviderKind {
        ProviderKind::PatchableEntry
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let listed = addresses(object, "__patchable_function_entries");
        if listed.is_empty() {
            return proposal;
        }
        let conventions = Conventions::of(object, functions);
        for at in listed {
            let Some(index) = function_of(object, functions, at) else { continue };
            proposal.sites.extend(entry_sled(object, functions, &conventions, index, self.kind()));
        }
        proposal
    }
}

/// The function whose no-ops begin at `at`: behind its first address, or before it.
fn function_of(object: &Object, table: &FunctionTable, at: u64) -> Option<u32> {
    // Behind an `endbr64` at most.
    let holding = table.at(at).or_else(|| table.containing(at));
    if let Some(index) = holding.filter(|&index| at - table.functions()[index as usize].vaddr <= 4) {
        return Some(index);
    }
    let before = table.limit(at);
    let bytes = object.bytes_at(at)?.get(..before as usize)?;
    let mut decoder = iced_x86::Decoder::with_ip(64, bytes, at, iced_x86::DecoderOptions::NONE);
    let only_padding = decoder.iter().all(|instruction| displace::is_padding(&instruction));
    only_padding.then(|| table.at(at + before)).flatten()
}

/// The site of a sled at the function's entry, if there is one and it is asked for.
pub(crate) fn entry_sled(
    object: &Object,
    table: &mut FunctionTable,
    conventions: &Conventions,
    index: u32,
    provider: ProviderKind,
) -> Option<Site> {
    let function: &Function = &table.functions()[index as usize];
    let details = table.details(index);
    if !details.wanted || details.has_entry {
        return None;
    }
    let exit = conventions.exit(function, details).ok()?;
    let (code, vaddr) = after_endbr(object, function.vaddr)?;
    let limit = usize::try_from(table.limit(vaddr)).ok()?;
    let window = sled::sled(&code[..code.len().min(limit)], vaddr)?;
    let behind = window.original().len();
    let size = function.size.saturating_sub(vaddr - function.vaddr + behind as u64);
    let looks = conventions.uses_return_address(&code[behind..], vaddr + behind as u64, size);
    let exit = if exit == ExitSupport::PairedCall && looks { ExitSupport::ReturnAddressUsed } else { exit };
    table.set_has_entry(index);
    Some(Site {
        function: index,
        vaddr,
        provider,
        event: Event::Entry,
        exit,
        red_zone: false,
        window,
        name: String::new(),
        usdt: None,
    })
}
