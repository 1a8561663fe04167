//! Options whose `values` are names: the names are alternatives below the option, called `OPTION=NAME`.

use toml::Spanned;

use crate::toml_format::{DefaultForm, FeatureTable, LevelForm};
use crate::{ModelError, Position, Problem};

/// Where the name of a level goes in the option text.
const VALUE: &str = "{}";

/// The tables that a table stands for: itself, or one that groups its levels and one for each level. Numbers in quotes, and
/// numbers beside names, are names.
pub(crate) fn expand(mut table: FeatureTable, text: &str) -> Result<Vec<FeatureTable>, ModelError> {
    let names = match &table.values {
        Some(values) if values.iter().any(|value| matches!(value, LevelForm::Name(_))) => values.clone(),
        _ => return Ok(vec![table]),
    };
    let at = Position::of(text, table.name.span().start);
    let wrong = |problem| ModelError::at(at, problem);
    let name = table.name.get_ref().trim().to_owned();
    if table.min.is_some() || table.max.is_some() || table.step.is_some() {
        return Err(wrong(Problem::TwoDomains(name)));
    }
    let names: Vec<String> = names.into_iter().map(LevelForm::into_text).collect();
    let default = match table.default.take() {
        None => None,
        Some(DefaultForm::Level(level)) => Some(level),
        Some(DefaultForm::Value(value)) => Some(value.to_string()),
        Some(DefaultForm::Selected(selected)) => Some(selected.to_string()),
    };
    if let Some(default) = default.as_ref().filter(|default| !names.contains(default)) {
        return Err(wrong(Problem::Default { feature: name, found: default.clone() }));
    }
    let span = table.name.span();
    let placed = |text: &str| Spanned::new(span.clone(), text.to_owned());
    let option = table.option.take();
    let optional = table.optional.or(Some(false));
    let level = |level: &String| {
        let quoted = shlex::try_quote(level).map_or_else(|_| level.clone(), Into::into);
        let option = option.as_ref().map(|option| {
            let words = option.get_ref();
            let with_level = match words.contains(VALUE) {
                true => words.replace(VALUE, &quoted),
                false => format!("{words}{quoted}"),
            };
            Spanned::new(option.span(), with_level)
        });
        FeatureTable {
            option,
            parent: Some(placed(&name)),
            group: Some(placed(&name)),
            default: (default.as_ref() == Some(level)).then_some(DefaultForm::Selected(true)),
            ..FeatureTable::named(placed(&format!("{name}={level}")))
        }
    };
    let levels: Vec<FeatureTable> = names.iter().map(level).collect();
    let above = FeatureTable { is_abstract: true, optional, values: None, ..table };
    Ok(std::iter::once(above).chain(levels).collect())
}
