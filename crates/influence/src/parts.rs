//! The times that are explained, each by its own features.

use std::collections::BTreeSet;

use transect_feature_model::FeatureIndex;

use crate::average::{Average, average};
use crate::column::Column;
use crate::explain::Task;
use crate::noise::Noise;
use crate::{Configuration, Method};

/// The time under one set of features (or the whole time), and the terms that explain it.
pub(crate) struct Part {
    pub(crate) set: Vec<String>,
    /// What may be a term.
    pub(crate) columns: Vec<Column>,
    /// Of the runs that terms come from.
    pub(crate) times: Vec<f64>,
    pub(crate) average: Average,
}

impl Task<'_> {
    pub(crate) fn parts(&self, method: Method) -> Vec<Part> {
        match method {
            Method::Regions => self.parts_of_regions(),
            Method::Wall => {
                let times = self.training.iter().map(|(_, own)| own.wall_ns).collect();
                vec![self.part(Vec::new(), &self.varied(), times)]
            }
        }
    }

    /// One part for each active set, with products of its own features.
    fn parts_of_regions(&self) -> Vec<Part> {
        let varied = self.varied();
        let sets: BTreeSet<&Vec<String>> = self.training.iter().flat_map(|(_, own)| own.sets.keys()).collect();
        let part = |set: &Vec<String>| {
            let time = |(_, own): &&(usize, crate::Measurement)| own.sets.get(set).copied().unwrap_or(0.0);
            let times: Vec<f64> = self.training.iter().map(time).collect();
            // A variable may stand for the feature above the options, such as a mode above its alternatives.
            let parent = |at: &FeatureIndex| self.model.features[*at].parent;
            let concerned = |at: &FeatureIndex| {
                std::iter::successors(Some(*at), parent).any(|own| set.contains(&self.model.features[own].name))
            };
            let own: Vec<FeatureIndex> = varied.iter().copied().filter(concerned).collect();
            times.iter().any(|time| *time != 0.0).then(|| self.part(set.clone(), &own, times))
        };
        sets.into_iter().filter_map(part).collect()
    }

    fn part(&self, set: Vec<String>, features: &[FeatureIndex], times: Vec<f64>) -> Part {
        let means = self.means(&times);
        let columns = self.candidates(features, &means);
        let numbers: Vec<Vec<f64>> = columns.iter().map(|column| self.numbers_of(column)).collect();
        let noise = Noise::new(self, &times, &means);
        let average = average(&columns, &numbers, &means, &noise, self.may_misfit(features, &columns), self.longest);
        Part { set, columns, times, average }
    }

    /// What the terms say of a configuration, ns.
    pub(crate) fn predicted(&self, parts: &[Part], configuration: &Configuration) -> f64 {
        parts.iter().map(|part| self.predicted_part(part, configuration)).sum()
    }

    pub(crate) fn predicted_part(&self, part: &Part, configuration: &Configuration) -> f64 {
        let terms = part.columns.iter().zip(&part.average.terms);
        terms.map(|(column, term)| self.scales.number(column, configuration) * term.mean).sum()
    }
}
