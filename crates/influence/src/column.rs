//! Terms as columns of numbers, one for each run.

use transect_feature_model::{FeatureIndex, FeatureModel};

use crate::{Configuration, Form};

/// A product of features in their forms; empty: the constant 1.
pub(crate) type Column = Vec<(FeatureIndex, Form)>;

/// Values below which a feature has one form only: two curves through few points are told apart by chance.
const VALUES_FOR_TWO_FORMS: usize = 6;

/// The values of a numeric feature that were run.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
    /// How many there are.
    values: usize,
}

/// The values of each numeric feature that were run.
#[derive(Debug, Clone)]
pub(crate) struct Scales {
    ranges: Vec<Option<Range>>,
}

impl Scales {
    pub(crate) fn new<'a>(
        model: &FeatureModel,
        configurations: impl Iterator<Item = &'a Configuration> + Clone,
    ) -> Self {
        let range = |at: FeatureIndex| {
            model.features[at].domain()?;
            let mut values: Vec<f64> = configurations.clone().filter_map(|own| own.value(at)).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            Some(Range { low: *values.first()?, high: *values.last()?, values: values.len() })
        };
        Self { ranges: (0..model.features.len()).map(range).collect() }
    }

    /// Forms in which a feature can stand in a term.
    pub(crate) fn forms(&self, feature: FeatureIndex) -> &'static [&'static [Form]] {
        const ANY: &[&[Form]] = &[
            &[Form::On, Form::Linear],
            &[Form::On, Form::Log],
            &[Form::On, Form::Square],
            &[Form::On, Form::Linear, Form::Log],
        ];
        const NOT_POSITIVE: &[&[Form]] = &[&[Form::On, Form::Linear], &[Form::On, Form::Square]];
        match self.ranges[feature] {
            Some(Range { low, values, .. }) if values > 2 && low > 0.0 => {
                if values < VALUES_FOR_TWO_FORMS {
                    &ANY[..3]
                } else {
                    ANY
                }
            }
            Some(Range { values, .. }) if values > 2 => NOT_POSITIVE,
            Some(Range { values: 2, .. }) => &NOT_POSITIVE[..1],
            _ => &[&[Form::On]],
        }
    }

    /// The column's number for a configuration.
    pub(crate) fn number(&self, column: &Column, configuration: &Configuration) -> f64 {
        column.iter().map(|part| self.part(part, configuration)).product()
    }

    fn part(&self, (feature, form): &(FeatureIndex, Form), configuration: &Configuration) -> f64 {
        let Some(value) = configuration.value(*feature) else { return 0.0 };
        let Some(Range { low, high, .. }) = self.ranges[*feature] else { return 1.0 };
        let share = (value - low) / (high - low);
        match form {
            Form::On => 1.0,
            Form::Linear => share,
            Form::Square => share * share,
            Form::Log => (value / low).ln() / (high / low).ln(),
        }
    }
}

/// All products of at most `order` of the features, each in each of its forms: the constant first, then by number of
/// features.
pub(crate) fn columns(features: &[(FeatureIndex, &[Form])], order: usize) -> Vec<Column> {
    let mut all: Vec<Column> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..order {
        let mut longer = Vec::new();
        for column in &last {
            let after = column.last().map(|(feature, _)| *feature);
            for (feature, forms) in features.iter().filter(|(feature, _)| after.is_none_or(|after| *feature > after)) {
                for form in forms.iter() {
                    longer.push(column.iter().copied().chain([(*feature, *form)]).collect::<Column>());
                }
            }
        }
        all.extend(longer.iter().cloned());
        last = longer;
    }
    all
}
