//! Entries of functions as the compiler left them.

use transect_binary_info::{FrameStart, Object};

use crate::convention::Conventions;
use crate::displace::displace;
use crate::{
    Event, ExitSupport, FunctionTable, Proposal, Provider, ProviderKind, Refusal, Refused, Site, Window, parallel,
};

/// Function entries of unmodified code: the instructions under a jump of five bytes are displaced. An `endbr64` is left in place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry;

/// `endbr64`.
pub(crate) const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

impl Provider for Entry {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Entry
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let conventions = Conventions::of(object, functions);
        let asked: Vec<u32> = (0..functions.functions().len() as u32)
            .filter(|&index| functions.is_wanted(index) && !functions.details(index).has_entry)
            .collect();
        let functions = &*functions;
        let parts = parallel::map_chunks(&asked, |chunk| {
            let mut part = Proposal::default();
            for &index in chunk {
                match site(object, functions, &conventions, index) {
                    Ok(site) => part.sites.push(site),
                    Err(reason) => part.refused.push(Refused {
                        function: index,
                        vaddr: functions.functions()[index as usize].vaddr,
                        provider: ProviderKind::Entry,
                        reason,
                        name: String::new(),
                    }),
                }
            }
            part
        });
        let mut all = Proposal::default();
        for mut part in parts {
            all.sites.append(&mut part.sites);
            all.refused.append(&mut part.refused);
        }
        all
    }
}

/// The entry's bytes after an `endbr64`, and their address.
pub(crate) fn after_endbr(object: &Object, vaddr: u64) -> Option<(&[u8], u64)> {
    let bytes = object.bytes_at(vaddr)?;
    Some(match bytes.strip_prefix(&ENDBR64) {
        Some(rest) => (rest, vaddr + ENDBR64.len() as u64),
        None => (bytes, vaddr),
    })
}

fn site(object: &Object, table: &FunctionTable, conventions: &Conventions, index: u32) -> Result<Site, Refusal> {
    let function = &table.functions()[index as usize];
    let details = table.details(index);
    let mut exit = conventions.exit(function, details)?;
    let (code, vaddr) = after_endbr(object, function.vaddr).ok_or(Refusal::NotCode)?;
    let skipped = vaddr - function.vaddr;
    if function.size <= skipped && function.size != 0 {
        return Err(Refusal::TooShort);
    }
    let window = displace(code, vaddr, table.limit(vaddr), function.size - skipped)?;
    let looks = || conventions.uses_return_address(code, vaddr, function.size - skipped);
    if exit == ExitSupport::PairedCall && looks() {
        exit = ExitSupport::ReturnAddressUsed;
    }
    debug_assert!(details.frame != Some(FrameStart::Inside), "no call enters here");
    Ok(Site {
        function: index,
        vaddr,
        provider: ProviderKind::Entry,
        event: Event::Entry,
        exit,
        red_zone: false,
        window: Window::Displaced { original: code[..window.length].to_vec(), displaced: window.displaced },
        name: String::new(),
        usdt: None,
    })
}
