//! TOML models: `[[feature]]` tables and top-level `constraints`.

use serde::Deserialize;
use toml::Spanned;

use crate::draft::{ConstraintDraft, DefaultDraft, Draft, FeatureDraft, Placed};
use crate::{Domain, ModelError, OptionText, Place, Position, Problem, Requirement, Step, variable_form};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    name: Option<String>,
    #[serde(default)]
    feature: Vec<FeatureTable>,
    #[serde(default)]
    constraints: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureTable {
    name: Spanned<String>,
    #[serde(default)]
    vars: Vec<Spanned<String>>,
    #[serde(default)]
    members: Vec<Spanned<String>>,
    file: Option<String>,
    option: Option<Spanned<String>>,
    parent: Option<Spanned<String>>,
    #[serde(rename = "abstract", default)]
    is_abstract: bool,
    optional: Option<bool>,
    group: Option<Spanned<String>>,
    #[serde(default)]
    implies: Vec<Spanned<String>>,
    #[serde(default)]
    excludes: Vec<Spanned<String>>,
    values: Option<Vec<f64>>,
    min: Option<f64>,
    max: Option<f64>,
    step: Option<Spanned<StepForm>>,
    default: Option<DefaultForm>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StepForm {
    Number(f64),
    Function(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DefaultForm {
    Selected(bool),
    Value(f64),
}

pub(crate) fn read(text: &str) -> Result<Draft, ModelError> {
    let model: ModelTable = toml::from_str(text).map_err(|error| {
        let problem = Problem::Toml(error.message().to_owned());
        match error.span() {
            Some(span) => ModelError::at(Position::of(text, span.start), problem),
            None => problem.into(),
        }
    })?;
    let mut draft = Draft {
        name: model.name.unwrap_or_default(),
        features: Vec::new(),
        constraints: Vec::new(),
        alternatives_by_exclusion: false,
    };
    for table in model.feature {
        draft.features.push(feature(table, text)?);
    }
    for constraint in model.constraints {
        let text = placed(constraint, text);
        draft.constraints.push(ConstraintDraft { text, requirement: Requirement::None, negated: false });
    }
    Ok(draft)
}

fn placed(spanned: Spanned<String>, text: &str) -> Placed {
    let at = Position::of(text, spanned.span().start);
    Placed { text: spanned.into_inner().trim().to_owned(), at }
}

fn feature(table: FeatureTable, text: &str) -> Result<FeatureDraft, ModelError> {
    let name = placed(table.name, text);
    let at_name = |problem| ModelError::at(name.at, problem);
    let places = places(table.vars, table.members, table.file.as_deref(), text)?;
    let step = match table.step {
        None => None,
        Some(step) => {
            let at = Position::of(text, step.span().start);
            Some(match step.into_inner() {
                StepForm::Number(number) => Step::Add(number),
                StepForm::Function(function) => {
                    Step::parse(&function).map_err(|problem| ModelError::at(at, problem))?
                }
            })
        }
    };
    let domain = match (table.values, table.min, table.max) {
        (None, None, None) if step.is_none() => None,
        (Some(mut values), None, None) if step.is_none() => {
            values.sort_by(f64::total_cmp);
            values.dedup();
            if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
                return Err(at_name(Problem::NoValues(name.text.clone())));
            }
            Some(Domain::Values(values))
        }
        (Some(_), ..) => return Err(at_name(Problem::TwoDomains(name.text.clone()))),
        (None, min, max) => {
            let finite = |bound: Option<f64>| bound.filter(|bound| bound.is_finite());
            Some(Domain::range(&name.text, finite(min), finite(max), step).map_err(at_name)?)
        }
    };
    let option = match table.option {
        None => OptionText::default(),
        Some(option) => {
            // A blank at its end keeps the value apart.
            let option = Placed { at: Position::of(text, option.span().start), text: option.into_inner() };
            let words = if domain.is_some() { OptionText::numeric } else { OptionText::binary };
            words(&option.text).map_err(|problem| ModelError::at(option.at, problem))?
        }
    };
    // A binary feature is something to choose unless it is said otherwise; a value is always there, and so is a feature
    // that only groups others.
    let optional = table.optional.or((!table.is_abstract && domain.is_none() && table.group.is_none()).then_some(true));
    let names = |list: Vec<Spanned<String>>| list.into_iter().map(|other| placed(other, text)).collect::<Vec<_>>();
    Ok(FeatureDraft {
        option,
        parent: table.parent.map(|parent| placed(parent, text)),
        children: Vec::new(),
        optional: optional.or(table.group.is_none().then_some(false)),
        is_abstract: table.is_abstract,
        group: table.group.map(|group| placed(group, text)),
        implies: names(table.implies).into_iter().map(|one| any_of(&one)).collect(),
        excludes: names(table.excludes),
        domain,
        default: table.default.map(|default| match default {
            DefaultForm::Selected(selected) => DefaultDraft::Selected(selected),
            DefaultForm::Value(value) => DefaultDraft::Value(value),
        }),
        places,
        name,
    })
}

/// `"A"`, or `"A | B"` for one of both.
fn any_of(names: &Placed) -> Vec<Placed> {
    names.text.split('|').map(|name| Placed { text: name.trim().into(), at: names.at }).collect()
}

fn places(
    vars: Vec<Spanned<String>>,
    members: Vec<Spanned<String>>,
    file: Option<&str>,
    text: &str,
) -> Result<Vec<Place>, ModelError> {
    let mut places = Vec::new();
    for var in vars {
        let var = placed(var, text);
        places.push(variable_form::variable(&var.text, file).map_err(|problem| ModelError::at(var.at, problem))?);
    }
    for member in members {
        let member = placed(member, text);
        places.push(variable_form::member(&member.text, file).map_err(|problem| ModelError::at(member.at, problem))?);
    }
    Ok(places)
}
