//! Sites of feature regions (`transect_sites`): no-ops of five bytes at begins and ends.
//!
//! ```text
//! entry       12 bytes: i32 site's address - this field's address, then what it means, which is others' business
//! ```

use transect_binary_info::Object;

use crate::sled::{self, NOP5};
use crate::{Event, ExitSupport, FunctionTable, Proposal, Provider, ProviderKind, Refusal, Refused, Site, Window};

const SECTION: &str = "transect_sites";
const ENTRY: usize = 12;

/// Begins and ends of feature regions. Asked only by name: each has a USDT note, too, so it is no seventh kind of point.
#[derive(Debug, Clone, Copy, Default)]
pub struct Region;

impl Region {
    /// The site at a no-op of a region in this function; flags are dead there, the red zone is not.
    pub fn site(function: u32, vaddr: u64) -> Site {
        Site {
            function,
            vaddr,
            provider: ProviderKind::Region,
            event: Event::Point,
            exit: ExitSupport::NotEntry,
            red_zone: true,
            window: Window::Sled { original: NOP5.to_vec(), off: NOP5 },
            name: String::new(),
            usdt: None,
        }
    }
}

impl Provider for Region {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Region
    }

    fn sites(&self, object: &Object, functions: &mut FunctionTable) -> Proposal {
        let mut proposal = Proposal::default();
        let sections = object.section_list();
        let Some(section) = sections.iter().find(|section| section.name == SECTION) else { return proposal };
        for (entry, at) in section.data.chunks_exact(ENTRY).zip((section.vaddr..).step_by(ENTRY)) {
            let distance = entry.first_chunk().copied().map_or(0, i32::from_le_bytes);
            let vaddr = at.wrapping_add_signed(distance.into());
            if !functions.code().iter().any(|range| range.contains(&vaddr)) {
                continue;
            }
            let function = functions.containing_or_add(vaddr);
            if !functions.is_wanted(function) {
                continue;
            }
            let bytes = object.bytes_at(vaddr).unwrap_or_default();
            let whole = matches!(sled::sled(bytes, vaddr), Some(Window::Sled { original, .. }) if original == NOP5);
            if whole {
                proposal.sites.push(Self::site(function, vaddr));
            } else {
                let (provider, reason) = (self.kind(), Refusal::NotCode);
                proposal.refused.push(Refused { function, vaddr, provider, reason, name: String::new() });
            }
        }
        proposal
    }
}
