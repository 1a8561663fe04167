//! Runs that something else disturbed.

use crate::Measurement;

/// Distance from the median, in robust standard deviations, from which on a run is left out.
const FAR: f64 = 5.0;
/// A normal distribution's standard deviation, in medians of absolute deviations.
const DEVIATION: f64 = 1.4826;
/// Deviations are taken to be at least this share of the median: clocks and caches are never more exact.
const LEAST: f64 = 0.01;
/// Runs of a configuration below which none is left out.
const FEW: usize = 4;

/// For each run whether it lies far from the median of its configuration's runs.
pub(crate) fn find(runs: &[(usize, Measurement)], time: &impl Fn(&Measurement) -> f64) -> Vec<bool> {
    let configurations = runs.iter().map(|(place, _)| place + 1).max().unwrap_or(0);
    let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); configurations];
    for (place, bounds) in bounds.iter_mut().enumerate() {
        let times: Vec<f64> = runs.iter().filter(|run| run.0 == place).map(|(_, own)| time(own)).collect();
        if times.len() >= FEW {
            let middle = median(&times);
            let distances: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
            let width = FAR * (DEVIATION * median(&distances)).max(LEAST * middle.abs());
            *bounds = (middle - width, middle + width);
        }
    }
    runs.iter().map(|(place, own)| !(bounds[*place].0..=bounds[*place].1).contains(&time(own))).collect()
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}
