//! Terms that may explain a time.

use std::collections::BTreeSet;

use transect_feature_model::{FeatureIndex, FeatureModel};

use crate::Form;
use crate::column::{Column, columns};
use crate::explain::Task;
use crate::selection;

/// Values of a numeric feature above which its form is only approximately that of the times.
const VALUES_WITHOUT_FORM: usize = 2;
/// Features at once, at most, of which all products are looked at.
const FULL: usize = 5;

impl Task<'_> {
    /// Features that reach the command line and differ between the configurations, but for those that follow from others.
    pub(crate) fn varied(&self) -> Vec<FeatureIndex> {
        let differs = |at: &FeatureIndex| {
            let mut values = self.places.iter().map(|place| self.observations.configurations[*place].value(*at));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let mut found: Vec<FeatureIndex> = (0..self.model.features.len())
            .filter(|at| !self.model.features[*at].option.is_empty())
            .filter(differs)
            .collect();
        // One of required alternatives is the base of the others, unless something above them can be left out.
        for group in self.model.groups.iter().filter(|group| group.required) {
            let always = group.parent.is_none_or(|parent| !differs(&parent) || found.contains(&parent));
            let all: Vec<FeatureIndex> = group.members.iter().copied().filter(|own| differs(own)).collect();
            if let (true, true, Some(last)) = (always, all.iter().all(|own| found.contains(own)), all.last()) {
                found.retain(|own| own != last);
            }
        }
        found
    }

    /// Products of at most `order` of the features, the constant first; `times` are the configurations' means.
    pub(crate) fn candidates(&self, features: &[FeatureIndex], times: &[f64]) -> Vec<Column> {
        let forms: Vec<(FeatureIndex, &'static [Form])> = selection::forms(self, features, times);
        let all = |order: usize| {
            let mut all = columns(&forms, order.min(features.len()));
            all.retain(|column| !repeats_its_parent(self.model, column));
            all
        };
        // Where all that can occur is run, everything is determined.
        let most = self.most_at_once(features);
        if most > self.order && most <= FULL {
            let full = all(most);
            if self.independent(&full).is_some_and(|kept| kept.len() == full.len()) {
                return full;
            }
        }
        all(self.order)
    }

    /// Whether the times may depend on more than the candidates: on more features at once, on values in another form.
    pub(crate) fn may_misfit(&self, features: &[FeatureIndex], columns: &[Column]) -> bool {
        let values = |at: &FeatureIndex| {
            let own = self.places.iter().filter_map(|place| self.observations.configurations[*place].value(*at));
            own.map(f64::to_bits).collect::<BTreeSet<_>>().len()
        };
        let order = columns.iter().map(Vec::len).max().unwrap_or(0).max(self.order);
        self.most_at_once(features) > order || features.iter().any(|at| values(at) > VALUES_WITHOUT_FORM)
    }

    /// How many of the features are selected at once, at most.
    fn most_at_once(&self, features: &[FeatureIndex]) -> usize {
        let selected = |place: &usize| {
            let own = &self.observations.configurations[*place];
            features.iter().filter(|at| own.value(**at).is_some()).count()
        };
        self.places.iter().map(selected).max().unwrap_or(0)
    }
}

/// A feature with something above it that it can't be without, each only selected or not: nothing new.
fn repeats_its_parent(model: &FeatureModel, column: &Column) -> bool {
    let above = |at: FeatureIndex| std::iter::successors(model.features[at].parent, |at| model.features[*at].parent);
    column.iter().any(|(feature, form)| {
        *form == Form::On && column.iter().any(|(other, _)| above(*other).any(|own| own == *feature))
    })
}
