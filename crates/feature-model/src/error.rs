use std::fmt;
use std::path::{Path, PathBuf};

/// A place in the model's text; lines and columns (characters) count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl Position {
    /// Place of a byte of a text.
    pub(crate) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.matches('\n').count() as u32 + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        Self { line, column }
    }
}

/// Why a model can't be used, and where in its file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct ModelError {
    /// The file, if it came from one.
    pub path: Option<PathBuf>,
    /// Where in it, if the problem has a place.
    pub position: Option<Position>,
    /// What is wrong.
    pub problem: Problem,
}

impl ModelError {
    pub(crate) fn at(position: Position, problem: Problem) -> Self {
        Self { path: None, position: Some(position), problem }
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self { path: Some(path.to_path_buf()), ..self }
    }
}

impl From<Problem> for ModelError {
    fn from(problem: Problem) -> Self {
        Self { path: None, position: None, problem }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.position) {
            (Some(path), Some(at)) => write!(out, "{}:{}:{}: ", path.display(), at.line, at.column)?,
            (Some(path), None) => write!(out, "{}: ", path.display())?,
            (None, Some(at)) => write!(out, "line {}, column {}: ", at.line, at.column)?,
            (None, None) => {}
        }
        write!(out, "{}", self.problem)
    }
}

/// What is wrong with a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be read.
    #[error("the feature model can't be read: {0}")]
    Unreadable(String),
    /// The file is too large to be a model.
    #[error("a feature model is at most {limit} bytes long; is this the right file?")]
    TooLarge {
        /// [`crate::SIZE_LIMIT`].
        limit: u64,
    },
    /// The text is not UTF-8.
    #[error("the feature model is not UTF-8 text; save it as UTF-8")]
    NotUtf8,
    /// Malformed XML.
    #[error("malformed XML: {0}")]
    Xml(String),
    /// A document type with declarations of its own.
    #[error(
        "the document type declares entities or elements of its own, which are refused; keep `<!DOCTYPE vm SYSTEM \"vm.dtd\">` or nothing"
    )]
    Entities,
    /// An element that models do not have.
    #[error("unexpected element <{found}> in <{inside}>; {expected}")]
    Element {
        /// Its name.
        found: String,
        /// The element around it.
        inside: String,
        /// What belongs there.
        expected: String,
    },
    /// An element without something it needs.
    #[error("<{element}> has no <{missing}>")]
    Missing {
        /// The element.
        element: String,
        /// What it lacks.
        missing: &'static str,
    },
    /// Malformed TOML, or a key that models do not have.
    #[error("{0}")]
    Toml(String),
    /// A word where something else belongs.
    #[error("`{found}` is not {expected}")]
    Word {
        /// The word.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// No features.
    #[error("the model has no features; give at least one [[feature]] or <configurationOption>")]
    Empty,
    /// A feature without a name.
    #[error("a feature's name is empty")]
    NoName,
    /// Two features of one name.
    #[error("feature `{name}` is defined twice, first in line {first}; names must be unique")]
    Duplicate {
        /// The name.
        name: String,
        /// Line of the first.
        first: u32,
    },
    /// A name that is no feature's.
    #[error("{by} names `{name}`, which is no feature of this model{hint}")]
    Unknown {
        /// Who names it: "the parent of `x`", "a constraint".
        by: String,
        /// The name.
        name: String,
        /// Empty, or the nearest name.
        hint: String,
    },
    /// A feature with two parents.
    #[error("feature `{feature}` has two parents, `{one}` and `{other}`; keep one")]
    TwoParents {
        /// The feature.
        feature: String,
        /// A parent.
        one: String,
        /// The other.
        other: String,
    },
    /// Parents that lead back to the feature.
    #[error("the parents of `{feature}` lead back to itself: {path}")]
    Cycle {
        /// The feature.
        feature: String,
        /// Names joined by arrows.
        path: String,
    },
    /// A feature that excludes or implies itself.
    #[error("feature `{0}` excludes itself")]
    ExcludesItself(String),
    /// Alternatives under different parents.
    #[error("the alternatives of group `{group}` have different parents; give all the same `parent`")]
    GroupParents {
        /// The group.
        group: String,
    },
    /// Alternatives of which some are optional, some not.
    #[error(
        "in group `{group}` some alternatives say `optional = true` and some do not; say it for all (at most one is chosen) or none (exactly one)"
    )]
    GroupOptional {
        /// The group.
        group: String,
    },
    /// A numeric feature as an alternative.
    #[error(
        "group `{group}` has the numeric feature `{feature}`; alternatives are switched on or off and have no values"
    )]
    GroupNumeric {
        /// The group.
        group: String,
        /// The feature.
        feature: String,
    },
    /// Values given in two ways.
    #[error("feature `{0}` has both `values` and `min`/`max`/`step`; keep one")]
    TwoDomains(String),
    /// One bound only.
    #[error("feature `{0}` has only one of `min` and `max`; give both, or `values`")]
    HalfDomain(String),
    /// No value is possible.
    #[error("feature `{0}` has no possible value")]
    NoValues(String),
    /// A step that does not lead on.
    #[error("the step of feature `{feature}` does not lead from {from} to a larger value")]
    Step {
        /// The feature.
        feature: String,
        /// The value where it stops.
        from: f64,
    },
    /// A default that is no value of the feature.
    #[error("the default of feature `{feature}`, {found}, is not one of its values")]
    Default {
        /// The feature.
        feature: String,
        /// The default.
        found: String,
    },
    /// A malformed expression.
    #[error("in `{text}`: {message}")]
    Expression {
        /// The expression.
        text: String,
        /// What is wrong with it and where.
        message: String,
    },
    /// A malformed place of a variable.
    #[error("`{found}` does not say where a variable is; {expected}")]
    Place {
        /// The text.
        found: String,
        /// The forms it may have.
        expected: &'static str,
    },
    /// A text of command-line options that can't be split into words.
    #[error("the option text `{0}` has an unclosed quote")]
    Quote(String),
}
