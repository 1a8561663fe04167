//! Folding one event at a time.

use rustc_hash::FxHashMap;
use transect_event_abi::region_arena::EVENT_KIND_SHIFT;
use transect_feature_region::SiteKind;

use super::catalog::Catalog;
use super::fold::{NONE, RegionSpan, ThreadFold};
use super::rate_limiter::RateLimiter;
use super::region_file::ReadEvent;
use super::region_spans::RegionSpans;

/// The part of an event's `what` that is the site's address.
pub const ADDRESS: u64 = (1 << EVENT_KIND_SHIFT) - 1;

/// What folds events of one thread.
pub struct EventFolder<'a> {
    /// Numbers of sites by address.
    pub sites: &'a FxHashMap<u64, u32>,
    /// What they do.
    pub catalog: &'a Catalog,
    /// The thread's tree.
    pub fold: &'a mut ThreadFold,
    /// Counts by region.
    pub rate_limiter: &'a mut RateLimiter,
    /// The thread.
    pub thread: u32,
    /// Spans of all threads.
    pub spans: &'a mut RegionSpans,
}

impl EventFolder<'_> {
    /// Folds one event; false if its site is unknown.
    pub fn take(&mut self, event: ReadEvent) -> bool {
        let Some(&number) = self.sites.get(&(event.what & ADDRESS)) else { return false };
        let site = &self.catalog.sites[number as usize];
        if !site.wanted {
            return true;
        }
        // Who restores is heard even if its own region is off: it tells of those around, too.
        if site.kind != SiteKind::Restore && site.region != NONE && !self.rate_limiter.counts(site.region) {
            return true;
        }
        let Self { fold, catalog, spans, thread, .. } = self;
        let mut keep = |span: RegionSpan| spans.add(*thread, span);
        match site.kind {
            SiteKind::Begin => fold.begin(event.ticks, site.region, event.stack, &catalog.parents, &mut keep),
            SiteKind::End => fold.end(event.ticks, site.region, event.stack, &mut keep),
            SiteKind::Restore => fold.restore(event.ticks, event.stack, &site.remain, &mut keep),
        }
        true
    }
}
