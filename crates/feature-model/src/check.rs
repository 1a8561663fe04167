//! Checks and conclusions over all features of a model.

use crate::draft::FeatureDraft;
use crate::{Constraint, Feature, FeatureIndex, Group, ModelError, Problem, Requirement, Truth, Value};

/// Refuses parents that lead back to the feature.
pub(crate) fn no_cycle(features: &[Feature], drafts: &[FeatureDraft]) -> Result<(), ModelError> {
    // 0 not seen, 1 on the current way, 2 known to end.
    let mut state = vec![0_u8; features.len()];
    for start in 0..features.len() {
        let mut way = Vec::new();
        let mut at = Some(start);
        while let Some(place) = at.filter(|place| state[*place] == 0) {
            state[place] = 1;
            way.push(place);
            at = features[place].parent;
        }
        if let Some(place) = at.filter(|place| state[*place] == 1) {
            let from = way.iter().position(|own| *own == place).unwrap_or(0);
            let names = way[from..].iter().chain([&place]).map(|own| features[*own].name.as_str());
            let path = names.collect::<Vec<_>>().join(" -> ");
            let position = drafts[place].parent.as_ref().unwrap_or(&drafts[place].name).at;
            return Err(ModelError::at(position, Problem::Cycle { feature: features[place].name.clone(), path }));
        }
        for place in way {
            state[place] = 2;
        }
    }
    Ok(())
}

/// Mandatory siblings that exclude each other, in both directions, are alternatives: with the parent one of them is
/// selected. Features that are not all each other's alternatives become an additional condition instead. A mandatory
/// feature that excludes anything is not selected by itself (so in SPL Conqueror).
pub(crate) fn alternatives_by_exclusion(features: &mut [Feature], constraints: &mut Vec<Constraint>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let excludes = |a: FeatureIndex, b: FeatureIndex| features[a].excludes.contains(&b);
    let siblings = |a: FeatureIndex, b: FeatureIndex| {
        features[a].mandatory && features[b].mandatory && features[a].parent == features[b].parent
    };
    let alternatives: Vec<Vec<FeatureIndex>> = (0..features.len())
        .map(|own| {
            let numeric = |at: FeatureIndex| features[at].domain().is_some();
            let others = (0..features.len()).filter(|other| {
                let (own_to_other, other_to_own) = (excludes(own, *other), excludes(*other, own));
                siblings(own, *other) && own_to_other && other_to_own && !numeric(own) && !numeric(*other)
            });
            let mut all: Vec<_> = others.chain([own]).collect();
            all.sort_unstable();
            all
        })
        .collect();
    for own in 0..features.len() {
        let members = &alternatives[own];
        if members.len() < 2 {
            continue;
        }
        if members.iter().all(|member| alternatives[*member] == *members) {
            if members[0] == own {
                let names: Vec<_> = members.iter().map(|member| features[*member].name.as_str()).collect();
                let (name, parent) = (names.join("|"), features[own].parent);
                groups.push(Group { name, parent, members: members.clone(), required: true });
            }
        } else {
            let any = members.iter().map(|member| Value::Feature(*member).into());
            if let Some(any) = any.reduce(|a, b| Truth::Or(a, b).into()) {
                let expression = match features[own].parent {
                    Some(parent) => Truth::Implies(Value::Feature(parent).into(), any).into(),
                    None => any,
                };
                let text = format!("alternatives of {}", features[own].name);
                constraints.push(Constraint { text, expression, requirement: Requirement::None, negated: false });
            }
        }
    }
    for feature in features.iter_mut().filter(|feature| !feature.excludes.is_empty()) {
        feature.mandatory = false;
    }
    groups
}
