//! TOML models: `[[feature]]` tables, top-level `constraints` and `ignore`.

use serde::Deserialize;
use toml::Spanned;

use crate::draft::{ConstraintDraft, DefaultDraft, Draft, FeatureDraft, Placed};
use crate::{
    Domain, Ignored, ModelError, OptionText, Place, Position, Problem, Requirement, Step, toml_levels, variable_form,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    name: Option<String>,
    #[serde(default)]
    feature: Vec<FeatureTable>,
    #[serde(default)]
    constraints: Vec<Spanned<String>>,
    #[serde(default)]
    ignore: Vec<Spanned<IgnoreForm>>,
}

/// `"file.c:function"`, `"Tag::field"`, or one of these with a reason.
#[derive(Deserialize)]
#[serde(untagged)]
enum IgnoreForm {
    Way(String),
    WithReason { way: String, reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeatureTable {
    pub(crate) name: Spanned<String>,
    #[serde(default)]
    pub(crate) vars: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) members: Vec<Spanned<String>>,
    pub(crate) file: Option<String>,
    pub(crate) option: Option<Spanned<String>>,
    pub(crate) parent: Option<Spanned<String>>,
    #[serde(rename = "abstract", default)]
    pub(crate) is_abstract: bool,
    pub(crate) optional: Option<bool>,
    pub(crate) group: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) implies: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) excludes: Vec<Spanned<String>>,
    pub(crate) values: Option<Vec<LevelForm>>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) step: Option<Spanned<StepForm>>,
    pub(crate) default: Option<DefaultForm>,
}

impl FeatureTable {
    /// With nothing but a name.
    pub(crate) fn named(name: Spanned<String>) -> Self {
        Self {
            name,
            vars: Vec::new(),
            members: Vec::new(),
            file: None,
            option: None,
            parent: None,
            is_abstract: false,
            optional: None,
            group: None,
            implies: Vec::new(),
            excludes: Vec::new(),
            values: None,
            min: None,
            max: None,
            step: None,
            default: None,
        }
    }
}

/// A value: a number, or the name of a level.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
pub(crate) enum LevelForm {
    Number(f64),
    Name(String),
}

impl LevelForm {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Name(name) => name,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum StepForm {
    Number(f64),
    Function(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum DefaultForm {
    Selected(bool),
    Value(f64),
    Level(String),
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
        ignored: Vec::new(),
        alternatives_by_exclusion: false,
    };
    for table in model.feature {
        for table in toml_levels::expand(table, text)? {
            draft.features.push(feature(table, text)?);
        }
    }
    for constraint in model.constraints {
        let text = placed(constraint, text);
        draft.constraints.push(ConstraintDraft { text, requirement: Requirement::None, negated: false });
    }
    for ignore in model.ignore {
        let at = Position::of(text, ignore.span().start);
        let (way, reason) = match ignore.into_inner() {
            IgnoreForm::Way(way) => (way, String::new()),
            IgnoreForm::WithReason { way, reason } => (way, reason),
        };
        let way = variable_form::ignored(&way).map_err(|problem| ModelError::at(at, problem))?;
        draft.ignored.push(Ignored { way, reason });
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
        (Some(values), None, None) if step.is_none() => {
            let number = |value: LevelForm| if let LevelForm::Number(number) = value { number } else { f64::NAN };
            let mut values: Vec<f64> = values.into_iter().map(number).collect();
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
    let default = match table.default {
        None => None,
        Some(DefaultForm::Selected(selected)) => Some(DefaultDraft::Selected(selected)),
        Some(DefaultForm::Value(value)) => Some(DefaultDraft::Value(value)),
        Some(DefaultForm::Level(found)) => {
            return Err(at_name(Problem::Default { feature: name.text.clone(), found }));
        }
    };
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
        default,
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
