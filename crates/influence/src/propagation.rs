//! Conditions on undecided features, and what follows from them.

use transect_feature_model::{Constraint, FeatureIndex, FeatureModel, Requirement};

use crate::possible::truths;

/// The choices that a feature still has, one bit each; bit 0: not selected.
pub(crate) type Choices = u64;

/// Not selected.
pub(crate) const ABSENT: Choices = 1;

#[derive(Debug)]
pub(crate) enum Condition<'a> {
    /// At least one of these is selected (`true`) or not selected (`false`).
    Clause(Vec<(FeatureIndex, bool)>),
    /// A constraint of the model, and the features in it.
    Constraint(&'a Constraint, Vec<FeatureIndex>),
}

impl Condition<'_> {
    pub(crate) fn features(&self) -> Vec<FeatureIndex> {
        match self {
            Self::Clause(literals) => literals.iter().map(|(feature, _)| *feature).collect(),
            Self::Constraint(_, features) => features.clone(),
        }
    }
}

/// Everything that the model asks, except for its constraints, as clauses; then the constraints.
pub(crate) fn conditions(model: &FeatureModel) -> Vec<Condition<'_>> {
    let mut all = Vec::new();
    let mut clause = |literals: Vec<(FeatureIndex, bool)>| all.push(Condition::Clause(literals));
    for (at, feature) in model.features.iter().enumerate() {
        if let Some(parent) = feature.parent {
            clause(vec![(at, false), (parent, true)]);
        }
        if feature.mandatory {
            clause(feature.parent.map(|parent| (parent, false)).into_iter().chain([(at, true)]).collect());
        }
        for any in &feature.implies {
            clause(any.iter().map(|other| (*other, true)).chain([(at, false)]).collect());
        }
        for other in &feature.excludes {
            clause(vec![(at, false), (*other, false)]);
        }
    }
    for group in &model.groups {
        for (place, one) in group.members.iter().enumerate() {
            for other in &group.members[place + 1..] {
                clause(vec![(*one, false), (*other, false)]);
            }
        }
        if group.required {
            let members = group.members.iter().map(|member| (*member, true));
            clause(members.chain(group.parent.map(|parent| (parent, false))).collect());
        }
    }
    all.extend(model.constraints.iter().map(|own| Condition::Constraint(own, own.expression.features())));
    all
}

/// Takes away choices that the condition excludes. Gives the features that lost some, or `None` if one has none left.
pub(crate) fn restrict(
    condition: &Condition<'_>,
    choices: &mut [Choices],
    candidates: &[Vec<Option<f64>>],
) -> Option<Vec<FeatureIndex>> {
    match condition {
        Condition::Clause(literals) => restrict_clause(literals, choices),
        Condition::Constraint(constraint, features) => restrict_constraint(constraint, features, choices, candidates),
    }
}

fn restrict_clause(literals: &[(FeatureIndex, bool)], choices: &mut [Choices]) -> Option<Vec<FeatureIndex>> {
    let mut open = None;
    for (feature, selected) in literals {
        let own = choices[*feature];
        let (can_hold, can_fail) =
            if *selected { (own & !ABSENT != 0, own & ABSENT != 0) } else { (own & ABSENT != 0, own & !ABSENT != 0) };
        if !can_fail {
            return Some(Vec::new());
        }
        if can_hold && open.replace((*feature, *selected)).is_some() {
            return Some(Vec::new());
        }
    }
    let (feature, selected) = open?;
    choices[feature] &= if selected { !ABSENT } else { ABSENT };
    Some(vec![feature])
}

fn restrict_constraint(
    constraint: &Constraint,
    features: &[FeatureIndex],
    choices: &mut [Choices],
    candidates: &[Vec<Option<f64>>],
) -> Option<Vec<FeatureIndex>> {
    if !can_hold(constraint, features, choices, candidates) {
        return None;
    }
    let mut changed = Vec::new();
    for feature in features {
        let before = choices[*feature];
        if before.is_power_of_two() {
            continue;
        }
        let mut left = before;
        for bit in bits(before) {
            choices[*feature] = 1 << bit;
            if !can_hold(constraint, features, choices, candidates) {
                left &= !(1 << bit);
            }
        }
        choices[*feature] = left;
        if left == 0 {
            return None;
        }
        if left != before {
            changed.push(*feature);
        }
    }
    Some(changed)
}

/// Whether the constraint can be satisfied by some choice, as far as bounds tell; exact once all is decided.
fn can_hold(
    constraint: &Constraint,
    features: &[FeatureIndex],
    choices: &[Choices],
    candidates: &[Vec<Option<f64>>],
) -> bool {
    if constraint.requirement == Requirement::All && features.iter().any(|at| choices[*at] & ABSENT != 0) {
        return true;
    }
    let bounds = |at: FeatureIndex| {
        bits(choices[at])
            .map(|bit| candidates[at][bit].unwrap_or(0.0))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
    };
    let truths = truths(&constraint.expression, &bounds);
    if constraint.negated { truths.no } else { truths.yes }
}

/// Places of the bits that are set.
pub(crate) fn bits(mut choices: Choices) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = choices.trailing_zeros() as usize;
        (choices != 0).then(|| {
            choices &= choices - 1;
            bit
        })
    })
}
