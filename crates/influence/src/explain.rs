//! From times to terms.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{ContinuousCDF, StudentsT};
use transect_feature_model::{FeatureIndex, FeatureModel};

use crate::column::{Column, Scales, columns};
use crate::least_squares::{Fit, Solver};
use crate::outliers;
use crate::prediction::percent_error;
use crate::selection::{self, Means};
use crate::{Configuration, FailedConfiguration, Influence, InfluenceError, Measurement, Method, SetInfluence, Term};

/// Share of the differences below which the terms are said to miss something.
const POORLY_EXPLAINED: f64 = 0.8;

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

/// The time under one set of features (or the whole time) and the columns that explain it.
pub(crate) struct Part {
    pub(crate) set: Vec<String>,
    pub(crate) columns: Vec<Column>,
    /// Of the runs that terms come from.
    pub(crate) times: Vec<f64>,
    /// The columns are the best of many.
    pub(crate) selected: bool,
}

/// A part, explained.
pub(crate) struct Explained {
    pub(crate) part: Part,
    pub(crate) solver: Solver,
    pub(crate) fit: Fit,
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
    let task = Task { model, observations, outlying, training, places, scales, order };
    let parts = match method {
        Method::Regions => task.parts_of_regions(),
        Method::Wall => vec![task.whole()],
    };
    let undetermined = task.undetermined(&parts);
    let explained: Vec<Explained> = parts
        .into_iter()
        .filter_map(|part| {
            let solver = Solver::new(&task.numbers(&part.columns, &task.training))?;
            let fit = solver.fit(&part.times);
            Some(Explained { part, solver, fit })
        })
        .collect();
    let terms = task.terms(&explained);
    let held_out = task.held_out(&explained, method);
    let (error, error_from) = match percent_error(&held_out) {
        Some(error) => (Some(error), Some("held-out".to_owned())),
        None => match percent_error(&task.leave_one_out(&explained)) {
            Some(error) => (Some(error), Some("leave-one-out".to_owned())),
            None => (None, None),
        },
    };
    let share = task.explained_share(&explained);
    let mut notes = Vec::new();
    if explained.iter().any(|own| own.part.selected) {
        let of = if method == Method::Wall { "" } else { " under sets of many features" };
        notes.push(format!(
            "the terms{of} are those that predict best, chosen out of more; their intervals do not count the choice"
        ));
    }
    if let Some(share) = share.filter(|share| *share < POORLY_EXPLAINED) {
        notes.push(poorly_explained(share, task.is_chance(&explained), method));
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
        terms,
        undetermined,
        sets: match method {
            Method::Regions => explained.iter().map(|own| task.set(own)).collect(),
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
}

impl Task<'_> {
    fn configuration(&self, run: &(usize, Measurement)) -> &Configuration {
        &self.observations.configurations[run.0]
    }

    pub(crate) fn numbers(&self, columns: &[Column], runs: &[&(usize, Measurement)]) -> Vec<Vec<f64>> {
        let of = |column| runs.iter().map(|run| self.scales.number(column, self.configuration(run))).collect();
        columns.iter().map(of).collect()
    }

    /// Features that reach the command line and differ between the configurations.
    fn varied(&self) -> Vec<FeatureIndex> {
        let differs = |at: &FeatureIndex| {
            let mut values = self.places.iter().map(|place| self.observations.configurations[*place].value(*at));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        (0..self.model.features.len())
            .filter(|at| !self.model.features[*at].option.is_empty())
            .filter(differs)
            .collect()
    }

    pub(crate) fn means(&self, times: &[f64]) -> Means<'_> {
        let mean = |place: &usize| {
            let own = self.training.iter().zip(times).filter(|(run, _)| run.0 == *place).map(|(_, time)| *time);
            let (sum, count) = own.fold((0.0, 0.0), |(sum, count), time| (sum + time, count + 1.0));
            sum / count
        };
        Means {
            configurations: self.places.iter().map(|place| &self.observations.configurations[*place]).collect(),
            times: self.places.iter().map(mean).collect(),
        }
    }

    /// One part for each active set, with all products of its own features.
    fn parts_of_regions(&self) -> Vec<Part> {
        let varied = self.varied();
        let sets: BTreeSet<&Vec<String>> = self.training.iter().flat_map(|(_, own)| own.sets.keys()).collect();
        let part = |set: &Vec<String>| {
            let times: Vec<f64> =
                self.training.iter().map(|(_, own)| own.sets.get(set).copied().unwrap_or(0.0)).collect();
            // A variable may stand for the feature above the options, such as a mode above its alternatives.
            let parent = |at: &FeatureIndex| self.model.features[*at].parent;
            let concerned = |at: &FeatureIndex| {
                std::iter::successors(Some(*at), parent).any(|own| set.contains(&self.model.features[own].name))
            };
            let own: Vec<FeatureIndex> = varied.iter().copied().filter(concerned).collect();
            let means = self.means(&times);
            let forms = selection::forms(&own, &means, &self.scales);
            let all = columns(&forms, self.order.min(own.len()));
            let selected = self.most_at_once(&own) > self.order && self.is_saturated(&all);
            let columns = if selected { selection::stepwise(&all, &means, &self.scales) } else { all };
            Part { set: set.clone(), columns, times, selected }
        };
        sets.into_iter().map(part).filter(|part| part.times.iter().any(|time| *time != 0.0)).collect()
    }

    /// The whole wall time, with all products if the configurations can tell them apart, else with the best.
    fn whole(&self) -> Part {
        let times: Vec<f64> = self.training.iter().map(|(_, own)| own.wall_ns).collect();
        let means = self.means(&times);
        let forms = selection::forms(&self.varied(), &means, &self.scales);
        let all = columns(&forms, self.order);
        let saturated = self.is_saturated(&all);
        if saturated && self.most_at_once(&self.varied()) <= self.order {
            return Part { set: Vec::new(), columns: all, times, selected: false };
        }
        let best = selection::stepwise(&all, &means, &self.scales);
        let selected = means.left_out_error(&best, &self.scales) < means.left_out_error(&all, &self.scales);
        let selected = selected || saturated;
        let columns = if selected { best } else { all };
        Part { set: Vec::new(), columns, times, selected }
    }

    /// How many of the features are selected at once, at most.
    fn most_at_once(&self, features: &[FeatureIndex]) -> usize {
        let selected = |place: &usize| {
            let own = &self.observations.configurations[*place];
            features.iter().filter(|at| own.value(**at).is_some()).count()
        };
        self.places.iter().map(selected).max().unwrap_or(0)
    }

    /// As many terms as configurations, which are only trusted where all that can interact is in them.
    fn is_saturated(&self, columns: &[Column]) -> bool {
        let solver = Solver::new(&self.numbers(columns, &self.training));
        solver.is_some_and(|solver| solver.kept.len() == self.places.len())
    }

    /// Names of the features of columns that depend on others, though each of their features has a term.
    fn undetermined(&self, parts: &[Part]) -> Vec<Vec<String>> {
        let mut found = BTreeSet::new();
        for part in parts {
            let Some(solver) = Solver::new(&self.numbers(&part.columns, &self.training)) else { continue };
            for (place, column) in part.columns.iter().enumerate().filter(|(place, _)| !solver.kept.contains(place)) {
                // Always the same number, such as that of a feature that is always selected: nothing is missing.
                let numbers: Vec<f64> =
                    self.training.iter().map(|run| self.scales.number(column, self.configuration(run))).collect();
                let constant = numbers.iter().all(|number| *number == numbers[0]);
                // A product of alternatives, which never meet, or with something that is always on.
                let repeats = part.columns[..place].iter().any(|earlier| {
                    let same = |run: &&(usize, Measurement)| {
                        let own = self.configuration(run);
                        self.scales.number(earlier, own) == self.scales.number(column, own)
                    };
                    earlier.len() < column.len() && self.training.iter().all(same)
                });
                if !constant && !repeats {
                    found.insert(self.names(column));
                }
            }
        }
        found.into_iter().collect()
    }

    fn names(&self, column: &Column) -> Vec<String> {
        column.iter().map(|(feature, _)| self.model.features[*feature].name.clone()).collect()
    }

    /// Sums of the parts' coefficients. Variances are sandwiches over all parts at once, as the parts of a run share
    /// its disturbances: over runs, and over configurations for what the terms do not describe; the larger one counts.
    fn terms(&self, explained: &[Explained]) -> Vec<Term> {
        let runs = self.training.len();
        // With the most terms that a part with it has.
        let mut sums: BTreeMap<Column, (f64, Vec<f64>, usize)> = BTreeMap::new();
        for own in explained {
            let shares: Vec<f64> = (0..runs).map(|run| (1.0 - own.solver.leverage(run)).max(1e-9)).collect();
            for (coefficient, place) in own.solver.kept.iter().enumerate() {
                let sum = sums.entry(own.part.columns[*place].clone()).or_insert_with(|| (0.0, vec![0.0; runs], 0));
                sum.2 = sum.2.max(own.solver.kept.len());
                sum.0 += own.fit.coefficients[coefficient];
                for (run, influence) in sum.1.iter_mut().enumerate() {
                    *influence += own.solver.weight(coefficient, run) * own.fit.residuals[run] / shares[run].sqrt();
                }
            }
        }
        let mut terms: Vec<Term> = sums
            .iter()
            .map(|(column, (sum, influences, kept))| {
                let half = self.half_width(influences, *kept);
                let bound = |sign: f64| half.map(|half| (sum + sign * half).round() as i64);
                Term {
                    features: self.names(column),
                    forms: column.iter().map(|(_, form)| *form).collect(),
                    ns: sum.round() as i64,
                    low: bound(-1.0),
                    high: bound(1.0),
                }
            })
            .collect();
        terms.sort_by_key(|term| (!term.features.is_empty(), std::cmp::Reverse(term.ns.abs())));
        terms
    }

    /// Half of the 95 % interval of a coefficient; `None` if nothing was repeated.
    fn half_width(&self, influences: &[f64], kept: usize) -> Option<f64> {
        let quantile = |freedom: f64| {
            let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
            Some(distribution.inverse_cdf(0.975))
        };
        let by_run = (influences.len() > kept).then(|| {
            let variance: f64 = influences.iter().map(|own| own * own).sum();
            let freedom = ((influences.len() - kept) as f64).min(self.freedom(influences));
            quantile(freedom).map(|quantile| quantile * variance.sqrt())
        });
        let count = self.places.len();
        let by_configuration = (count > kept).then(|| {
            let of = |place: &usize| {
                let own = self.training.iter().zip(influences).filter(|(run, _)| run.0 == *place);
                own.map(|(_, influence)| *influence).sum::<f64>()
            };
            let variance: f64 = self.places.iter().map(|place| of(place).powi(2)).sum();
            let variance = variance * count as f64 / (count - kept) as f64;
            quantile((count - kept) as f64).map(|quantile| quantile * variance.sqrt())
        });
        [by_run, by_configuration].into_iter().flatten().flatten().reduce(f64::max)
    }

    /// Degrees of freedom of a variance that few configurations make up (Satterthwaite): a term of features that are
    /// seldom selected rests on the repetitions of those configurations.
    fn freedom(&self, influences: &[f64]) -> f64 {
        let (mut sum, mut squares) = (0.0, 0.0);
        for place in &self.places {
            let own = self.training.iter().zip(influences).filter(|(run, _)| run.0 == *place);
            let (count, variance) =
                own.fold((0.0, 0.0), |(count, sum): (f64, f64), (_, own)| (count + 1.0, sum + own * own));
            sum += variance;
            squares += variance * variance / (count - 1.0).max(1.0);
        }
        if squares > 0.0 { (sum * sum / squares).max(1.0) } else { f64::INFINITY }
    }

    fn set(&self, own: &Explained) -> SetInfluence {
        let term = |(place, coefficient): (&usize, &f64)| {
            let column = &own.part.columns[*place];
            Term {
                features: self.names(column),
                forms: column.iter().map(|(_, form)| *form).collect(),
                ns: coefficient.round() as i64,
                low: None,
                high: None,
            }
        };
        let mean = own.part.times.iter().sum::<f64>() / own.part.times.len() as f64;
        SetInfluence {
            features: own.part.set.clone(),
            mean_ns: mean.round() as i64,
            terms: own.solver.kept.iter().zip(&own.fit.coefficients).map(term).collect(),
        }
    }
}
