//! How exactly the mean time of each configuration is known: by its repeated runs.

use crate::Measurement;
use crate::explain::Task;

/// Powers of the mean that a run's standard deviation may follow: a clock's or scheduler's share, and a busy machine's.
const POWERS: [f64; 3] = [1.0, 0.5, 0.0];
/// Degrees of freedom below which deviations are taken to be shares of the time.
const FREEDOM_TO_CHOOSE: f64 = 16.0;
/// Logarithm of a likelihood ratio.
const CLEARLY: f64 = 2.0;
/// Times below this share of the longest count as that long: a share of next to nothing is no noise.
const LEAST_SHARE: f64 = 0.01;

/// Means of configurations in units of their runs' noise.
pub(crate) struct Noise {
    /// What a time of 1 stands for, ns.
    pub(crate) unit: f64,
    /// For each configuration: the number that its mean and its columns are multiplied by, so that all are as exact.
    pub(crate) weights: Vec<f64>,
    /// Sum of the squared deviations of runs from their configuration's mean, in those units.
    pub(crate) squares: f64,
    /// Runs less configurations, of those whose time has noise.
    pub(crate) freedom: f64,
    /// Runs less configurations, of all.
    pub(crate) repeats: f64,
    /// Configurations whose time is next to nothing: they tell of terms, but of no noise.
    pub(crate) silent: usize,
}

impl Noise {
    /// Of times, one for each run that terms come from; `means` are those of the configurations.
    pub(crate) fn new(task: &Task<'_>, times: &[f64], means: &[f64]) -> Self {
        let unit = (means.iter().map(|mean| mean * mean).sum::<f64>() / means.len() as f64).sqrt();
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let longest = means.iter().copied().fold(0.0, f64::max);
        let sizes: Vec<f64> = means.iter().map(|mean| mean.max(LEAST_SHARE * longest).max(1.0) / unit).collect();
        let (mut counts, mut deviations) = (vec![0.0_f64; means.len()], vec![0.0_f64; means.len()]);
        for (run, time) in task.training.iter().zip(times) {
            let place = task.places.binary_search(&run.0).unwrap_or_default();
            // Such as the time of a feature that is not selected.
            if means[place] < LEAST_SHARE * longest {
                counts[place] = 1.0;
                continue;
            }
            counts[place] += 1.0;
            deviations[place] += ((time - means[place]) / unit).powi(2);
        }
        let freedom = counts.iter().sum::<f64>() - counts.len() as f64;
        let squares = |power: f64| {
            sizes.iter().zip(&deviations).map(|(size, own)| own / size.powf(2.0 * power)).sum::<f64>().max(1e-12)
        };
        // Likelihood of the deviations if they follow this power.
        let likelihood = |power: f64| {
            let sizes = sizes.iter().zip(&counts).map(|(size, count)| (count - 1.0) * power * size.ln()).sum::<f64>();
            -freedom / 2.0 * squares(power).ln() - sizes
        };
        // Another power than the first has to be clearly more likely.
        let best = POWERS.into_iter().max_by(|a, b| likelihood(*a).total_cmp(&likelihood(*b))).unwrap_or(POWERS[0]);
        let clear = freedom >= FREEDOM_TO_CHOOSE && likelihood(best) > likelihood(POWERS[0]) + CLEARLY;
        let chosen = if clear { best } else { POWERS[0] };
        let of = |place: &usize| task.training.iter().filter(|run| run.0 == *place).count() as f64;
        let counts: Vec<f64> = task.places.iter().map(of).collect();
        let runs = counts.iter().sum::<f64>();
        let weights = sizes.iter().zip(&counts).map(|(size, count)| count.sqrt() / size.powf(chosen)).collect();
        let silent = means.iter().filter(|mean| **mean < LEAST_SHARE * longest).count();
        let repeats = runs - means.len() as f64;
        Self { unit, weights, squares: squares(chosen), freedom, repeats, silent }
    }
}

/// The longest run, ns: no option adds or saves more.
pub(crate) fn longest(runs: &[(usize, Measurement)], time: &impl Fn(&Measurement) -> f64) -> f64 {
    runs.iter().map(|(_, own)| time(own)).fold(0.0, f64::max)
}
