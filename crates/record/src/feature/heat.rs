//! How many events each region has, and which regions are off for that.

use std::collections::HashSet;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::budget::{Budget, HotRegion};
use super::catalog::Catalog;
use super::fold::RegionNumber;
use super::reader::HotObject;

/// How often it is looked what events cost.
const WINDOW: Duration = Duration::from_millis(100);

/// Events by region.
pub struct Heat {
    budget: Option<Budget>,
    say: Sender<HotObject>,
    /// In this window.
    events: Vec<u64>,
    /// It was asked for its sites to be switched off.
    is_off: Vec<bool>,
    /// It is off: what threads that were on their way still say of it does not count.
    silent: Vec<bool>,
    window: Instant,
    /// Threads that had events in this window.
    warm: HashSet<usize>,
    /// Regions that were too hot.
    pub off: Vec<HotRegion>,
}

impl Heat {
    /// Without regions. `say` hears of those that are too hot.
    pub fn new(budget: Option<Budget>, say: Sender<HotObject>) -> Self {
        Self {
            budget,
            say,
            events: Vec::new(),
            is_off: Vec::new(),
            silent: Vec::new(),
            window: Instant::now(),
            warm: HashSet::new(),
            off: Vec::new(),
        }
    }

    /// There are so many regions now.
    pub fn grow(&mut self, regions: usize) {
        self.events.resize(regions, 0);
        self.is_off.resize(regions, false);
        self.silent.resize(regions, false);
    }

    /// Counts an event; false if its region is off.
    pub fn counts(&mut self, region: RegionNumber) -> bool {
        self.events[region as usize] += 1;
        !self.silent[region as usize]
    }

    /// A thread had events.
    pub fn warm(&mut self, thread: usize) {
        self.warm.insert(thread);
    }

    /// The sites of a region are off.
    pub fn silence(&mut self, region: RegionNumber) {
        self.silent[region as usize] = true;
    }

    /// They are on again.
    pub fn speak(&mut self, region: RegionNumber) {
        self.silent[region as usize] = false;
    }

    /// Looks whether events cost more than they may.
    pub fn judge(&mut self, catalog: &Catalog) {
        let Some(budget) = self.budget else { return };
        let window = self.window.elapsed();
        if window < WINDOW {
            return;
        }
        for hot in budget.too_hot(&self.events, window, self.warm.len()) {
            if std::mem::replace(&mut self.is_off[hot.region as usize], true) {
                continue;
            }
            self.off.push(hot);
            if let Some((object, number)) = catalog.region(hot.region) {
                let path = catalog.objects[object].path.clone();
                // The session may be at its end.
                let _ = self.say.send(HotObject { path, number, region: hot.region });
            }
        }
        self.events.fill(0);
        self.warm.clear();
        self.window = Instant::now();
    }
}
