//! Feature models: the options of a program, how they may be combined, and which variables of its source hold them.
//!
//! Two formats are read into one type, [`FeatureModel`]: the XML of VaRA and SPL Conqueror (`vm.dtd` of vara-feature) and
//! a short TOML of our own, by names instead of places. Every reader of models in Transect goes through this crate: the
//! compiler plugin through [`FeatureModel::flat`] and the C function of the static library, `transect influence` through
//! the types.
//!
//! Models are input from elsewhere: files are bounded in size, entities and external document types are never expanded,
//! and whatever is wrong is an error with file, line and column.

#![deny(unsafe_code)]

mod build;
mod c_entry;
mod check;
mod domain;
mod draft;
mod error;
mod expression;
mod expression_parser;
mod flat;
mod model;
mod option_text;
mod place;
mod toml_format;
mod toml_levels;
mod variable_form;
mod xml_format;
mod xml_option;

use std::path::Path;

pub use domain::{Domain, Step};
pub use error::{ModelError, Position, Problem};
pub use expression::{Comparison, Expression, Operator, Truth, Value};
pub use model::{Constraint, Feature, FeatureIndex, FeatureKind, FeatureModel, Group, Requirement};
pub use option_text::OptionText;
pub use place::{Ignored, IgnoredWay, Place, SourceRange};

/// Largest file that is read, bytes.
pub const SIZE_LIMIT: u64 = 4 << 20;

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `vm.dtd`.
    Xml,
    /// `[[feature]]` tables.
    Toml,
}

/// Reads the model in a file: XML if its first character is `<`, else TOML.
pub fn read(path: &Path) -> Result<FeatureModel, ModelError> {
    let in_file = |error: ModelError| error.in_file(path);
    let size = std::fs::metadata(path).map_err(|error| in_file(Problem::Unreadable(error.to_string()).into()))?;
    if !size.is_file() {
        return Err(in_file(Problem::Unreadable("it is not a regular file".into()).into()));
    }
    if size.len() > SIZE_LIMIT {
        return Err(in_file(Problem::TooLarge { limit: SIZE_LIMIT }.into()));
    }
    let bytes = std::fs::read(path).map_err(|error| in_file(Problem::Unreadable(error.to_string()).into()))?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(in_file(Problem::TooLarge { limit: SIZE_LIMIT }.into()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        in_file(ModelError::at(Position { line: line as u32 + 1, column: 1 }, Problem::NotUtf8))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let format = if text.trim_start().starts_with('<') { Format::Xml } else { Format::Toml };
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    parse(text, format, &name).map_err(in_file)
}

/// Reads the model in a text; `name` is the model's if the text gives none.
pub fn parse(text: &str, format: Format, name: &str) -> Result<FeatureModel, ModelError> {
    if text.len() as u64 > SIZE_LIMIT {
        return Err(Problem::TooLarge { limit: SIZE_LIMIT }.into());
    }
    let draft = match format {
        Format::Xml => xml_format::read(text)?,
        Format::Toml => toml_format::read(text)?,
    };
    build::build(draft, name)
}
