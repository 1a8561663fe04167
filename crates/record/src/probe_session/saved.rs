//! What a probe does, kept to be put back; and single sites that are planned elsewhere.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use transect_attach::AttachError;
use transect_probe::Descriptor;
use transect_probe_plan::{Function, Plan, Site};

use super::session::{ProbeSession, SiteId, SiteState};

/// Whether a probe is on, and its handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedProbe {
    on: bool,
    enter: u64,
    exit: u64,
}

impl ProbeSession {
    /// The words of the handlers at entry and exit.
    fn handler_words(&self, id: SiteId) -> [&AtomicU64; 2] {
        let block = self.sites[id as usize].block;
        [offset_of!(Descriptor, enter), offset_of!(Descriptor, exit)].map(|at| self.arena.word(block + at as u64))
    }

    /// All probes that stand in the text, and what they do now.
    pub fn saved(&self) -> BTreeMap<SiteId, SavedProbe> {
        let ids = 0..self.sites.len() as SiteId;
        let installed = ids.filter(|&id| self.sites[id as usize].state == SiteState::Installed);
        installed.map(|id| (id, self.save(id))).collect()
    }

    /// What a probe does now.
    pub fn save(&self, id: SiteId) -> SavedProbe {
        let [enter, exit] = self.handler_words(id).map(|word| word.load(Relaxed));
        SavedProbe { on: self.is_on(id), enter, exit }
    }

    /// Makes it do that again.
    pub fn put_back(&self, id: SiteId, saved: SavedProbe) {
        if !saved.on {
            self.switch(id, false);
        }
        let [enter, exit] = self.handler_words(id);
        enter.store(saved.enter, Release);
        exit.store(saved.exit, Release);
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
        let plan = Rc::new(Plan { functions: vec![function.clone()], sites: vec![site], refused: Vec::new() });
        let plans = [(object, plan, vec![0])];
        let places = self.make_room(&plans)?;
        let Some((region, offset)) = places.first() else { return Ok(None) };
        Ok(self.build(object, function, &plans[0].1.sites[0], region, *offset))
    }
}
