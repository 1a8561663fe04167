//! How well terms predict what was measured.

use crate::explain::Task;
use crate::parts::Part;
use crate::{HeldOut, Measurement, Method};

/// Rounds of cross-validation, at most.
const FOLDS: usize = 10;

impl Task<'_> {
    pub(crate) fn held_out(&self, parts: &[Part], method: Method) -> Vec<HeldOut> {
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
                predicted_ns: self.predicted(parts, configuration).round() as i64,
            })
        };
        places.filter_map(one).collect()
    }

    /// Each configuration predicted from others, whose terms are found anew. Where all candidates are determined, only
    /// as far as they are without it, too.
    pub(crate) fn cross_validated(&self, parts: &[Part], method: Method) -> Vec<HeldOut> {
        let totals = self.totals(parts);
        let determined = |task: &Self| parts.iter().map(|part| task.independent(&part.columns)).collect::<Vec<_>>();
        let all = determined(self);
        let full =
            parts.iter().zip(&all).all(|(part, kept)| kept.as_ref().is_some_and(|own| own.len() == part.columns.len()));
        let mut found = Vec::new();
        let folds = self.places.len().min(FOLDS);
        for fold in 0..folds {
            let left_out: Vec<usize> = self.places.iter().copied().skip(fold).step_by(folds).collect();
            let others = self.without(&left_out);
            if others.places.len() < 2 || (full && determined(&others) != all) {
                continue;
            }
            let parts = others.parts(method);
            for place in &left_out {
                let own = self.training.iter().zip(&totals).filter(|(run, _)| run.0 == *place);
                let (sum, count) = own.fold((0.0, 0.0), |(sum, count), (_, time)| (sum + time, count + 1.0));
                let configuration = &self.observations.configurations[*place];
                found.push(HeldOut {
                    options: configuration.text(self.model),
                    measured_ns: (sum / count).round() as i64,
                    predicted_ns: self.predicted(&parts, configuration).round() as i64,
                });
            }
        }
        found
    }

    /// Whether what the terms leave of the configurations' means is no more than the runs of a configuration differ.
    pub(crate) fn is_chance(&self, parts: &[Part]) -> bool {
        const TIMES: f64 = 4.0;
        let (runs, configurations) = (self.training.len(), self.places.len());
        if runs <= configurations {
            return false;
        }
        let totals = self.totals(parts);
        let means = self.means(&totals);
        let (mut left, mut within) = (0.0, 0.0);
        for (place, mean) in self.places.iter().zip(&means) {
            let own: Vec<f64> =
                self.training.iter().zip(&totals).filter(|(run, _)| run.0 == *place).map(|(_, time)| *time).collect();
            let configuration = &self.observations.configurations[*place];
            left += own.len() as f64 * (mean - self.predicted(parts, configuration)).powi(2);
            within += own.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        }
        left / configurations as f64 <= TIMES * within / (runs - configurations) as f64
    }

    /// The explained time of each run.
    fn totals(&self, parts: &[Part]) -> Vec<f64> {
        (0..self.training.len()).map(|run| parts.iter().map(|own| own.times[run]).sum()).collect()
    }

    /// 1 less the share of the configurations' variance that is left; `None` if they do not differ.
    pub(crate) fn explained_share(&self, parts: &[Part]) -> Option<f64> {
        let totals = self.totals(parts);
        let means = self.means(&totals);
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let all: f64 = means.iter().map(|time| (time - mean).powi(2)).sum();
        let left = |(time, place): (&f64, &usize)| {
            (time - self.predicted(parts, &self.observations.configurations[*place])).powi(2)
        };
        let left: f64 = means.iter().zip(&self.places).map(left).sum();
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
