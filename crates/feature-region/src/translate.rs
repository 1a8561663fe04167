//! From call stacks to region stacks.

use rustc_hash::FxHashMap as HashMap;
use transect_profile_model::ComponentId;

use crate::{RegionIndex, RegionMap};

/// One frame of a call stack in a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The component that holds the code.
    pub component: ComponentId,
    /// Virtual address in it: of the instruction that was interrupted, or the address to return to.
    pub vaddr: u64,
    /// True if `vaddr` is a return address: all frames but the innermost one and those that a signal interrupted.
    pub returns: bool,
}

/// A region of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionFrame {
    /// The component.
    pub component: ComponentId,
    /// Its region.
    pub region: RegionIndex,
}

/// Translates call stacks over several components.
#[derive(Debug, Default)]
pub struct Translator {
    maps: HashMap<ComponentId, RegionMap>,
}

impl Translator {
    /// Uses `map` for frames in `component`. Components without map have no regions.
    pub fn add(&mut self, component: ComponentId, map: RegionMap) {
        self.maps.insert(component, map);
    }

    /// The map of a component.
    pub fn map(&self, component: ComponentId) -> Option<&RegionMap> {
        self.maps.get(&component)
    }

    /// The region stack of a call stack whose frames come innermost first; outermost region first. `None` if some
    /// frame's regions can't be told.
    pub fn translate(&self, frames: &[Frame]) -> Option<Vec<RegionFrame>> {
        let mut regions = Vec::new();
        for frame in frames.iter().rev() {
            let Some(map) = self.maps.get(&frame.component) else { continue };
            let open = if frame.returns { map.before_return(frame.vaddr) } else { map.at(frame.vaddr) }?;
            regions.extend(open.iter().map(|&region| RegionFrame { component: frame.component, region }));
        }
        Some(regions)
    }
}
