//! Degree of parallelism over time, swept from the slices of all threads.

use transect_profile_model::Slice;

use super::Grid;

/// Active threads in each bin.
pub(super) struct Binned {
    mean: Vec<f64>,
    least: Vec<u16>,
    most: Vec<u16>,
}

impl Binned {
    pub(super) fn new(grid: Grid, slices: &[Slice]) -> Self {
        let mut starts: Vec<i64> = slices.iter().map(|slice| slice.start_ns).collect();
        let mut ends: Vec<i64> = slices.iter().map(|slice| slice.start_ns.saturating_add(slice.active_ns)).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let (mut mean, mut least, mut most) = (vec![0.0; grid.bins], vec![u16::MAX; grid.bins], vec![0_u16; grid.bins]);
        let (mut s, mut e, mut n, mut now) = (0, 0, 0_u32, grid.start_ns);
        loop {
            // An end goes before a start of the same instant: a thread that only changes hands is not two.
            let end_first = e < ends.len() && (s >= starts.len() || ends[e] <= starts[s]);
            let next = if end_first { ends[e] } else { starts.get(s).copied().unwrap_or(grid.end_ns) };
            let bounded = u16::try_from(n).unwrap_or(u16::MAX);
            grid.spread(now, next, |bin, ns| {
                mean[bin] += ns * f64::from(n);
                least[bin] = least[bin].min(bounded);
                most[bin] = most[bin].max(bounded);
            });
            now = now.max(next);
            if end_first {
                (e, n) = (e + 1, n.saturating_sub(1));
            } else if s < starts.len() {
                (s, n) = (s + 1, n + 1);
            } else {
                break;
            }
        }
        let width = grid.bin_ns();
        for bin in 0..grid.bins {
            mean[bin] /= width;
            least[bin] = least[bin].min(most[bin]);
        }
        Self { mean, least, most }
    }

    /// Share of the CPUs that a bin leaves idle, 0–1.
    pub(super) fn idle_share(&self, bin: usize, cpus: i64) -> f64 {
        let cpus = cpus.max(1) as f64;
        ((cpus - self.mean[bin]) / cpus).max(0.0)
    }

    /// Mean by 16, least and most as planes of 16-bit numbers, low byte first.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mean = self.mean.iter().map(|mean| (mean * 16.0).round().min(f64::from(u16::MAX)) as u16);
        mean.chain(self.least.iter().copied()).chain(self.most.iter().copied()).flat_map(u16::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_least_and_most_of_each_bin() {
        let slice =
            |start_ns, active_ns| Slice { task: 0, start_ns, active_ns, runnable_ns: 0, criticality_ns: 0, wait: -1 };
        let grid = Grid { start_ns: 0, end_ns: 400, bins: 4 };
        let binned = Binned::new(grid, &[slice(0, 100), slice(0, 150), slice(150, 50), slice(300, 50)]);
        assert_eq!(binned.mean, [2.0, 1.0, 0.0, 0.5]);
        assert_eq!(binned.least, [2, 1, 0, 0]);
        assert_eq!(binned.most, [2, 1, 0, 1]);
        assert_eq!(binned.idle_share(3, 2), 0.75);
        assert_eq!(binned.bytes().len(), 24);
    }
}
