use std::collections::HashSet;

use transect_feature_model::{FeatureIndex, FeatureKind, FeatureModel};

use crate::propagation::{ABSENT, Choices, Condition, bits, conditions, restrict};
use crate::{Configuration, InfluenceError};

/// Steps of one search, at most.
const STEP_LIMIT: usize = 200_000;
/// Values of one numeric feature, at most: a set of choices is a word.
const VALUE_LIMIT: usize = 60;

/// One choice of one feature: its number and the place of the choice among its candidates.
pub(crate) type Choice = (FeatureIndex, usize);

/// The configurations that a model allows, with some values of each numeric feature.
#[derive(Debug)]
pub struct Space<'a> {
    /// The model.
    pub model: &'a FeatureModel,
    /// What a feature can be: first not selected, then its values.
    pub(crate) candidates: Vec<Vec<Option<f64>>>,
    /// Features that reach the command line.
    pub(crate) driven: Vec<FeatureIndex>,
    conditions: Vec<Condition<'a>>,
    /// Conditions on each feature.
    concerned: Vec<Vec<usize>>,
    /// What is possible at all.
    start: Vec<Choices>,
}

impl<'a> Space<'a> {
    /// The space of a model with at most `levels` values of each numeric feature (at least two): the smallest, the
    /// largest, the default and some between.
    pub fn new(model: &'a FeatureModel, levels: usize) -> Result<Self, InfluenceError> {
        let candidates: Vec<Vec<Option<f64>>> = model
            .features
            .iter()
            .map(|feature| {
                let values = match &feature.kind {
                    FeatureKind::Binary { .. } => vec![1.0],
                    FeatureKind::Numeric { domain, default } => {
                        let mut values = domain.spread(levels.clamp(2, VALUE_LIMIT));
                        values.extend(default);
                        values.sort_by(f64::total_cmp);
                        values.dedup();
                        values
                    }
                };
                [None].into_iter().chain(values.into_iter().map(Some)).collect()
            })
            .collect();
        let driven: Vec<_> = (0..model.features.len()).filter(|at| !model.features[*at].option.is_empty()).collect();
        if driven.is_empty() {
            return Err(InfluenceError::NothingToDrive);
        }
        let conditions = conditions(model);
        let mut concerned = vec![Vec::new(); candidates.len()];
        for (place, condition) in conditions.iter().enumerate() {
            for feature in condition.features() {
                concerned[feature].push(place);
            }
        }
        let start = candidates.iter().map(|own| (1 << own.len()) - 1).collect();
        let mut space = Self { model, candidates, driven, conditions, concerned, start };
        let mut start = space.start.clone();
        let all: Vec<_> = (0..space.conditions.len()).collect();
        if !space.propagate(&mut start, all) {
            return Err(InfluenceError::NoConfiguration);
        }
        space.start = start;
        match space.complete(&[], &[], |_| ABSENT)? {
            Some(_) => Ok(space),
            None => Err(InfluenceError::NoConfiguration),
        }
    }

    /// Leaves a choice only for these features, those below them, and what they need; the others keep their defaults as
    /// far as the constraints let them.
    pub fn vary(&mut self, names: &[String]) -> Result<(), InfluenceError> {
        let model = self.model;
        let mut free = vec![false; model.features.len()];
        for name in names {
            let unknown = || {
                let all: Vec<_> = model.features.iter().map(|feature| feature.name.as_str()).collect();
                InfluenceError::UnknownFeature(name.clone(), all.join(", "))
            };
            free[model.find(name).ok_or_else(unknown)?] = true;
        }
        let ancestors = |at: FeatureIndex| std::iter::successors(Some(at), |at| model.features[*at].parent);
        let wanted = free.clone();
        for at in 0..free.len() {
            if ancestors(at).any(|own| wanted[own]) {
                free[at] = true;
            }
            if wanted[at] {
                ancestors(at).for_each(|own| free[own] = true);
            }
        }
        let asked_for: Vec<FeatureIndex> = (0..free.len()).filter(|at| ancestors(*at).any(|own| wanted[own])).collect();
        let default = self.default_configuration()?;
        // Alternatives: what gives way to a wanted one is the default; to the default, any other.
        for group in &model.groups {
            let chosen = |member: &FeatureIndex| default.value(*member).is_some();
            let mut asked = group.members.iter().filter(|member| wanted[**member]);
            if group.members.iter().any(|member| wanted[*member]) {
                let all = asked.all(chosen);
                group.members.iter().filter(|member| all || chosen(member)).for_each(|own| free[*own] = true);
            }
        }
        for feature in self.driven.iter().filter(|feature| !free[**feature]) {
            let place = self.candidates[*feature].iter().position(|value| *value == default.value(*feature));
            let mut choices = self.start.clone();
            let fixed = place.is_some_and(|place| self.decide(&mut choices, (*feature, place)));
            // What one that varies needs has to vary with it.
            if fixed && asked_for.iter().all(|at| choices[*at] == self.start[*at]) {
                self.start = choices;
            }
        }
        Ok(())
    }

    /// Features that reach the command line and can be chosen.
    pub fn choosable(&self) -> Vec<FeatureIndex> {
        self.driven.iter().copied().filter(|at| !self.start[*at].is_power_of_two()).collect()
    }

    /// Features with places in the source that no option text reaches: they never change.
    pub fn undriven(&self) -> Vec<FeatureIndex> {
        let lost = |at: &FeatureIndex| {
            let feature = &self.model.features[*at];
            feature.option.is_empty() && !feature.places.is_empty() && !self.start[*at].is_power_of_two()
        };
        (0..self.candidates.len()).filter(lost).collect()
    }

    /// Choices of a feature that are not excluded from the start.
    pub(crate) fn choices(&self, feature: FeatureIndex) -> Vec<usize> {
        bits(self.start[feature]).collect()
    }

    /// The configuration that the model's defaults describe, or one near it.
    pub fn default_configuration(&self) -> Result<Configuration, InfluenceError> {
        let prefer = |at: FeatureIndex| match &self.model.features[at].kind {
            FeatureKind::Binary { default: true } => !ABSENT,
            // One that can be left out is: the program then takes the default by itself.
            FeatureKind::Numeric { default: Some(default), .. } if self.model.features[at].mandatory => {
                let place = self.candidates[at].iter().position(|value| value == &Some(*default));
                place.map_or(ABSENT, |place| 1 << place)
            }
            _ => ABSENT,
        };
        let found = self.complete(&[], &[], prefer)?;
        found.map(|choices| self.configuration(&choices)).ok_or(InfluenceError::NoConfiguration)
    }

    /// All configurations that differ in their arguments, or `None` if there are more than `limit`.
    pub fn all(&self, limit: usize) -> Result<Option<Vec<Configuration>>, InfluenceError> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut open = vec![(self.start.clone(), 0)];
        let mut steps = 0;
        while let Some((choices, place)) = open.pop() {
            steps += 1;
            if steps > STEP_LIMIT {
                return Ok(None);
            }
            let Some(feature) = self.driven.get(place).copied() else {
                if let Some(choices) = self.search(choices, &[], &|_| ABSENT)? {
                    let configuration = self.configuration(&choices);
                    if seen.insert(configuration.arguments(self.model)) {
                        found.push(configuration);
                    }
                }
                if found.len() > limit {
                    return Ok(None);
                }
                continue;
            };
            for bit in bits(choices[feature]).collect::<Vec<_>>().into_iter().rev() {
                let mut next = choices.clone();
                if self.decide(&mut next, (feature, bit)) {
                    open.push((next, place + 1));
                }
            }
        }
        Ok(Some(found))
    }

    /// Extends choices to a configuration: features in `order` first, then the others; each takes what `prefer` says if
    /// it can. `None` if the choices contradict the model.
    pub(crate) fn complete(
        &self,
        wanted: &[Choice],
        order: &[FeatureIndex],
        prefer: impl Fn(FeatureIndex) -> Choices,
    ) -> Result<Option<Vec<Choices>>, InfluenceError> {
        let mut choices = self.start.clone();
        for choice in wanted {
            if !self.decide(&mut choices, *choice) {
                return Ok(None);
            }
        }
        self.search(choices, order, &prefer)
    }

    /// Makes a choice and draws conclusions; false if it contradicts what is decided.
    pub(crate) fn decide(&self, choices: &mut [Choices], (feature, bit): Choice) -> bool {
        let wanted = choices[feature] & (1 << bit);
        if wanted == 0 {
            return false;
        }
        if choices[feature] == wanted {
            return true;
        }
        choices[feature] = wanted;
        self.propagate(choices, self.concerned[feature].clone())
    }

    pub(crate) fn start(&self) -> &[Choices] {
        &self.start
    }

    pub(crate) fn configuration(&self, choices: &[Choices]) -> Configuration {
        let value = |(at, own): (usize, &Choices)| self.candidates[at][own.trailing_zeros() as usize];
        Configuration { values: choices.iter().enumerate().map(value).collect() }
    }

    /// Depth-first search with propagation.
    pub(crate) fn search(
        &self,
        start: Vec<Choices>,
        order: &[FeatureIndex],
        prefer: &impl Fn(FeatureIndex) -> Choices,
    ) -> Result<Option<Vec<Choices>>, InfluenceError> {
        let mut open = vec![start];
        let mut steps = 0;
        while let Some(choices) = open.pop() {
            steps += 1;
            if steps > STEP_LIMIT {
                return Err(InfluenceError::TooHard(STEP_LIMIT));
            }
            let undecided = |at: &FeatureIndex| !choices[*at].is_power_of_two();
            let next = order.iter().copied().find(undecided).or_else(|| (0..choices.len()).find(undecided));
            let Some(feature) = next else { return Ok(Some(choices)) };
            let preferred = prefer(feature) & choices[feature];
            // The last one pushed is tried first.
            for part in [choices[feature] & !preferred, preferred] {
                for bit in bits(part).collect::<Vec<_>>().into_iter().rev() {
                    let mut next = choices.clone();
                    if self.decide(&mut next, (feature, bit)) {
                        open.push(next);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Applies conditions until nothing changes; false if some feature has no choice left.
    fn propagate(&self, choices: &mut [Choices], mut open: Vec<usize>) -> bool {
        let mut waiting = vec![false; self.conditions.len()];
        for place in &open {
            waiting[*place] = true;
        }
        while let Some(place) = open.pop() {
            waiting[place] = false;
            let Some(changed) = restrict(&self.conditions[place], choices, &self.candidates) else { return false };
            for feature in changed {
                for other in &self.concerned[feature] {
                    if !waiting[*other] {
                        waiting[*other] = true;
                        open.push(*other);
                    }
                }
            }
        }
        true
    }
}
