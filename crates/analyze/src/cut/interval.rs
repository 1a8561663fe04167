//! Intervals of sums of samples: each state of each thread is a stratum whose total is known, its samples say how that divides.

use rustc_hash::FxHashMap;

/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.96;

/// A sum of weights of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sampled {
    sum: f64,
    squares: f64,
}

impl Sampled {
    /// So much weight, in samples of which each weighs as much as that.
    pub fn new(weight: i64, per_sample: f64) -> Self {
        let sum = weight as f64;
        Self { sum, squares: sum * per_sample }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// Sums by row and stratum.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    ends_only: bool,
    whole: FxHashMap<u64, Sampled>,
    rows: Vec<FxHashMap<u64, Sampled>>,
}

impl Intervals {
    /// Nothing yet. `ends_only`: rows are ranges of time, whose sums are off only by the samples next to their ends.
    pub fn new(ends_only: bool) -> Self {
        Self { ends_only, ..Self::default() }
    }

    /// A part of all of a stratum's samples.
    pub fn add_all(&mut self, stratum: u64, part: Sampled) {
        self.whole.entry(stratum).or_default().add(part);
    }

    /// A part of a row.
    pub fn add(&mut self, row: u32, stratum: u64, part: Sampled) {
        let row = row as usize;
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, FxHashMap::default);
        }
        self.rows[row].entry(stratum).or_default().add(part);
    }

    /// Half of the width of a row's interval: of each stratum the binomial variance of its part, of as many samples as its
    /// weights are worth (Kish, "Survey Sampling", 1965), with two more of either kind (Agresti and Coull, 1998), so that few
    /// samples do not look certain.
    pub fn half_width(&self, row: u32) -> f64 {
        let Some(parts) = self.rows.get(row as usize) else { return 0.0 };
        let variance = |(stratum, part): (&u64, &Sampled)| {
            let all = self.whole.get(stratum).copied().unwrap_or_default();
            if all.squares <= 0.0 || all.sum <= 0.0 {
                return 0.0;
            }
            if self.ends_only {
                return if part.sum > 0.0 { (part.squares / part.sum).powi(2) } else { 0.0 };
            }
            let samples = all.sum * all.sum / all.squares;
            let share = (part.sum / all.sum).clamp(0.0, 1.0);
            let (samples, share) = (samples + 4.0, (share * samples + 2.0) / (samples + 4.0));
            all.sum * all.sum * share * (1.0 - share) / samples
        };
        Z * parts.iter().map(variance).sum::<f64>().sqrt()
    }

    /// How much more than it has a row could have of its strata.
    pub fn room(&self, row: u32) -> f64 {
        let parts = self.rows.get(row as usize).into_iter().flatten();
        parts.map(|(stratum, part)| self.whole.get(stratum).map_or(0.0, |all| (all.sum - part.sum).max(0.0))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_hundred_samples_is_known_to_a_tenth() {
        let mut intervals = Intervals::default();
        for at in 0..100 {
            intervals.add_all(7, Sampled::new(1000, 1000.0));
            intervals.add(u32::from(at % 2 == 0), 7, Sampled::new(1000, 1000.0));
        }
        let half = intervals.half_width(0) / 100_000.0;
        assert!((0.09..0.11).contains(&half), "{half}");
        assert_eq!(intervals.half_width(5), 0.0);
    }

    #[test]
    fn threads_are_strata() {
        let mut intervals = Intervals::default();
        for task in 0..100 {
            intervals.add_all(task, Sampled::new(1_000_000, 1000.0));
            intervals.add(0, task, Sampled::new(500_000, 1000.0));
        }
        // A hundred thousand samples in all.
        let share = intervals.half_width(0) / 1e8;
        assert!((0.0025..0.0035).contains(&share), "{share}");
    }
}
