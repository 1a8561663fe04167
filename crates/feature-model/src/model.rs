use crate::{Domain, Expression, Ignored, OptionText, Place};

/// A feature's place in [`FeatureModel::features`].
pub type FeatureIndex = usize;

/// The options of a program and how they may be combined.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureModel {
    /// Name of the program.
    pub name: String,
    /// Features in the order of the file; names are unique, parents have no cycles.
    pub features: Vec<Feature>,
    /// Alternatives.
    pub groups: Vec<Group>,
    /// What else must hold.
    pub constraints: Vec<Constraint>,
    /// Ways of data that the analysis leaves out.
    pub ignored: Vec<Ignored>,
}

impl FeatureModel {
    /// A feature by name.
    pub fn find(&self, name: &str) -> Option<FeatureIndex> {
        self.features.iter().position(|feature| feature.name == name)
    }
}

/// An option of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// Unique name.
    pub name: String,
    /// What switches it on.
    pub option: OptionText,
    /// It can only be selected together with its parent; `None`: with the program.
    pub parent: Option<FeatureIndex>,
    /// It is always selected with its parent. Never true for a member of a group.
    pub mandatory: bool,
    /// It only groups others: nothing of the program depends on it alone.
    pub is_abstract: bool,
    /// For each list: at least one of it is selected if this feature is.
    pub implies: Vec<Vec<FeatureIndex>>,
    /// None of these is selected if this feature is.
    pub excludes: Vec<FeatureIndex>,
    /// On or off, or a value.
    pub kind: FeatureKind,
    /// Where the source holds it.
    pub places: Vec<Place>,
}

/// What can be chosen for a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureKind {
    /// It is on or off.
    Binary {
        /// Whether it is on if nothing is said.
        default: bool,
    },
    /// It has a value while it is selected.
    Numeric {
        /// The possible values.
        domain: Domain,
        /// The value if nothing is said, if the model tells.
        default: Option<f64>,
    },
}

impl Feature {
    /// The values of a numeric feature.
    pub fn domain(&self) -> Option<&Domain> {
        match &self.kind {
            FeatureKind::Numeric { domain, .. } => Some(domain),
            FeatureKind::Binary { .. } => None,
        }
    }
}

/// Alternatives: at most one of them is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name in the file, or its members' joined by `|`.
    pub name: String,
    /// All members' parent.
    pub parent: Option<FeatureIndex>,
    /// Ascending.
    pub members: Vec<FeatureIndex>,
    /// Exactly one of them is selected if the parent is.
    pub required: bool,
}

/// When a constraint is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Requirement {
    /// Always; features that are not selected count 0.
    #[default]
    None,
    /// Only if all features that it names are selected.
    All,
}

/// A condition on the selected features and their values.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// As in the file.
    pub text: String,
    /// The condition.
    pub expression: Expression,
    /// When it is looked at.
    pub requirement: Requirement,
    /// It must be false instead of true.
    pub negated: bool,
}

impl Constraint {
    /// Whether a configuration satisfies it; `value` gives a feature's value (1 for one that is on), `None` if it is not
    /// selected.
    pub fn holds(&self, value: &impl Fn(FeatureIndex) -> Option<f64>) -> bool {
        if self.requirement == Requirement::All && self.expression.features().iter().any(|at| value(*at).is_none()) {
            return true;
        }
        self.expression.truth(&|at| value(at).unwrap_or(0.0)) != self.negated
    }
}
