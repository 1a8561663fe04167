//! How many events each region has, and which regions are off for that.

use std::collections::HashSet;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::budget::{Budget, HotRegion};
use super::catalog::Catalog;
use super::fold::RegionNumber;
use super::reader::HotObject;

/// Time over which what regions cost is averaged.
const WINDOW: Duration = Duration::from_millis(100);
/// Shortest time between two looks: enough for a rate.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Called when there is a region to be switched off.
pub type Wake = Box<dyn Fn() + Send>;

/// Events by region, and an account of what they cost: it fills by the budget's share of the time, up to that of a window, and
/// who overdraws it is switched off. So bursts pass, and a loop that does nothing else is found within its first milliseconds.
pub struct Heat {
    budget: Option<(Budget, Wake)>,
    say: Sender<HotObject>,
    /// What events may still cost, ns.
    credit: f64,
    /// Events since the last look, of regions that are on.
    fresh: u64,
    /// More threads than there are processors don't run at a time: many that live shortly are no more room for events.
    processors: usize,
    /// In this window.
    events: Vec<u64>,
    /// It was asked for its sites to be switched off.
    is_off: Vec<bool>,
    /// It is off: what threads that were on their way still say of it does not count.
    silent: Vec<bool>,
    window: Instant,
    looked: Instant,
    /// Threads that had events in this window.
    warm: HashSet<usize>,
    /// Regions that were too hot.
    pub off: Vec<HotRegion>,
}

impl Heat {
    /// Without regions. `say` hears of those that are too hot.
    pub fn new(budget: Option<(Budget, Wake)>, say: Sender<HotObject>) -> Self {
        Self {
            credit: budget.as_ref().map_or(0.0, |(budget, _)| budget.of(WINDOW, 1) / 2.0),
            budget,
            say,
            fresh: 0,
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            events: Vec::new(),
            is_off: Vec::new(),
            silent: Vec::new(),
            window: Instant::now(),
            looked: Instant::now(),
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
        // What is still on its way after the switch was asked for is not the others' cost.
        if !self.is_off[region as usize] {
            self.events[region as usize] += 1;
            self.fresh += 1;
        }
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
    pub fn judge(&mut self, catalog: &Catalog, now: Instant) {
        let Some((budget, wake)) = &self.budget else { return };
        let since = now.saturating_duration_since(self.looked);
        if since < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let threads = self.warm.len().clamp(1, self.processors);
        self.credit = (self.credit + budget.of(since, threads)).min(budget.of(WINDOW, threads));
        self.credit -= budget.cost(std::mem::take(&mut self.fresh));
        let window = now.saturating_duration_since(self.window);
        if self.credit < 0.0 {
            let hot = budget.too_hot(&self.events, window, threads);
            for hot in &hot {
                self.is_off[hot.region as usize] = true;
                self.off.push(*hot);
                if let Some((object, number)) = catalog.region(hot.region) {
                    let path = catalog.objects[object].path.clone();
                    // The session may be at its end.
                    let _ = self.say.send(HotObject { path, number, region: hot.region });
                }
            }
            if !hot.is_empty() {
                wake();
            }
            // What is left is judged by what it does from here on.
            self.credit = 0.0;
        } else if window < WINDOW {
            return;
        }
        self.events.fill(0);
        self.warm.clear();
        self.window = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc::channel;

    use super::*;

    /// Three regions, of events that cost 20 ns, and may take 3 %.
    struct Run {
        heat: Heat,
        now: Instant,
        woken: Arc<AtomicUsize>,
    }

    impl Run {
        fn new() -> Self {
            let woken = Arc::new(AtomicUsize::new(0));
            let wake = woken.clone();
            let wake: Wake = Box::new(move || {
                wake.fetch_add(1, Relaxed);
            });
            let mut heat = Heat::new(Some((Budget { share: 0.03, event_ns: 8.0 }, wake)), channel().0);
            heat.grow(3);
            let now = heat.window;
            Self { heat, now, woken }
        }

        /// So many events of each region in a millisecond, for so many milliseconds; gives those that were too hot.
        fn pass(&mut self, milliseconds: u32, events: [usize; 3]) -> Vec<RegionNumber> {
            for _ in 0..milliseconds {
                self.heat.warm(0);
                for (region, count) in events.into_iter().enumerate() {
                    for _ in 0..count {
                        self.heat.counts(region as RegionNumber);
                    }
                }
                self.now += Duration::from_millis(1);
                self.heat.judge(&Catalog::default(), self.now);
            }
            self.heat.off.iter().map(|hot| hot.region).collect()
        }
    }

    #[test]
    fn a_hot_loop_is_found_within_milliseconds() {
        let mut run = Run::new();
        assert_eq!(run.pass(5, [20_000, 10, 300]), [0]);
        assert_eq!(run.woken.load(Relaxed), 1);
        // Threads on their way, and the others, are none of its cost.
        assert_eq!(run.pass(200, [20_000, 10, 300]), [0]);
    }

    #[test]
    fn bursts_pass_if_they_are_few() {
        let mut run = Run::new();
        assert!(run.pass(1, [60_000, 0, 0]).is_empty());
        assert!(run.pass(200, [0, 100, 100]).is_empty());
        assert!(run.pass(2, [60_000, 0, 0]).is_empty());
        assert_eq!(run.pass(3, [60_000, 0, 0]), [0]);
    }

    #[test]
    fn what_lies_within_the_budget_stays_for_ever() {
        let mut run = Run::new();
        assert!(run.pass(3000, [500, 700, 200]).is_empty());
        assert_eq!(run.pass(700, [500, 700, 600]), [1]);
    }

    #[test]
    fn who_asks_for_all_gets_all() {
        let mut heat = Heat::new(None, channel().0);
        heat.grow(1);
        assert!((0..1_000_000).all(|_| heat.counts(0)));
        heat.judge(&Catalog::default(), Instant::now() + WINDOW);
        assert!(heat.off.is_empty());
    }
}
