//! Regions whose events would cost more of the run than they may.

use std::time::Duration;

use super::fold::RegionNumber;
use super::spent::DETOUR;

/// How much events may cost.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Share of the threads' time.
    pub share: f64,
    /// One event, ns.
    pub event_ns: f64,
    /// Ticks of a nanosecond.
    pub ticks_per_ns: f64,
}

/// A region that was too hot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HotRegion {
    /// Its number in the recording.
    pub region: RegionNumber,
    /// Share of the threads' time that its events took.
    pub share: f64,
}

impl Budget {
    /// What events of so many threads may cost in a time, ns.
    pub fn of(&self, time: Duration, threads: usize) -> f64 {
        time.as_nanos() as f64 * threads as f64 * self.share
    }

    /// What events cost, ns.
    pub fn cost(&self, events: u64) -> f64 {
        events as f64 * self.event_ns * DETOUR
    }

    /// Which regions to switch off, the hottest first: those without which the others' events cost no more than they may.
    /// `events`: by region, in the time `window`, in which `threads` threads had events and waited `waited` ns for room. While
    /// there are `debts` of what was spent too much (1: that of a whole window), there is less to spend.
    pub fn too_hot(&self, events: &[u64], window: Duration, threads: usize, waited: f64, debts: f64) -> Vec<HotRegion> {
        let time = window.as_nanos() as f64 * threads as f64;
        if time <= 0.0 {
            return Vec::new();
        }
        let all: u64 = events.iter().sum();
        // Who writes more than is read makes others wait.
        let each = waited / all.max(1) as f64;
        let share = |events: u64| (self.cost(events) + each * events as f64) / time;
        let mut left = share(all);
        let allowed = self.share * (1.0 - debts).clamp(0.0, 1.0);
        let mut by_heat: Vec<RegionNumber> =
            (0..events.len() as RegionNumber).filter(|&region| events[region as usize] > 0).collect();
        by_heat.sort_by_key(|&region| std::cmp::Reverse(events[region as usize]));
        let mut hot = Vec::new();
        for region in by_heat {
            if left <= allowed {
                break;
            }
            let share = share(events[region as usize]);
            left -= share;
            hot.push(HotRegion { region, share });
        }
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_go_first_and_no_more_than_needed() {
        let budget = Budget { share: 0.03, event_ns: 12.0, ticks_per_ns: 2.0 };
        let second = Duration::from_secs(1);
        let hot = |events: &[u64]| -> Vec<RegionNumber> {
            budget.too_hot(events, second, 1, 0.0, 0.0).into_iter().map(|hot| hot.region).collect()
        };
        assert!(hot(&[1000, 900_000, 1000]).is_empty());
        assert_eq!(hot(&[1000, 2_000_000, 500_000]), [1]);
        assert_eq!(hot(&[5_000_000, 2_000_000, 500_000]), [0, 1]);
        assert!(budget.too_hot(&[2_000_000], second, 4, 0.0, 0.0).is_empty());
        assert!(budget.too_hot(&[2_000_000], second, 0, 0.0, 0.0).is_empty());
        // Waits are theirs who write most.
        let waiting = budget.too_hot(&[1000, 900_000, 1000], second, 1, 5e8, 0.0);
        assert_eq!(waiting.iter().map(|hot| hot.region).collect::<Vec<_>>(), [1]);
        // In debt, what would have been allowed is too much; who is silent is left on.
        let in_debt = budget.too_hot(&[1000, 900_000, 0], second, 1, 0.0, 2.0);
        assert_eq!(in_debt.iter().map(|hot| hot.region).collect::<Vec<_>>(), [1, 0]);
    }
}
