//! Criticality without those who only spin.

use rustc_hash::FxHashMap;
use transect_profile_model::{SchedSample, SchedSession, SchedTables};

use super::apportion::apportion;

/// Criticality as it would be if spinning threads did not count as active. What they gained at *n* active threads goes
/// to what others were sampled working on at the same *n*, in proportion: with one worker and three spinners, each
/// instant's four quarters all become the worker's. An estimate, since samples of both are not of the same instants;
/// the sum stays the same. Where nobody was seen working at that *n*, spinners keep it.
pub(super) struct Correction {
    /// Per row of [`SchedTables::samples`], ns.
    pub corrected_ns: Vec<i64>,
    /// Who worked most while others spun, as rows of samples: (application, n) to the sample with the largest gain.
    workers: FxHashMap<(u32, i32), usize>,
    per_process: bool,
}

impl Correction {
    pub fn new(session: &SchedSession, tables: &SchedTables) -> Self {
        let mut correction = Self {
            corrected_ns: tables.samples.iter().map(|sample| sample.criticality_ns).collect(),
            workers: FxHashMap::default(),
            per_process: session.per_process,
        };
        let mut levels: FxHashMap<(u32, i32), Vec<usize>> = FxHashMap::default();
        for sample in tables.samples.iter().filter(|sample| sample.spin) {
            levels.entry(correction.level(tables, sample)).or_default();
        }
        if levels.is_empty() {
            return correction;
        }
        for (row, sample) in tables.samples.iter().enumerate() {
            if let Some(rows) = levels.get_mut(&correction.level(tables, sample)) {
                rows.push(row);
            }
        }
        for (level, rows) in levels {
            let weight = |&row: &usize| tables.samples[row].criticality_ns;
            let (spinning, working): (Vec<usize>, Vec<usize>) = rows.iter().partition(|&&r| tables.samples[r].spin);
            let Some(&most) = working.iter().max_by_key(|row| (weight(row), std::cmp::Reverse(**row))) else {
                continue;
            };
            if weight(&most) <= 0 {
                continue;
            }
            let spun = spinning.iter().map(weight).sum();
            let gains = apportion(spun, &working.iter().map(weight).collect::<Vec<_>>());
            working.iter().zip(gains).for_each(|(&row, gain)| correction.corrected_ns[row] += gain);
            spinning.iter().for_each(|&row| correction.corrected_ns[row] = 0);
            correction.workers.insert(level, most);
        }
        correction
    }

    fn level(&self, tables: &SchedTables, sample: &SchedSample) -> (u32, i32) {
        let process = tables.tasks.get(sample.task as usize).map_or(0, |task| task.process);
        (if self.per_process { process } else { 0 }, sample.n)
    }

    /// The row of samples that worked most while `spinner` spun.
    pub fn meanwhile(&self, tables: &SchedTables, spinner: &SchedSample) -> Option<usize> {
        self.workers.get(&self.level(tables, spinner)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::criticality::testing::{sample, session};

    #[test]
    fn the_worker_gets_what_three_spinners_gained() {
        let samples = vec![
            sample(0, 0, 4, 25, false),
            sample(1, 1, 4, 25, true),
            sample(2, 1, 4, 25, true),
            sample(3, 1, 4, 25, true),
            sample(0, 2, 1, 40, false),
            sample(1, 1, 2, 9, true),
        ];
        let tables = SchedTables { samples, ..SchedTables::default() };
        let correction = Correction::new(&session(4), &tables);
        // Nobody was seen working at n = 2.
        assert_eq!(correction.corrected_ns, [100, 0, 0, 0, 40, 9]);
        assert_eq!(correction.meanwhile(&tables, &tables.samples[2]), Some(0));
        assert_eq!(correction.meanwhile(&tables, &tables.samples[5]), None);
    }
}
