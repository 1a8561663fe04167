//! From a draft to a model: names become features, mistakes become errors with places.

use std::collections::HashMap;

use crate::draft::{ConstraintDraft, DefaultDraft, Draft, FeatureDraft, Placed};
use crate::{Constraint, Feature, FeatureIndex, FeatureKind, FeatureModel, Group, ModelError, Problem, check};
use crate::{Place, expression_parser};

/// Features by name.
struct Names<'a> {
    by_name: HashMap<&'a str, FeatureIndex>,
}

impl<'a> Names<'a> {
    fn new(features: &'a [FeatureDraft]) -> Result<Self, ModelError> {
        let mut by_name = HashMap::new();
        for (place, feature) in features.iter().enumerate() {
            let name = feature.name.text.as_str();
            if name.is_empty() {
                return Err(ModelError::at(feature.name.at, Problem::NoName));
            }
            if let Some(first) = by_name.insert(name, place) {
                let first = features[first].name.at.line;
                return Err(ModelError::at(feature.name.at, Problem::Duplicate { name: name.into(), first }));
            }
        }
        Ok(Self { by_name })
    }

    fn unknown(&self, name: &str, by: String) -> Problem {
        let near = |own: &&&str| own.eq_ignore_ascii_case(name) || own.contains(name) || name.contains(**own);
        let hint = match self.by_name.keys().filter(near).min() {
            Some(near) if !name.is_empty() => format!("; is `{near}` meant?"),
            _ => String::new(),
        };
        Problem::Unknown { by, name: name.into(), hint }
    }

    fn find(&self, placed: &Placed, by: impl FnOnce() -> String) -> Result<FeatureIndex, ModelError> {
        let found = self.by_name.get(placed.text.as_str()).copied();
        found.ok_or_else(|| ModelError::at(placed.at, self.unknown(&placed.text, by())))
    }
}

pub(crate) fn build(draft: Draft, name: &str) -> Result<FeatureModel, ModelError> {
    if draft.features.is_empty() {
        return Err(Problem::Empty.into());
    }
    let names = Names::new(&draft.features)?;
    let parents = parents(&draft.features, &names)?;
    let mut features = Vec::with_capacity(draft.features.len());
    for (place, own) in draft.features.iter().enumerate() {
        features.push(feature(own, parents[place], &names)?);
    }
    check::no_cycle(&features, &draft.features)?;
    let mut groups = named_groups(&draft.features, &features)?;
    let mut constraints = Vec::new();
    for own in &draft.constraints {
        constraints.push(constraint(own, &names)?);
    }
    if draft.alternatives_by_exclusion {
        groups.extend(check::alternatives_by_exclusion(&mut features, &mut constraints));
    }
    for group in &groups {
        for member in &group.members {
            features[*member].mandatory = false;
        }
    }
    let name = if draft.name.is_empty() { name.to_owned() } else { draft.name };
    Ok(FeatureModel { name, features, groups, constraints, ignored: draft.ignored })
}

/// Parents, given by the child or by the parent.
fn parents(drafts: &[FeatureDraft], names: &Names<'_>) -> Result<Vec<Option<FeatureIndex>>, ModelError> {
    let mut parents = vec![None; drafts.len()];
    for (place, draft) in drafts.iter().enumerate() {
        if let Some(parent) = &draft.parent {
            parents[place] = Some(names.find(parent, || format!("the parent of `{}`", draft.name.text))?);
        }
    }
    for (place, draft) in drafts.iter().enumerate() {
        for child in &draft.children {
            let at = names.find(child, || format!("a child of `{}`", draft.name.text))?;
            match parents[at] {
                Some(other) if other != place => {
                    let (one, other) = (drafts[other].name.text.clone(), draft.name.text.clone());
                    let problem = Problem::TwoParents { feature: child.text.clone(), one, other };
                    return Err(ModelError::at(child.at, problem));
                }
                _ => parents[at] = Some(place),
            }
        }
    }
    Ok(parents)
}

fn feature(draft: &FeatureDraft, parent: Option<FeatureIndex>, names: &Names<'_>) -> Result<Feature, ModelError> {
    let name = &draft.name.text;
    let own = names.by_name.get(name.as_str()).copied();
    let mut implies = Vec::new();
    for any in &draft.implies {
        let any: Result<Vec<_>, _> =
            any.iter().map(|other| names.find(other, || format!("`{name}`'s implies"))).collect();
        implies.push(any?);
    }
    let mut excludes = Vec::new();
    for other in &draft.excludes {
        let at = names.find(other, || format!("`{name}`'s excludes"))?;
        if Some(at) == own {
            return Err(ModelError::at(other.at, Problem::ExcludesItself(name.clone())));
        }
        excludes.push(at);
    }
    let wrong_default =
        |found: String| ModelError::at(draft.name.at, Problem::Default { feature: name.clone(), found });
    let kind = match (&draft.domain, draft.default) {
        (None, None) => FeatureKind::Binary { default: false },
        (None, Some(DefaultDraft::Selected(default))) => FeatureKind::Binary { default },
        (None, Some(DefaultDraft::Value(value))) => return Err(wrong_default(value.to_string())),
        (Some(domain), None) => FeatureKind::Numeric { domain: domain.clone(), default: None },
        (Some(domain), Some(DefaultDraft::Value(value))) if domain.contains(value) => {
            FeatureKind::Numeric { domain: domain.clone(), default: Some(value) }
        }
        (Some(_), Some(DefaultDraft::Value(value))) => return Err(wrong_default(value.to_string())),
        (Some(_), Some(DefaultDraft::Selected(value))) => return Err(wrong_default(value.to_string())),
    };
    let mut places = draft.places.clone();
    places.dedup();
    Ok(Feature {
        name: name.clone(),
        option: draft.option.clone(),
        parent,
        mandatory: draft.optional == Some(false),
        is_abstract: draft.is_abstract,
        implies,
        excludes,
        kind,
        places: places
            .into_iter()
            .filter(|place| !matches!(place, Place::Location { path, .. } if path.is_empty()))
            .collect(),
    })
}

/// Groups given by name.
fn named_groups(drafts: &[FeatureDraft], features: &[Feature]) -> Result<Vec<Group>, ModelError> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let Some(group) = &draft.group else { continue };
        let wrong = |problem| Err(ModelError::at(group.at, problem));
        let name = group.text.clone();
        if features[place].domain().is_some() {
            return wrong(Problem::GroupNumeric { group: name, feature: draft.name.text.clone() });
        }
        let (parent, required) = (features[place].parent, draft.optional != Some(true));
        match groups.iter_mut().find(|own| own.name == name) {
            None => groups.push(Group { name, parent, members: vec![place], required }),
            Some(own) if own.parent != parent => return wrong(Problem::GroupParents { group: name }),
            Some(own) if own.required != required => return wrong(Problem::GroupOptional { group: name }),
            Some(own) => own.members.push(place),
        }
    }
    Ok(groups)
}

fn constraint(draft: &ConstraintDraft, names: &Names<'_>) -> Result<Constraint, ModelError> {
    let text = draft.text.text.trim().to_owned();
    let find = |name: &str| {
        let found = names.by_name.get(name).copied();
        found.ok_or_else(|| names.unknown(name, "the constraint".into()).to_string())
    };
    match expression_parser::parse(&text, &find) {
        Ok(expression) => Ok(Constraint { text, expression, requirement: draft.requirement, negated: draft.negated }),
        Err(message) => Err(ModelError::at(draft.text.at, Problem::Expression { text, message })),
    }
}
