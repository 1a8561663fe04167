//! How well a set of terms explains the times, with what their number costs (marginal likelihood).

use statrs::function::gamma::ln_gamma;

use crate::noise::Noise;

/// Standard deviation of a term before anything was measured, as a share of the time.
const SPREAD: f64 = 0.5;
/// What is believed of the noise before: a share of the time, with the weight of so many degrees of freedom.
const NOISE: f64 = 0.005;
const NOISE_FREEDOM: f64 = 0.5;
/// How much more than their runs' noise the means of configurations may differ from the terms, as variances: what terms
/// do not describe, such as three options together.
const MISFITS: [f64; 15] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
/// Probability that the terms describe all.
const FITS: f64 = 0.5;

/// What is known of the noise.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// Configurations, and those of them that have noise.
    rows: usize,
    noisy: usize,
    /// Squared deviations of runs from their means, and their degrees of freedom.
    squares: f64,
    freedom: f64,
    /// Runs beyond one for each configuration.
    repeats: f64,
    /// The terms may not describe all.
    misfit: bool,
    /// A term's own variance where columns nearly depend on others: no term is less exact than nothing at all.
    ridge: f64,
}

/// A posterior of the noise: its weight, and the variance and degrees of freedom with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) logarithm: f64,
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

impl Evidence {
    pub(crate) fn new(rows: usize, noise: &Noise, misfit: bool) -> Self {
        let Noise { squares, freedom, repeats, silent, .. } = *noise;
        let variance = (squares + NOISE_FREEDOM * 1e-3) / (freedom + NOISE_FREEDOM);
        let ridge = variance / (SPREAD * SPREAD);
        Self { rows, noisy: rows - silent, squares, freedom, repeats, misfit: misfit && freedom >= 1.0, ridge }
    }

    /// Terms that the configurations bear, the base included.
    pub(crate) fn most_terms(&self) -> usize {
        match (self.repeats >= self.rows as f64, self.misfit) {
            (true, false) => self.rows,
            (true, true) => (self.rows - 1).max(1),
            (false, _) => (self.rows * 2 / 3).max(1),
        }
    }

    /// What one more column adds to the logarithm of the determinant, by what is new of it (squared).
    pub(crate) fn determinant(&self, new: f64) -> f64 {
        (new + self.ridge).ln()
    }

    /// The noise with `terms` columns that leave `residual` (squares), for each misfit; the weights lack the prior.
    pub(crate) fn scales(&self, terms: usize, residual: f64, determinant: f64) -> impl Iterator<Item = Scale> + '_ {
        // Configurations without noise determine one term at least.
        let determined = terms - usize::from(self.noisy < self.rows);
        let left = self.noisy.saturating_sub(determined) as f64;
        let freedom = (self.freedom + left).max(NOISE_FREEDOM);
        let known = NOISE_FREEDOM * NOISE * NOISE + self.squares;
        let gamma = ln_gamma(freedom / 2.0);
        let misfits = if self.misfit { &MISFITS[..] } else { &MISFITS[..1] };
        misfits.iter().map(move |misfit| {
            let squares = known + residual / misfit;
            let believed = if *misfit == 1.0 { FITS } else { (1.0 - FITS) / (MISFITS.len() - 1) as f64 };
            Scale {
                logarithm: gamma - freedom / 2.0 * (squares / 2.0).ln() - left / 2.0 * misfit.ln() + believed.ln()
                    - determinant / 2.0
                    - terms as f64 * SPREAD.ln(),
                variance: squares / freedom * misfit,
                freedom,
            }
        })
    }

    /// Logarithm of the marginal likelihood.
    pub(crate) fn logarithm(&self, terms: usize, residual: f64, determinant: f64) -> f64 {
        logarithm_of_sum(self.scales(terms, residual, determinant).map(|scale| scale.logarithm))
    }
}

/// Of numbers given as logarithms.
pub(crate) fn logarithm_of_sum(logarithms: impl Iterator<Item = f64>) -> f64 {
    let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
    for own in logarithms {
        if own > largest {
            sum = sum * (largest - own).exp() + 1.0;
            largest = own;
        } else {
            sum += (own - largest).exp();
        }
    }
    largest + sum.ln()
}
