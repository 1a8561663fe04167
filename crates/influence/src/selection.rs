//! Which terms to use where the configurations can't tell all apart.

use transect_feature_model::FeatureIndex;

use crate::Configuration;
use crate::Form;
use crate::column::{Column, Scales};
use crate::least_squares::{Solver, information};

/// One number for each configuration that the terms come from.
pub(crate) struct Means<'a> {
    pub(crate) configurations: Vec<&'a Configuration>,
    pub(crate) times: Vec<f64>,
}

impl Means<'_> {
    fn criterion(&self, columns: &[Column], scales: &Scales) -> Option<f64> {
        let numbers: Vec<Vec<f64>> = columns.iter().map(|column| self.numbers(column, scales)).collect();
        let solver = Solver::new(&numbers)?;
        let fit = solver.fit(&self.times);
        (solver.kept.len() < self.times.len()).then(|| information(&fit.residuals, solver.kept.len()))
    }

    /// Sum of squared errors if each configuration is predicted from the others.
    pub(crate) fn left_out_error(&self, columns: &[Column], scales: &Scales) -> f64 {
        let numbers: Vec<Vec<f64>> = columns.iter().map(|column| self.numbers(column, scales)).collect();
        let Some(solver) = Solver::new(&numbers) else { return f64::INFINITY };
        let fit = solver.fit(&self.times);
        let error = |(place, left): (usize, &f64)| (left / (1.0 - solver.leverage(place)).max(1e-9)).powi(2);
        fit.residuals.iter().enumerate().map(error).sum()
    }

    fn numbers(&self, column: &Column, scales: &Scales) -> Vec<f64> {
        self.configurations.iter().map(|own| scales.number(column, own)).collect()
    }
}

/// The best forms of each feature, one feature after the other, judged without interactions.
pub(crate) fn forms(
    features: &[FeatureIndex],
    means: &Means<'_>,
    scales: &Scales,
) -> Vec<(FeatureIndex, &'static [Form])> {
    let mut chosen: Vec<(FeatureIndex, &'static [Form])> =
        features.iter().map(|feature| (*feature, scales.forms(*feature)[0])).collect();
    for place in 0..chosen.len() {
        let feature = chosen[place].0;
        let candidates = scales.forms(feature);
        if candidates.len() == 1 {
            continue;
        }
        let judge = |forms: &'static [Form]| {
            let mut trial = chosen.clone();
            trial[place].1 = forms;
            means.criterion(&crate::column::columns(&trial, 1), scales)
        };
        let judged = candidates.iter().filter_map(|forms| judge(forms).map(|criterion| (criterion, *forms)));
        if let Some((_, best)) = judged.min_by(|a, b| a.0.total_cmp(&b.0)) {
            chosen[place].1 = best;
        }
    }
    chosen
}

/// Terms of single features first, then interactions one after the other as long as each explains more than picking the
/// best of many would by chance (extended Bayesian criterion); in the end those are dropped that are not worth it.
pub(crate) fn stepwise(candidates: &[Column], means: &Means<'_>, scales: &Scales) -> Vec<Column> {
    let count = means.times.len();
    let price = 2.0 * (candidates.len().max(1) as f64).ln();
    let judge = |columns: &[Column]| {
        let criterion = means.criterion(columns, scales).filter(|_| columns.len() < count);
        criterion.map_or(f64::INFINITY, |criterion| criterion + price * columns.len() as f64)
    };
    let singles = candidates.iter().filter(|column| column.len() <= 1).cloned().collect::<Vec<_>>();
    let mut chosen = if singles.len() * 3 <= count * 2 { singles } else { vec![Vec::new()] };
    let mut best = judge(&chosen);
    // A fit of as many terms as there are numbers explains nothing.
    while chosen.len() + 2 < count {
        let trials = candidates.iter().filter(|column| !chosen.contains(column)).map(|column| {
            let trial: Vec<Column> = chosen.iter().chain([column]).cloned().collect();
            (judge(&trial), trial)
        });
        match trials.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((criterion, trial)) if criterion < best => (best, chosen) = (criterion, trial),
            _ => break,
        }
    }
    while chosen.len() > 1 {
        let trials = (0..chosen.len()).filter(|place| !chosen[*place].is_empty()).map(|place| {
            let trial: Vec<Column> =
                chosen.iter().enumerate().filter(|(own, _)| *own != place).map(|(_, column)| column.clone()).collect();
            (judge(&trial), trial)
        });
        match trials.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((criterion, trial)) if criterion <= best => (best, chosen) = (criterion, trial),
            _ => break,
        }
    }
    chosen
}
