//! The parts' terms added up.

use std::collections::BTreeMap;

use crate::column::Column;
use crate::explain::Task;
use crate::parts::Part;
use crate::{SetInfluence, Term};

/// Probability from which on a term is one of the result's.
const TOLD: f64 = 0.5;

/// A term of some parts.
#[derive(Default)]
struct Sum {
    mean: f64,
    probability: f64,
    /// The part, and how far the interval goes below and above the mean.
    widths: Vec<(usize, f64, f64)>,
}

impl Task<'_> {
    /// Terms that are more probable than not, base first, then by size.
    pub(crate) fn terms(&self, parts: &[Part]) -> Vec<Term> {
        let mut sums: BTreeMap<&Column, Sum> = BTreeMap::new();
        for (place, part) in parts.iter().enumerate() {
            for (column, term) in part.columns.iter().zip(&part.average.terms) {
                let sum = sums.entry(column).or_default();
                sum.mean += term.mean;
                sum.probability = sum.probability.max(term.probability);
                sum.widths.push((place, term.mean - term.low, term.high - term.mean));
            }
        }
        let together = self.correlations(parts);
        let told = sums.into_iter().filter(|(column, sum)| column.is_empty() || sum.probability >= TOLD);
        let mut terms: Vec<Term> = told
            .map(|(column, sum)| {
                // Disturbances of a run are those of all its parts.
                let width = |side: fn(&(usize, f64, f64)) -> f64| {
                    let one = |a: &(usize, f64, f64)| {
                        sum.widths.iter().map(|b| together[a.0][b.0] * side(a) * side(b)).sum::<f64>()
                    };
                    sum.widths.iter().map(one).sum::<f64>().max(0.0).sqrt()
                };
                let lowest = if column.is_empty() { 0.0 } else { -self.longest };
                let bound = |bound: f64| Some(bound.clamp(lowest, self.longest).round() as i64);
                Term {
                    features: self.names(column),
                    forms: column.iter().map(|(_, form)| *form).collect(),
                    ns: sum.mean.clamp(lowest, self.longest).round() as i64,
                    low: bound(sum.mean - width(|own| own.1)),
                    high: bound(sum.mean + width(|own| own.2)),
                }
            })
            .collect();
        terms.sort_by_key(|term| (!term.features.is_empty(), std::cmp::Reverse(term.ns.abs())));
        terms
    }

    /// For each two parts how much what their terms leave of the runs goes together, 0 to 1.
    fn correlations(&self, parts: &[Part]) -> Vec<Vec<f64>> {
        let left = |part: &Part| -> Vec<f64> {
            let one = |(run, time): (&&(usize, crate::Measurement), &f64)| {
                time - self.predicted_part(part, self.configuration(run))
            };
            self.training.iter().zip(&part.times).map(one).collect()
        };
        let left: Vec<Vec<f64>> = parts.iter().map(left).collect();
        let product = |a: usize, b: usize| left[a].iter().zip(&left[b]).map(|(a, b)| a * b).sum::<f64>();
        let one = |a: usize, b: usize| {
            let size = (product(a, a) * product(b, b)).sqrt();
            if a == b || size == 0.0 { 1.0 } else { (product(a, b) / size).clamp(0.0, 1.0) }
        };
        (0..parts.len()).map(|a| (0..parts.len()).map(|b| one(a, b)).collect()).collect()
    }

    /// Labels of terms of which one is real, and it can't be told which.
    pub(crate) fn confounded(&self, parts: &[Part]) -> Vec<Vec<String>> {
        let label = |column: &Column| {
            let forms = column.iter().map(|(_, form)| *form).collect();
            Term { features: self.names(column), forms, ns: 0, low: None, high: None }.label()
        };
        let groups = parts.iter().flat_map(|part| {
            let labels = |group: &Vec<usize>| group.iter().map(|place| label(&part.columns[*place])).collect();
            part.average.confounded.iter().map(labels)
        });
        let mut found: Vec<Vec<String>> = groups.collect();
        found.sort();
        found.dedup();
        found
    }

    pub(crate) fn set(&self, part: &Part) -> SetInfluence {
        let terms = part.columns.iter().zip(&part.average.terms);
        let told = terms.filter(|(column, term)| column.is_empty() || term.probability >= TOLD);
        let term = |(column, term): (&Column, &crate::average::Averaged)| Term {
            features: self.names(column),
            forms: column.iter().map(|(_, form)| *form).collect(),
            ns: term.mean.round() as i64,
            low: Some(term.low.round() as i64),
            high: Some(term.high.round() as i64),
        };
        let mean = part.times.iter().sum::<f64>() / part.times.len() as f64;
        SetInfluence { features: part.set.clone(), mean_ns: mean.round() as i64, terms: told.map(term).collect() }
    }

    pub(crate) fn names(&self, column: &Column) -> Vec<String> {
        column.iter().map(|(feature, _)| self.model.features[*feature].name.clone()).collect()
    }
}
