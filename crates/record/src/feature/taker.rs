//! Folding one event at a time.

use rustc_hash::FxHashMap;
use transect_event_abi::region_arena::EVENT_KIND_SHIFT;
use transect_feature_region::SiteKind;

use super::catalog::Catalog;
use super::fold::{NONE, Stay, ThreadFold};
use super::heat::Heat;
use super::region_file::ReadEvent;
use super::stays::Stays;

/// The part of an event's `what` that is the site's address.
pub const ADDRESS: u64 = (1 << EVENT_KIND_SHIFT) - 1;

/// What folds events of one thread.
pub struct Taker<'a> {
    /// Numbers of sites by address.
    pub sites: &'a FxHashMap<u64, u32>,
    /// What they do.
    pub catalog: &'a Catalog,
    /// The thread's tree.
    pub fold: &'a mut ThreadFold,
    /// Counts by region.
    pub heat: &'a mut Heat,
    /// The thread.
    pub thread: u32,
    /// Stays of all threads.
    pub stays: &'a mut Stays,
}

impl Taker<'_> {
    /// Folds one event; false if its site is unknown.
    pub fn take(&mut self, event: ReadEvent) -> bool {
        let Some(&number) = self.sites.get(&(event.what & ADDRESS)) else { return false };
        let site = &self.catalog.sites[number as usize];
        if !site.wanted {
            return true;
        }
        // Who restores is heard even if its own region is off: it tells of those around, too.
        if site.kind != SiteKind::Restore && site.region != NONE && !self.heat.counts(site.region) {
            return true;
        }
        let Self { fold, catalog, stays, thread, .. } = self;
        let mut keep = |stay: Stay| stays.add(*thread, stay);
        match site.kind {
            SiteKind::Begin => fold.begin(event.ticks, site.region, event.stack, &catalog.parents, &mut keep),
            SiteKind::End => fold.end(event.ticks, site.region, event.stack, &mut keep),
            SiteKind::Restore => fold.restore(event.ticks, event.stack, &site.remain, &mut keep),
        }
        true
    }
}
