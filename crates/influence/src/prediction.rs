//! How well terms predict what was measured.

use crate::explain::{Explained, Task};
use crate::least_squares::Solver;
use crate::{Configuration, HeldOut, Measurement, Method};

impl Task<'_> {
    pub(crate) fn predicted(&self, explained: &[Explained], configuration: &Configuration) -> f64 {
        let part = |own: &Explained| {
            let number = |place: &usize| self.scales.number(&own.part.columns[*place], configuration);
            own.solver.kept.iter().zip(&own.fit.coefficients).map(|(place, own)| number(place) * own).sum::<f64>()
        };
        explained.iter().map(part).sum()
    }

    pub(crate) fn held_out(&self, explained: &[Explained], method: Method) -> Vec<HeldOut> {
        let places = self.observations.training..self.observations.configurations.len();
        let one = |place: usize| {
            let time = |own: &Measurement| match method {
                Method::Regions => own.sets.values().sum(),
                Method::Wall => own.wall_ns,
            };
            let all = self.observations.runs.iter().zip(&self.outlying);
            let runs: Vec<f64> =
                all.filter(|(run, outlying)| run.0 == place && !**outlying).map(|((_, own), _)| time(own)).collect();
            let configuration = &self.observations.configurations[place];
            (!runs.is_empty()).then(|| HeldOut {
                options: configuration.text(self.model),
                measured_ns: (runs.iter().sum::<f64>() / runs.len() as f64).round() as i64,
                predicted_ns: self.predicted(explained, configuration).round() as i64,
            })
        };
        places.filter_map(one).collect()
    }

    /// Each configuration predicted from the others, as far as they determine the same terms.
    pub(crate) fn leave_one_out(&self, explained: &[Explained]) -> Vec<HeldOut> {
        let total = |run: usize| explained.iter().map(|own| own.part.times[run]).sum::<f64>();
        let mut found = Vec::new();
        for place in &self.places {
            let (own, others): (Vec<usize>, Vec<usize>) =
                (0..self.training.len()).partition(|run| self.training[*run].0 == *place);
            let runs: Vec<_> = others.iter().map(|run| self.training[*run]).collect();
            let mut predicted = Some(0.0);
            for part in explained {
                let Some(solver) = Solver::new(&self.numbers(&part.part.columns, &runs)) else { continue };
                if solver.kept != part.solver.kept {
                    predicted = None;
                    break;
                }
                let times: Vec<f64> = others.iter().map(|run| part.part.times[*run]).collect();
                let fit = solver.fit(&times);
                let configuration = &self.observations.configurations[*place];
                let number = |place: &usize| self.scales.number(&part.part.columns[*place], configuration);
                let sum: f64 = solver.kept.iter().zip(&fit.coefficients).map(|(place, own)| number(place) * own).sum();
                predicted = predicted.map(|before: f64| before + sum);
            }
            if let (Some(predicted), false) = (predicted, own.is_empty()) {
                found.push(HeldOut {
                    options: self.observations.configurations[*place].text(self.model),
                    measured_ns: (own.iter().map(|run| total(*run)).sum::<f64>() / own.len() as f64).round() as i64,
                    predicted_ns: predicted.round() as i64,
                });
            }
        }
        found
    }

    /// Whether what the terms leave of the configurations' means is no more than the runs of a configuration differ.
    pub(crate) fn is_chance(&self, explained: &[Explained]) -> bool {
        const TIMES: f64 = 4.0;
        let (runs, configurations) = (self.training.len(), self.places.len());
        if runs <= configurations {
            return false;
        }
        let totals = self.totals(explained);
        let means = self.means(&totals);
        let (mut left, mut within) = (0.0, 0.0);
        for ((place, mean), configuration) in self.places.iter().zip(&means.times).zip(&means.configurations) {
            let own: Vec<f64> =
                self.training.iter().zip(&totals).filter(|(run, _)| run.0 == *place).map(|(_, time)| *time).collect();
            left += own.len() as f64 * (mean - self.predicted(explained, configuration)).powi(2);
            within += own.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        }
        left / configurations as f64 <= TIMES * within / (runs - configurations) as f64
    }

    /// The explained time of each run.
    fn totals(&self, explained: &[Explained]) -> Vec<f64> {
        (0..self.training.len()).map(|run| explained.iter().map(|own| own.part.times[run]).sum()).collect()
    }

    /// 1 less the share of the configurations' variance that is left; `None` if they do not differ.
    pub(crate) fn explained_share(&self, explained: &[Explained]) -> Option<f64> {
        let totals = self.totals(explained);
        let means = self.means(&totals);
        let mean = means.times.iter().sum::<f64>() / means.times.len() as f64;
        let all: f64 = means.times.iter().map(|time| (time - mean).powi(2)).sum();
        let left = |(time, own): (&f64, &&Configuration)| (time - self.predicted(explained, own)).powi(2);
        let left: f64 = means.times.iter().zip(&means.configurations).map(left).sum();
        (all > 0.0).then(|| (1.0 - left / all).max(0.0))
    }
}

/// Mean absolute error in percent of what was measured.
pub(crate) fn percent_error(predictions: &[HeldOut]) -> Option<f64> {
    let errors: Vec<f64> = predictions
        .iter()
        .filter(|own| own.measured_ns > 0)
        .map(|own| (own.predicted_ns - own.measured_ns).abs() as f64 / own.measured_ns as f64 * 100.0)
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}
