//! USDT points (SystemTap's `sys/sdt.h`): `.note.stapsdt`. A point that is a function's first instruction becomes part of
//! the function's entry ([`crate::plan`]), which can be timed.
//!
//! ```text
//! note        name "stapsdt", type 3
//! descriptor  8 point   8 base   8 semaphore   provider NUL name NUL arguments NUL
//! ```
//! `base` is where `.stapsdt.base` was linked: what the section has moved since (prelink), the addresses have.

use transect_binary_info::Object;

use crate::displace::displace;
use crate::sled;
use crate::{
    Event, ExitSupport, FunctionTable, Proposal, Provider, ProviderKind, Refusal, Refused, Site, UsdtNote, Window,
};

/// Points marked by `DTRACE_PROBE` and its like. The no-op there is displaced along with what follows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usdt;

impl Provider for Usdt {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Usdt
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let mut seen = std::collections::HashSet::new();
        for (vaddr, note) in notes(object) {
            // Two notes of one instruction (a merged template instance) are one point.
            if !functions.code().iter().any(|range| range.contains(&vaddr)) || !seen.insert(vaddr) {
                continue;
            }
            let function = functions.containing_or_add(vaddr);
            if !functions.is_wanted(function) {
                continue;
            }
            let name = format!("{}:{}", note.provider, note.name);
            match point_window(object, functions, vaddr) {
                Ok(window) => proposal.sites.push(Site {
                    function,
                    vaddr,
                    provider: self.kind(),
                    event: Event::Point,
                    exit: ExitSupport::NotEntry,
                    red_zone: true,
                    window,
                    name,
                    usdt: Some(Box::new(note)),
                }),
                Err(reason) => {
                    proposal.refused.push(Refused { function, vaddr, provider: self.kind(), reason, name });
                }
            }
        }
        proposal
    }
}

/// The window of a point inside of a function.
pub(crate) fn point_window(object: &Object, table: &FunctionTable, vaddr: u64) -> Result<Window, Refusal> {
    let code = object.bytes_at(vaddr).ok_or(Refusal::NotCode)?;
    let limit = table.limit(vaddr);
    if code.starts_with(&sled::NOP5) && limit >= 5 {
        return Ok(Window::Sled { original: sled::NOP5.to_vec(), off: sled::NOP5 });
    }
    // Up to the next known start of code; a function's own end is one, or is followed by padding.
    let end = table.containing(vaddr).map(|index| &table.functions()[index as usize]).map_or(u64::MAX, |f| {
        let end = f.vaddr + f.size;
        if end > vaddr { end - vaddr } else { limit }
    });
    let window = displace(code, vaddr, limit, end)?;
    Ok(Window::Displaced { original: code[..window.length].to_vec(), displaced: window.displaced })
}

/// All USDT notes with the addresses of their points, prelinking undone; by address.
pub fn notes(object: &Object) -> Vec<(u64, UsdtNote)> {
    let sections = object.section_list();
    let base = sections.iter().find(|s| s.name == ".stapsdt.base").map(|s| s.vaddr);
    let mut found = Vec::new();
    for section in sections.iter().filter(|s| s.name == ".note.stapsdt") {
        let mut rest = section.data;
        while let Some((note, behind)) = split_note(rest) {
            rest = behind;
            found.extend(note.and_then(|descriptor| parse(descriptor, base)));
        }
    }
    found.sort_by_key(|(vaddr, _)| *vaddr);
    found
}

/// The descriptor of the first note in `bytes` (if it is a USDT note), and what follows it.
fn split_note(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let word = |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|raw| u32::from_le_bytes(*raw) as usize);
    let (name_size, size, kind) = (word(0)?, word(4)?, word(8)?);
    let name = bytes.get(12..12usize.checked_add(name_size)?)?;
    let start = 12usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
    let descriptor = bytes.get(start..start.checked_add(size)?)?;
    let next = start + size.checked_next_multiple_of(4)?;
    Some(((kind == 3 && name == b"stapsdt\0").then_some(descriptor), bytes.get(next..).unwrap_or(&[])))
}

fn parse(descriptor: &[u8], base: Option<u64>) -> Option<(u64, UsdtNote)> {
    let word = |at: usize| descriptor.get(at..at + 8)?.first_chunk().map(|raw| u64::from_le_bytes(*raw));
    let (point, linked_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let moved = match base {
        Some(base) if linked_base != 0 => base.wrapping_sub(linked_base),
        _ => 0,
    };
    let mut texts = descriptor.get(24..)?.split(|&byte| byte == 0).map(|t| String::from_utf8_lossy(t).into_owned());
    let note = UsdtNote {
        provider: texts.next()?,
        name: texts.next()?,
        arguments: texts.next().unwrap_or_default(),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
    };
    Some((point.wrapping_add(moved), note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, descriptor: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [name.len() as u32, descriptor.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        for part in [name, descriptor] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn reads_notes_among_others() {
        let mut descriptor = Vec::new();
        [0x1010u64, 0x2000, 0x4000].iter().for_each(|word| descriptor.extend(word.to_le_bytes()));
        descriptor.extend(b"app\0begin\x008@%rax\0");
        let bytes = [note(b"GNU\0", 3, b"12345"), note(b"stapsdt\0", 3, &descriptor)].concat();
        let (none, rest) = split_note(&bytes).unwrap();
        assert_eq!(none, None);
        let (found, rest) = split_note(rest).unwrap();
        assert!(rest.is_empty());
        // The section has moved by 0x100.
        let (point, note) = parse(found.unwrap(), Some(0x2100)).unwrap();
        assert_eq!(point, 0x1110);
        let wanted = UsdtNote {
            provider: "app".into(),
            name: "begin".into(),
            arguments: "8@%rax".into(),
            semaphore: Some(0x4100),
        };
        assert_eq!(note, wanted);
    }

    #[test]
    fn damaged_notes_end_the_list() {
        assert_eq!(split_note(&[1, 0, 0]), None);
        assert_eq!(split_note(&[255; 40]), None);
        assert_eq!(parse(&[0; 20], None), None);
    }
}
