//! Terms with intervals, averaged over all sets of terms that explain the times about as well (Bayesian model averaging).
//!
//! Few configurations are explained by many sets of terms; the best of them alone would be sure of what it can't know.
//! A term's interval excludes nothing only if nearly all probable sets have the term.

mod confounded;
mod evidence;
mod mixture;
mod prior;
mod search;

use crate::column::Column;
use crate::least_squares::Solver;
use crate::noise::Noise;

use evidence::{Evidence, logarithm_of_sum};
use mixture::Mixture;
use prior::Prior;

/// Sets that weigh less are not solved.
const LEAST_WEIGHT: f64 = 1e-3;
/// Probability below which a term's interval is nothing but 0.
const LEAST_PROBABILITY: f64 = 0.025;

/// Share of the longest run by which a program without options may take less than nothing.
const ROUNDING: f64 = 0.05;

/// A term.
#[derive(Debug, Clone)]
pub(crate) struct Averaged {
    /// Probability that there is one.
    pub(crate) probability: f64,
    /// Its mean over all sets, ns.
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Average {
    /// For each column.
    pub(crate) terms: Vec<Averaged>,
    /// Columns of which one is a term, and it can't be told which.
    pub(crate) confounded: Vec<Vec<usize>>,
}

/// Averages over sets of `columns` (the base first), whose numbers for each configuration are in `numbers`. No term is
/// larger than `longest`.
pub(crate) fn average(
    columns: &[Column],
    numbers: &[Vec<f64>],
    means: &[f64],
    noise: &Noise,
    misfit: bool,
    longest: f64,
) -> Average {
    let weighted: Vec<Vec<f64>> = numbers
        .iter()
        .map(|column| column.iter().zip(&noise.weights).map(|(number, weight)| number * weight).collect())
        .collect();
    let times: Vec<f64> = means.iter().zip(&noise.weights).map(|(mean, weight)| mean / noise.unit * weight).collect();
    let evidence = Evidence::new(means.len(), noise, misfit);
    let found = search::search(&weighted, &times, &evidence, &Prior::new(columns));
    let limit = longest / noise.unit;
    let mut solved: Vec<Solved> = found
        .iter()
        .filter(|(_, score)| *score >= found[0].1 + LEAST_WEIGHT.ln())
        .filter_map(|(model, score)| Solved::new(model, *score, &weighted, &times, &evidence))
        .collect();
    // What is physically impossible does not explain anything.
    if solved.iter().any(|own| own.is_possible(limit)) {
        solved.retain(|own| own.is_possible(limit));
    }
    let total = logarithm_of_sum(solved.iter().map(|own| own.score));
    solved.iter_mut().for_each(|own| own.score = (own.score - total).exp());
    let terms = (0..columns.len())
        .map(|column| {
            let mut mixture = Mixture::new();
            solved.iter().for_each(|own| own.add_to(&mut mixture, column as u16));
            let limits = (if column == 0 { 0.0 } else { -limit }, limit);
            let told = mixture.probability() >= LEAST_PROBABILITY;
            let (low, high) = if told { mixture.interval(limits) } else { (0.0, 0.0) };
            let mean = mixture.mean().clamp(limits.0, limits.1);
            let (low, high) = (low.min(mean), high.max(mean));
            Averaged {
                probability: mixture.probability(),
                mean: mean * noise.unit,
                low: low * noise.unit,
                high: high * noise.unit,
            }
        })
        .collect();
    let sets: Vec<(&[u16], f64)> = solved.iter().map(|own| (&own.model[..], own.score)).collect();
    Average { terms, confounded: confounded::confounded(&sets, columns.len()) }
}

/// A set of terms with its coefficients.
struct Solved {
    model: Vec<u16>,
    /// Its weight; its logarithm at first.
    score: f64,
    coefficients: Vec<f64>,
    /// Of the coefficients, with noise of 1.
    widths: Vec<f64>,
    /// Standard deviation and degrees of freedom of the noise.
    noise: (f64, f64),
}

impl Solved {
    fn new(model: &[u16], score: f64, columns: &[Vec<f64>], times: &[f64], evidence: &Evidence) -> Option<Self> {
        let own: Vec<Vec<f64>> = model.iter().map(|column| columns[usize::from(*column)].clone()).collect();
        let solver = Solver::new(&own).filter(|solver| solver.kept.len() == model.len())?;
        let fit = solver.fit(times);
        let residual = fit.residuals.iter().map(|own| own * own).sum();
        let width = |term: usize| (0..times.len()).map(|row| solver.weight(term, row).powi(2)).sum::<f64>().sqrt();
        let total = evidence.logarithm(model.len(), residual, 0.0);
        let (mut variance, mut freedom) = (0.0, 1.0);
        for scale in evidence.scales(model.len(), residual, 0.0) {
            variance += (scale.logarithm - total).exp() * scale.variance;
            freedom = scale.freedom;
        }
        let widths = (0..model.len()).map(width).collect();
        Some(Self {
            model: model.to_vec(),
            score,
            coefficients: fit.coefficients,
            widths,
            noise: (variance.sqrt(), freedom),
        })
    }

    fn is_possible(&self, limit: f64) -> bool {
        let base = self.coefficients.first().is_some_and(|base| *base >= -ROUNDING * limit);
        base && self.coefficients.iter().all(|own| own.abs() <= limit)
    }

    fn add_to(&self, mixture: &mut Mixture, column: u16) {
        let Ok(place) = self.model.binary_search(&column) else { return };
        let (noise, freedom) = self.noise;
        mixture.add(self.score, self.coefficients[place], self.widths[place] * noise, freedom);
    }
}
