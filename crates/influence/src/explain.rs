//! From times to terms.

use std::collections::BTreeSet;

use transect_feature_model::FeatureModel;

use crate::column::{Column, Scales};
use crate::least_squares::Solver;
use crate::parts::Part;
use crate::prediction::percent_error;
use crate::{Configuration, FailedConfiguration, Influence, InfluenceError, Measurement, Method};
use crate::{noise, outliers};

/// Share of the differences below which the terms are said to miss something.
const POORLY_EXPLAINED: f64 = 0.8;
/// Held-out configurations below which their error is chance.
const FEW_HELD_OUT: usize = 3;

/// What was run and how long it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    /// Configurations; those that are only predicted last.
    pub configurations: Vec<Configuration>,
    /// How many of them the terms come from.
    pub training: usize,
    /// Runs: place of the configuration, and what it took.
    pub runs: Vec<(usize, Measurement)>,
    /// Configurations left out, and why.
    pub failed: Vec<(usize, String)>,
}

/// Explains the times by terms of at most `order` features. `command` is kept in the result as it is.
pub fn explain(
    model: &FeatureModel,
    command: &[String],
    observations: &Observations,
    method: Method,
    order: usize,
) -> Result<Influence, InfluenceError> {
    let total = |own: &Measurement| match method {
        Method::Regions => own.sets.values().sum(),
        Method::Wall => own.wall_ns,
    };
    let outlying = outliers::find(&observations.runs, &total);
    let training: Vec<&(usize, Measurement)> = (observations.runs.iter().zip(&outlying))
        .filter(|((place, _), outlying)| *place < observations.training && !**outlying)
        .map(|(run, _)| run)
        .collect();
    let mut places: Vec<usize> = training.iter().map(|(place, _)| *place).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < 2 {
        return Err(InfluenceError::TooFew {
            succeeded: observations.runs.len(),
            runs: observations.runs.len() + observations.failed.len(),
            configurations: places.len(),
            failure: observations
                .failed
                .first()
                .map(|(_, reason)| format!("; the first failed: {reason}"))
                .unwrap_or_default(),
        });
    }
    let ran: BTreeSet<usize> = observations.runs.iter().map(|(place, _)| *place).collect();
    let scales = Scales::new(model, ran.iter().map(|place| &observations.configurations[*place]));
    let longest = noise::longest(&observations.runs, &total);
    let task = Task { model, observations, outlying, training, places, scales, order, longest };
    let parts = task.parts(method);
    let undetermined = task.undetermined(&parts);
    let held_out = task.held_out(&parts, method);
    let crossed = if held_out.len() < FEW_HELD_OUT { task.cross_validated(&parts, method) } else { Vec::new() };
    let (error, error_from) = match (percent_error(&crossed), percent_error(&held_out)) {
        (Some(error), _) => (Some(error), Some("cross-validation".to_owned())),
        (None, Some(error)) => (Some(error), Some("held-out".to_owned())),
        (None, None) => (None, None),
    };
    let share = task.explained_share(&parts);
    let mut notes = Vec::new();
    if let Some(share) = share.filter(|share| *share < POORLY_EXPLAINED) {
        notes.push(poorly_explained(share, task.is_chance(&parts), method));
    }
    let text = |place: &usize| observations.configurations.get(*place).map(|own| own.text(model)).unwrap_or_default();
    Ok(Influence {
        model: model.name.clone(),
        model_hash: model.hash(),
        command: command.to_vec(),
        method,
        configurations: task.places.len(),
        complete: false,
        runs: observations.runs.len(),
        failed: observations
            .failed
            .iter()
            .map(|(place, reason)| FailedConfiguration { options: text(place), reason: reason.clone() })
            .collect(),
        outliers: task.outlying.iter().filter(|outlying| **outlying).count(),
        terms: task.terms(&parts),
        confounded: task.confounded(&parts),
        undetermined,
        sets: match method {
            Method::Regions => parts.iter().map(|own| task.set(own)).collect(),
            Method::Wall => Vec::new(),
        },
        explained: share,
        error,
        error_from,
        held_out,
        notes,
    })
}

/// Why the terms explain little, and what to do.
fn poorly_explained(share: f64, by_chance: bool, method: Method) -> String {
    let advice = match (by_chance, method) {
        (true, _) => "runs of one configuration differ as much; repeat more often (--repeat), or where less else runs",
        (false, Method::Regions) => {
            "code outside of the features' regions depends on them; look for variables that were not found \
             (transect feature regions), or use --method wall"
        }
        (false, Method::Wall) => {
            "allow interactions of more features (--order) or run more configurations (--configurations)"
        }
    };
    format!("the terms explain {:.0} % of the differences between configurations: {advice}", share * 100.0)
}

pub(crate) struct Task<'a> {
    pub(crate) model: &'a FeatureModel,
    pub(crate) observations: &'a Observations,
    /// For each run: it took far longer or shorter than the others of its configuration.
    pub(crate) outlying: Vec<bool>,
    /// Runs that terms come from.
    pub(crate) training: Vec<&'a (usize, Measurement)>,
    /// Their configurations, ascending.
    pub(crate) places: Vec<usize>,
    pub(crate) scales: Scales,
    pub(crate) order: usize,
    /// The longest run, ns.
    pub(crate) longest: f64,
}

impl<'a> Task<'a> {
    /// The same with fewer configurations.
    pub(crate) fn without(&self, left_out: &[usize]) -> Task<'a> {
        Task {
            model: self.model,
            observations: self.observations,
            outlying: Vec::new(),
            training: self.training.iter().copied().filter(|(place, _)| !left_out.contains(place)).collect(),
            places: self.places.iter().copied().filter(|place| !left_out.contains(place)).collect(),
            scales: self.scales.clone(),
            order: self.order,
            longest: self.longest,
        }
    }

    pub(crate) fn configuration(&self, run: &(usize, Measurement)) -> &Configuration {
        &self.observations.configurations[run.0]
    }

    /// A column's number for each configuration.
    pub(crate) fn numbers_of(&self, column: &Column) -> Vec<f64> {
        let number = |place: &usize| self.scales.number(column, &self.observations.configurations[*place]);
        self.places.iter().map(number).collect()
    }

    /// Of each configuration's times.
    pub(crate) fn means(&self, times: &[f64]) -> Vec<f64> {
        let mean = |place: &usize| {
            let own = self.training.iter().zip(times).filter(|(run, _)| run.0 == *place).map(|(_, time)| *time);
            let (sum, count) = own.fold((0.0, 0.0), |(sum, count), time| (sum + time, count + 1.0));
            sum / count
        };
        self.places.iter().map(mean).collect()
    }

    /// The columns that are independent of those before, by place; `None` without any.
    pub(crate) fn independent(&self, columns: &[Column]) -> Option<Vec<usize>> {
        let numbers: Vec<Vec<f64>> = columns.iter().map(|column| self.numbers_of(column)).collect();
        Solver::new(&numbers).map(|solver| solver.kept)
    }

    /// Names of the features of columns that depend on others, though each of their features has a term.
    fn undetermined(&self, parts: &[Part]) -> Vec<Vec<String>> {
        let mut found = BTreeSet::new();
        for part in parts {
            let Some(kept) = self.independent(&part.columns) else { continue };
            let numbers: Vec<Vec<f64>> = part.columns.iter().map(|column| self.numbers_of(column)).collect();
            for (place, column) in part.columns.iter().enumerate().filter(|(place, _)| !kept.contains(place)) {
                // Always the same number, such as that of a feature that is always selected: nothing is missing.
                let constant = numbers[place].iter().all(|number| *number == numbers[place][0]);
                // A product of alternatives, which never meet, or with something that is always on.
                let repeats =
                    (0..place).any(|at| part.columns[at].len() < column.len() && numbers[at] == numbers[place]);
                if !constant && !repeats {
                    found.insert(self.names(column));
                }
            }
        }
        found.into_iter().collect()
    }
}
