//! How long a lock is held: from the hold times of some acquisitions to that of all.

use crate::extent;

/// Who takes a hold's time finds caches and predictions displaced: so many ns more or less, by holds of known length on busy and
/// on idle machines.
const UNSURE_NS: f64 = 6.0;

/// What one record of a thread's says of its lock (`transect_event_abi::thread::LockRecord`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub acquisitions: f64,
    pub wait: f64,
    held: f64,
    samples: f64,
    /// Σ k(k−1)·d², Σ k(k−1)·d and Σ k(k−1) of holds that took d and stand for k acquisitions.
    spread: [f64; 3],
}

impl Record {
    pub fn of(l: &[u64; 16]) -> Self {
        Record {
            acquisitions: l[2] as f64,
            wait: l[4] as f64,
            held: l[5] as f64,
            samples: l[6] as f64,
            spread: [l[8], l[9], l[10]].map(f64::from_bits),
        }
    }
}

/// What an empty hold shows, and how much of a longer one is hidden in that, ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub empty: f64,
    pub hidden: f64,
    pub unsure: f64,
}

impl Cost {
    pub fn of(p: &extent::Process, rate: f64) -> Self {
        let [empty, hidden] =
            [p.empty_hold, p.hidden_hold].map(|ticks| f64::from(ticks) / f64::from(extent::HOLD_SCALE));
        Cost { empty, hidden, unsure: UNSURE_NS * rate }
    }

    /// A hold that shows so many ticks in the mean: what it takes, at least and at most.
    fn off(self, shown: f64) -> [f64; 3] {
        let low = (shown - self.empty).max(0.0);
        let high = (shown - self.empty + self.hidden).max(0.0);
        // The first ticks show nothing.
        let middle = ((self.hidden + 3.0 * (shown - self.empty)) / 2.0).clamp(low, high);
        [middle, (low - self.unsure).max(0.0), high + self.unsure]
    }
}

/// Time that a lock is held, ticks, and how far that may be off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Hold {
    pub ticks: f64,
    /// For what taking the time costs: at least, at most.
    pub least: f64,
    pub most: f64,
    /// For the holds whose time was not taken.
    pub variance: f64,
}

impl Hold {
    /// By one thread that had `room` ticks for it.
    pub fn of(r: Record, cost: Cost, room: f64) -> Self {
        if r.samples == 0.0 {
            return Hold { most: if r.acquisitions > 0.0 { room } else { 0.0 }, ..Hold::default() };
        }
        let mean = r.held / r.samples;
        let [ticks, least, most] = cost.off(mean).map(|ticks| (ticks * r.acquisitions).min(room));
        let all = r.acquisitions / r.samples;
        let [squares, products, weights] = r.spread;
        let variance = (squares - 2.0 * mean * products + mean * mean * weights).max(0.0) * all * all;
        Hold { ticks, least, most, variance }
    }

    /// With that by another thread, or at another place.
    pub fn and(self, other: Hold) -> Self {
        Hold {
            ticks: self.ticks + other.ticks,
            least: self.least + other.least,
            most: self.most + other.most,
            variance: self.variance + other.variance,
        }
    }

    /// This part of it.
    pub fn times(self, part: f64) -> Self {
        Hold { ticks: self.ticks * part, least: self.least * part, most: self.most * part, ..self }
    }

    /// The 95 % interval, where there were `room` ticks for it.
    pub fn interval(self, room: f64) -> (f64, f64) {
        let half = 1.96 * self.variance.sqrt();
        let low = (self.least - half).max(0.0).min(self.ticks);
        (low, (self.most + half).min(room).max(self.ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { empty: 40.0, hidden: 10.0, unsure: 2.0 };

    fn record(acquisitions: f64, shown: f64) -> Record {
        Record { acquisitions, wait: 0.0, held: shown * 100.0, samples: 100.0, spread: [0.0; 3] }
    }

    #[test]
    fn what_an_empty_hold_shows_is_no_hold() {
        let hold = |shown| Hold::of(record(1000.0, shown), COST, 1e9);
        assert_eq!((hold(40.0).ticks, hold(40.0).interval(1e9)), (5000.0, (0.0, 12_000.0)));
        assert_eq!(hold(36.0).ticks, 0.0);
        assert_eq!((hold(140.0).ticks, hold(140.0).interval(1e9)), (110_000.0, (98_000.0, 112_000.0)));
    }

    #[test]
    fn no_lock_is_held_longer_than_there_was_time() {
        let mut long = record(1e6, 140.0);
        assert_eq!(Hold::of(long, COST, 5e6).ticks, 5e6);
        // One hold in a hundred took all of the time.
        long.spread = [990.0 * 1e8, 990.0 * 1e4, 990.0];
        let (low, high) = Hold::of(long, COST, 5e8).interval(5e8);
        assert_eq!((low, high), (0.0, 5e8));
        let few = Record { samples: 0.0, held: 0.0, ..long };
        assert_eq!(Hold::of(few, COST, 5e8).interval(5e8), (0.0, 5e8), "no sample");
    }

    #[test]
    fn equal_holds_have_no_spread() {
        let mut equal = record(1000.0, 140.0);
        equal.spread = [50.0 * 140.0 * 140.0, 50.0 * 140.0, 50.0];
        assert_eq!(Hold::of(equal, COST, 1e9).variance, 0.0);
    }
}
