//! LLVM's XRay sleds (`-fxray-instrument`), listed in `xray_instr_map`.
//!
//! ```text
//! entry, tail exit   EB 09  66 0F 1F 84 00 00 02 00 00       jmp +9; nine-byte no-op
//! exit               C3  2E 66 0F 1F 84 00 00 02 00 00       ret; ten-byte no-op
//!
//! record, 32 bytes   0 sled   8 function   16 kind   17 always   18 version
//!                    version 2: addresses count from their own field; before, they are absolute
//! ```

use std::collections::HashMap;

use transect_binary_info::Object;

use crate::convention::Conventions;
use crate::{Event, ExitSupport, FunctionTable, Proposal, Provider, ProviderKind, Site, Window};

/// XRay's entry, exit and tail-call sleds. Its custom and typed events are left alone: they carry calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Xray;

/// Bytes of a sled.
const SLED: usize = 11;
/// Bytes of a record.
const RECORD: usize = 32;

impl Provider for Xray {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Xray
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let sections = object.section_list();
        let maps: Vec<_> = sections.iter().filter(|s| s.name == "xray_instr_map" && s.loaded).collect();
        if maps.is_empty() {
            return proposal;
        }
        let relocated: HashMap<u64, u64> =
            object.relative_relocations().into_iter().map(|r| (r.vaddr, r.target)).collect();
        let conventions = Conventions::of(object, functions);
        for map in maps {
            for (index, record) in map.data.chunks_exact(RECORD).enumerate() {
                let at = map.vaddr + (index * RECORD) as u64;
                let word = |offset: usize| {
                    let raw = record[offset..offset + 8].try_into().unwrap_or_default();
                    let field = at + offset as u64;
                    match record[18] {
                        0 | 1 => relocated.get(&field).copied().unwrap_or(u64::from_le_bytes(raw)),
                        _ => field.wrapping_add(u64::from_le_bytes(raw)),
                    }
                };
                proposal.sites.extend(site(object, functions, &conventions, word(0), word(8), record[16]));
            }
        }
        proposal
    }
}

fn site(
    object: &Object,
    table: &mut FunctionTable,
    conventions: &Conventions,
    sled: u64,
    function: u64,
    kind: u8,
) -> Option<Site> {
    let original = object.bytes_at(sled)?.get(..SLED)?.to_vec();
    let short_jump = original[..2] == [0xeb, 0x09];
    let event = match kind {
        // With arguments logged (3) it is an entry no less.
        0 | 3 if short_jump => Event::Entry,
        1 if original[0] == 0xc3 => Event::Exit,
        2 if short_jump => Event::Exit,
        _ => return None,
    };
    let index = table.at(function).unwrap_or_else(|| table.containing_or_add(sled));
    if !table.is_wanted(index) {
        return None;
    }
    let mut exit = ExitSupport::NotEntry;
    if event == Event::Entry {
        let f = &table.functions()[index as usize];
        exit = conventions.exit(f, table.details(index)).ok()?;
        let code = object.bytes_at(sled)?.get(SLED..)?;
        let behind = sled + SLED as u64;
        let uses = conventions.uses_return_address(code, behind, (f.vaddr + f.size).saturating_sub(behind));
        if exit == ExitSupport::PairedCall && uses {
            exit = ExitSupport::ReturnAddressUsed;
        }
        table.set_has_entry(index);
    }
    let window = if short_jump {
        let off = [original[0], original[1], original[2], original[3], original[4]];
        Window::Sled { original, off }
    } else {
        Window::ReturnSled { original }
    };
    Some(Site {
        function: index,
        vaddr: sled,
        provider: ProviderKind::Xray,
        event,
        exit,
        red_zone: false,
        window,
        name: String::new(),
        usdt: None,
    })
}
