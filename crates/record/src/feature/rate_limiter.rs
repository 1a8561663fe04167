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
/// What may have been spent too much before all is switched off, ns.
const LARGEST_DEBT: f64 = 50e6;
/// Shortest time between two looks: enough for a rate.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Called when there is a region to be switched off.
pub type Wake = Box<dyn Fn() + Send>;

/// Events by region, and an account of what they cost: it fills by the budget's share of the time, up to that of a window, and
/// who overdraws it is switched off. So bursts pass, and a loop that does nothing else is found within its first milliseconds.
pub struct RateLimiter {
    budget: Option<(Budget, Wake)>,
    say: Sender<HotObject>,
    /// What events may still cost, ns; below 0 what they have cost too much.
    credit: f64,
    /// Ticks that threads have waited for room, and how many of them are accounted for.
    waited: u64,
    accounted: u64,
    /// Such waits in this window, ns.
    waits: f64,
    /// Nothing is on any more.
    given_up: bool,
    /// Events since the last look, of regions that are on.
    fresh: u64,
    /// Events since the last look of regions whose switch-off was asked for.
    late: u64,
    /// More threads than there are CPUs don't run at a time: many that live shortly are no more room for events.
    cpus: usize,
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

impl RateLimiter {
    /// Without regions. `say` hears of those that are too hot.
    pub fn new(budget: Option<(Budget, Wake)>, say: Sender<HotObject>) -> Self {
        Self {
            credit: budget.as_ref().map_or(0.0, |(budget, _)| budget.of(WINDOW, 1) / 2.0),
            budget,
            say,
            waited: 0,
            accounted: 0,
            waits: 0.0,
            given_up: false,
            fresh: 0,
            late: 0,
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
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
        self.given_up &= regions == self.events.len();
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
        } else {
            self.late += 1;
        }
        !self.silent[region as usize]
    }

    /// A thread had events.
    pub fn warm(&mut self, thread: usize) {
        self.warm.insert(thread);
    }

    /// Threads have waited for room, so many ticks since the beginning.
    pub fn waited(&mut self, ticks: u64) {
        self.waited = ticks;
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
        let threads = self.warm.len().clamp(1, self.cpus);
        let full = budget.of(WINDOW, threads);
        // Threads wait for a full ring; regions that are off still fill it for a while, and that part is not the others' cost.
        let (fresh, late) = (std::mem::take(&mut self.fresh), std::mem::take(&mut self.late));
        let own = if late == 0 { 1.0 } else { fresh as f64 / (fresh + late) as f64 };
        let waits = self.waited.saturating_sub(self.accounted) as f64 / budget.ticks_per_ns * own;
        (self.accounted, self.waits) = (self.waited, self.waits + waits);
        self.credit = (self.credit + budget.of(since, threads)).min(full);
        self.credit -= budget.cost(fresh) + waits;
        let window = now.saturating_duration_since(self.window);
        if self.credit < 0.0 {
            let debts = -self.credit / full;
            let mut hot = budget.too_hot(&self.events, window, threads, self.waits, debts - 1.0);
            if -self.credit >= LARGEST_DEBT && !self.given_up {
                // Too much code is hot, one part after the other: samples tell of all of it.
                self.given_up = true;
                let rest = (0..self.events.len() as RegionNumber)
                    .filter(|region| !self.is_off[*region as usize] && !hot.iter().any(|own| own.region == *region));
                let rest: Vec<HotRegion> = rest.map(|region| HotRegion { region, share: 0.0 }).collect();
                hot.extend(rest);
            }
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
        } else if window < WINDOW {
            return;
        }
        self.waits = 0.0;
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
        rate_limiter: RateLimiter,
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
            let mut rate_limiter =
                RateLimiter::new(Some((Budget { share: 0.03, event_ns: 8.0, ticks_per_ns: 2.0 }, wake)), channel().0);
            rate_limiter.grow(3);
            let now = rate_limiter.window;
            Self { rate_limiter, now, woken }
        }

        /// So many events of each region in a millisecond, for so many milliseconds; gives those that were too hot.
        fn pass(&mut self, milliseconds: u32, events: [usize; 3]) -> Vec<RegionNumber> {
            for _ in 0..milliseconds {
                self.rate_limiter.warm(0);
                for (region, count) in events.into_iter().enumerate() {
                    for _ in 0..count {
                        self.rate_limiter.counts(region as RegionNumber);
                    }
                }
                self.now += Duration::from_millis(1);
                self.rate_limiter.judge(&Catalog::default(), self.now);
            }
            self.rate_limiter.off.iter().map(|hot| hot.region).collect()
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
    fn waits_for_room_cost_as_well() {
        let mut run = Run::new();
        // Few events, but threads waited 5 of 5 ms for them (two ticks a ns).
        run.rate_limiter.waited(10_000_000);
        assert_eq!(run.pass(2, [100, 0, 0]), [0]);
        // They are accounted for once: what is left is within what there is.
        run.rate_limiter.credit = 0.0;
        assert_eq!(run.pass(300, [0, 100, 0]), [0]);
    }

    /// A loop that is off fills the room for some time yet: what another region waits for that is no cost of it.
    #[test]
    fn waits_behind_a_region_that_is_off_are_its_own() {
        let mut run = Run::new();
        assert_eq!(run.pass(5, [20_000, 4, 0]), [0]);
        run.rate_limiter.waited(10_000_000);
        assert_eq!(run.pass(2, [20_000, 4, 0]), [0]);
        assert_eq!(run.pass(200, [0, 4, 0]), [0]);
    }

    /// Code that is hot a short while, one part after the other: each is found, and all of them together are within the budget.
    #[test]
    fn heat_that_moves_on_is_given_up() {
        const REGIONS: usize = 5000;
        let mut run = Run::new();
        run.rate_limiter.grow(REGIONS);
        let (mut spent, mut milliseconds) = (0_u64, 0);
        for phase in 0..REGIONS / 10 {
            for _ in 0..3 {
                milliseconds += 1;
                run.rate_limiter.warm(0);
                for region in phase * 10..phase * 10 + 10 {
                    if !run.rate_limiter.is_off[region] {
                        (0..1500).for_each(|_| assert!(run.rate_limiter.counts(region as RegionNumber)));
                        spent += 1500;
                    }
                }
                run.now += Duration::from_millis(1);
                run.rate_limiter.judge(&Catalog::default(), run.now);
            }
        }
        assert_eq!(run.rate_limiter.off.len(), REGIONS, "all are off at last");
        let spent_ms = spent as f64 * 20e-6;
        let allowed = 0.03 * f64::from(milliseconds) + 2.0 * LARGEST_DEBT / 1e6;
        assert!(spent_ms <= allowed, "{spent_ms} ms of {milliseconds} ms");
    }

    #[test]
    fn who_asks_for_all_gets_all() {
        let mut rate_limiter = RateLimiter::new(None, channel().0);
        rate_limiter.grow(1);
        assert!((0..1_000_000).all(|_| rate_limiter.counts(0)));
        rate_limiter.judge(&Catalog::default(), Instant::now() + WINDOW);
        assert!(rate_limiter.off.is_empty());
    }
}
