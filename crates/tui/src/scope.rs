//! Which part of a profile is looked at, and by what next.

use transect_analyze::{
    CutDimension, CutFilter, CutKey, CutMeasure, CutQuery, CutViewKind, ExactDuration, FilterError, term_of_key,
};

/// One condition of the filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// In the filter's language.
    pub text: String,
    /// The key that it asks for, if it is one.
    pub key: Option<(CutDimension, CutKey)>,
}

/// Part of the profile, and what is summed up of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scope {
    /// All of these are met.
    pub terms: Vec<Term>,
    filter: Option<CutFilter>,
    /// From when on, since the recording's start, ns.
    pub from_ns: Option<i64>,
    /// Up to when.
    pub to_ns: Option<i64>,
    /// What is summed up.
    pub measure: CutMeasure,
}

impl Scope {
    /// All of a profile.
    pub fn all(measure: CutMeasure) -> Self {
        Self { measure, ..Self::default() }
    }

    /// The part of it that meets one more term.
    ///
    /// # Errors
    /// [`FilterError`] if the term is none.
    pub fn with(&self, term: Term) -> Result<Self, FilterError> {
        // Of the term alone: a mistake's place is in what was typed.
        CutFilter::parse(&term.text)?;
        let mut scope = self.clone();
        scope.terms.push(term);
        scope.filter = Some(CutFilter::parse(&scope.filter_text())?);
        Ok(scope)
    }

    /// The part of it with this key; `None` for keys that no filter can name.
    pub fn with_key(&self, dimension: CutDimension, key: &CutKey, others: &[&CutKey]) -> Option<Self> {
        if let (CutDimension::Time(step), CutKey::Time(begin)) = (dimension, key) {
            let mut scope = self.clone();
            scope.from_ns = Some(self.from_ns.map_or(*begin, |from| from.max(*begin)));
            let end = begin.saturating_add(step);
            scope.to_ns = Some(self.to_ns.map_or(end, |to| to.min(end)));
            return Some(scope);
        }
        let mut text = term_of_key(dimension, key, false)?;
        if let (CutDimension::Feature, CutKey::Name(name)) = (dimension, key) {
            text += &without_larger_sets(name, others);
        }
        self.with(Term { text, key: Some((dimension, key.clone())) }).ok()
    }

    /// The part of it without this key; `None` for keys that no filter can name.
    pub fn without_key(&self, dimension: CutDimension, key: &CutKey) -> Option<Self> {
        let text = term_of_key(dimension, key, true)?;
        self.with(Term { text, key: None }).ok()
    }

    /// The filter in its language, empty for all.
    pub fn filter_text(&self) -> String {
        let several = self.terms.len() > 1;
        let text = |term: &Term| match several && term.text.split_whitespace().any(|word| word == "or") {
            true => format!("({})", term.text),
            false => term.text.clone(),
        };
        self.terms.iter().map(text).collect::<Vec<_>>().join(" and ")
    }

    /// The key that was chosen of a dimension, last.
    pub fn key_of(&self, dimension: CutDimension) -> Option<&CutKey> {
        let mut keys = self.terms.iter().rev().filter_map(|term| term.key.as_ref());
        keys.find(|(of, _)| *of == dimension).map(|(_, key)| key)
    }

    /// Its sum by a dimension.
    pub fn query(&self, by: CutDimension) -> CutQuery {
        CutQuery {
            by: vec![by],
            measure: self.measure,
            filter: self.filter.clone(),
            from_ns: self.from_ns,
            to_ns: self.to_ns,
        }
    }

    /// What a view reads of it.
    pub fn query_of_view(&self, kind: CutViewKind) -> CutQuery {
        let has_stacks = !matches!(self.measure, CutMeasure::Calls | CutMeasure::Bytes);
        let measure = if kind.has_measure() && has_stacks { self.measure } else { kind.default_measure() };
        CutQuery { by: Vec::new(), measure, filter: self.filter.clone(), from_ns: self.from_ns, to_ns: self.to_ns }
    }

    /// The flags of `transect report` that choose it.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if !self.terms.is_empty() {
            flags.extend(["--where".to_owned(), self.filter_text()]);
        }
        for (flag, ns) in [("--from", self.from_ns), ("--to", self.to_ns)] {
            flags.extend(ns.into_iter().flat_map(|ns| [flag.to_owned(), ExactDuration(ns).to_string()]));
        }
        flags
    }

    /// Where one looks next in the part that was chosen by `by`, most promising first.
    pub fn next(&self, by: CutDimension) -> Vec<CutDimension> {
        use CutDimension as D;
        let of_waits = |dimension: D| matches!(dimension, D::Wait | D::Object | D::Holder | D::Waker);
        let blocked = CutKey::Name("blocked".to_owned());
        let waiting = self.measure == CutMeasure::Blocked
            || self.key_of(D::State) == Some(&blocked)
            || of_waits(by)
            || self.terms.iter().filter_map(|term| term.key.as_ref()).any(|(dimension, _)| of_waits(*dimension));
        let counted = matches!(self.measure, CutMeasure::Calls | CutMeasure::Bytes);
        // Behind the lines: where there are none, what the kernel did.
        let order: &[D] = match (counted, waiting) {
            (true, _) => &[D::ThreadGroup, D::Component, D::Api, D::Caller],
            (false, true) => &[D::Wait, D::Object, D::Holder, D::Function, D::Line, D::KernelFunction],
            (false, false) => &[D::ThreadGroup, D::Component, D::Function, D::Line, D::Wait, D::KernelFunction],
        };
        // What stands for it in that order.
        let like = match by {
            D::Thread => D::ThreadGroup,
            D::KernelFunction | D::SystemCall => D::Component,
            D::Api | D::Caller if !counted => D::Component,
            D::Waker => D::Holder,
            other => other,
        };
        let after = order.iter().position(|dimension| *dimension == like).map_or(0, |at| at + 1);
        let (before, after) = order.split_at(after);
        let is_free = |dimension: &D| *dimension != by && self.key_of(*dimension).is_none();
        after.iter().chain(before).copied().filter(is_free).collect()
    }
}

/// A feature's name asks for every set that it is in: what excludes the larger ones.
fn without_larger_sets(name: &str, others: &[&CutKey]) -> String {
    let is_larger = |set: &&str| *set != name && set.split(',').any(|feature| feature == name);
    let names = others.iter().filter_map(|key| match key {
        CutKey::Name(set) => Some(set.as_str()),
        _ => None,
    });
    let excluded = names
        .filter(is_larger)
        .filter_map(|set| term_of_key(CutDimension::Feature, &CutKey::Name(set.to_owned()), true));
    excluded.map(|term| format!(" and {term}")).collect()
}
