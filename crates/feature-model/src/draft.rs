//! A model as it stands in its file: names not yet resolved, with their places.

use crate::{Domain, Ignored, OptionText, Place, Position, Requirement};

/// A text and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) text: String,
    pub(crate) at: Position,
}

#[derive(Debug)]
pub(crate) struct Draft {
    /// The model's name, empty if not given.
    pub(crate) name: String,
    pub(crate) features: Vec<FeatureDraft>,
    pub(crate) constraints: Vec<ConstraintDraft>,
    pub(crate) ignored: Vec<Ignored>,
    /// Mandatory siblings that exclude each other are alternatives, as in SPL Conqueror.
    pub(crate) alternatives_by_exclusion: bool,
}

#[derive(Debug)]
pub(crate) struct FeatureDraft {
    pub(crate) name: Placed,
    pub(crate) option: OptionText,
    pub(crate) parent: Option<Placed>,
    pub(crate) children: Vec<Placed>,
    /// `None`: not said.
    pub(crate) optional: Option<bool>,
    pub(crate) is_abstract: bool,
    pub(crate) group: Option<Placed>,
    pub(crate) implies: Vec<Vec<Placed>>,
    pub(crate) excludes: Vec<Placed>,
    /// Present for numeric features.
    pub(crate) domain: Option<Domain>,
    pub(crate) default: Option<DefaultDraft>,
    pub(crate) places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum DefaultDraft {
    Selected(bool),
    Value(f64),
}

#[derive(Debug)]
pub(crate) struct ConstraintDraft {
    pub(crate) text: Placed,
    pub(crate) requirement: Requirement,
    pub(crate) negated: bool,
}
