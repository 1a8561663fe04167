//! What a probe does, kept to be put back; and single sites that are planned elsewhere.

use std::mem::offset_of;
use std::sync::atomic::Ordering::{Relaxed, Release};

use transect_attach::AttachError;
use transect_probe::Descriptor;
use transect_probe_plan::{Function, Plan, Site};

use super::session::{ProbeSession, SiteId};

/// Whether a probe is on, and its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedProbe {
    on: bool,
    enter: u64,
}

impl ProbeSession {
    fn handler_word(&self, id: SiteId) -> u64 {
        self.sites[id as usize].block + offset_of!(Descriptor, enter) as u64
    }

    /// What a probe does now.
    pub fn save(&self, id: SiteId) -> SavedProbe {
        SavedProbe { on: self.is_on(id), enter: self.arena.word(self.handler_word(id)).load(Relaxed) }
    }

    /// Makes it do that again.
    pub fn put_back(&self, id: SiteId, saved: SavedProbe) {
        if !saved.on {
            self.switch(id, false);
        }
        self.arena.word(self.handler_word(id)).store(saved.enter, Release);
        if saved.on {
            self.switch(id, true);
        }
    }

    /// Builds the probe of one planned site of an object (a point inside of a function, say); `None` if its block can't
    /// be placed in reach.
    ///
    /// # Errors
    /// If there is no room for trampolines, or the process ends.
    pub fn prepare_site(
        &mut self,
        object: usize,
        function: &Function,
        site: &Site,
    ) -> Result<Option<SiteId>, AttachError> {
        if let Some(id) = self.placed.get(&(object, site.vaddr)) {
            return Ok(Some(*id));
        }
        let site = Site { function: 0, ..site.clone() };
        let plan = Plan { functions: vec![function.clone()], sites: vec![site], refused: Vec::new() };
        let plans = [(object, plan, vec![0])];
        let places = self.make_room(&plans)?;
        let Some((region, offset)) = places.first() else { return Ok(None) };
        Ok(self.build(object, function, &plans[0].1.sites[0], region, *offset))
    }
}
