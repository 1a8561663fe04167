//! In which form a value stands in its terms.

use transect_feature_model::FeatureIndex;

use crate::Form;
use crate::column::columns;
use crate::explain::Task;
use crate::least_squares::{Solver, information};

/// The best forms of each feature, one feature after the other, judged without interactions.
pub(crate) fn forms(task: &Task<'_>, features: &[FeatureIndex], times: &[f64]) -> Vec<(FeatureIndex, &'static [Form])> {
    let mut chosen: Vec<(FeatureIndex, &'static [Form])> =
        features.iter().map(|feature| (*feature, task.scales.forms(*feature)[0])).collect();
    for place in 0..chosen.len() {
        let feature = chosen[place].0;
        let candidates = task.scales.forms(feature);
        if candidates.len() == 1 {
            continue;
        }
        let judge = |forms: &'static [Form]| {
            let mut trial = chosen.clone();
            trial[place].1 = forms;
            let numbers: Vec<Vec<f64>> = columns(&trial, 1).iter().map(|column| task.numbers_of(column)).collect();
            let solver = Solver::new(&numbers)?;
            let fit = solver.fit(times);
            (solver.kept.len() < times.len()).then(|| information(&fit.residuals, solver.kept.len()))
        };
        let judged = candidates.iter().filter_map(|forms| judge(forms).map(|criterion| (criterion, *forms)));
        if let Some((_, best)) = judged.min_by(|a, b| a.0.total_cmp(&b.0)) {
            chosen[place].1 = best;
        }
    }
    chosen
}
