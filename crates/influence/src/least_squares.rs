//! Least squares over columns that may depend on each other.

use nalgebra::{DMatrix, DVector};

/// A column whose part that is new is smaller than this is taken to depend on the ones before.
const DEPENDENT: f64 = 1e-7;

/// A solved system: for some columns of numbers, what turns observations into coefficients.
#[derive(Debug, Clone)]
pub(crate) struct Solver {
    /// The columns that are independent, by place.
    pub(crate) kept: Vec<usize>,
    /// Rows: coefficients of the kept columns; columns: observations.
    weights: DMatrix<f64>,
    /// The kept columns.
    design: DMatrix<f64>,
}

/// Coefficients and what is left.
#[derive(Debug, Clone)]
pub(crate) struct Fit {
    /// In the order of [`Solver::kept`].
    pub(crate) coefficients: Vec<f64>,
    /// Observation less prediction.
    pub(crate) residuals: Vec<f64>,
}

impl Solver {
    /// Prepares columns of equal, non-zero length; earlier ones are preferred. `None` if all are zero.
    pub(crate) fn new(columns: &[Vec<f64>]) -> Option<Self> {
        let rows = columns.first()?.len();
        let mut basis: Vec<DVector<f64>> = Vec::new();
        let mut kept = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            if kept.len() == rows {
                break;
            }
            let own = DVector::from_column_slice(column);
            let length = own.norm();
            let mut new = own;
            // Twice, as once leaves rounding errors of the size of what is looked for.
            for _ in 0..2 {
                for direction in &basis {
                    let part = direction.dot(&new);
                    new.axpy(-part, direction, 1.0);
                }
            }
            if length > 0.0 && new.norm() > DEPENDENT * length {
                basis.push(new.normalize());
                kept.push(place);
            }
        }
        if kept.is_empty() {
            return None;
        }
        let design = DMatrix::from_fn(rows, kept.len(), |row, column| columns[kept[column]][row]);
        let qr = design.clone().qr();
        let weights = qr.r().solve_upper_triangular(&qr.q().transpose())?;
        Some(Self { kept, weights, design })
    }

    pub(crate) fn fit(&self, observations: &[f64]) -> Fit {
        let observed = DVector::from_column_slice(observations);
        let coefficients = &self.weights * &observed;
        let residuals = observed - &self.design * &coefficients;
        Fit { coefficients: coefficients.as_slice().to_vec(), residuals: residuals.as_slice().to_vec() }
    }

    /// What an observation adds to a coefficient.
    pub(crate) fn weight(&self, coefficient: usize, observation: usize) -> f64 {
        self.weights[(coefficient, observation)]
    }
}

/// Bayesian information criterion of a fit by its squared residuals; smaller is better.
pub(crate) fn information(residuals: &[f64], coefficients: usize) -> f64 {
    let n = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|own| own * own).sum();
    n * (squares / n).max(f64::MIN_POSITIVE).ln() + coefficients as f64 * n.ln()
}
