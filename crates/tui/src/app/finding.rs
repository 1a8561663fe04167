//! From a finding to the cut that it leads to.

use crossterm::event::KeyCode;
use transect_analyze::{CutDimension, CutKey, CutMeasure, FindingRow, term_of_key};

use super::{App, Level, Tab};
use crate::scope::{Scope, Term};

impl App {
    pub(super) fn finding_key(&mut self, code: KeyCode) {
        if !matches!(code, KeyCode::Enter | KeyCode::Right | KeyCode::Char('l')) {
            return;
        }
        let Some(finding) = self.findings.get().and_then(|rows| rows.get(self.finding)) else { return };
        let mut places = places(finding, &self.levels[0].scope).into_iter();
        let Some((scope, by)) = places.next() else {
            self.message = Some("this is about the run as a whole; see the command in it".to_owned());
            return;
        };
        self.levels.truncate(1);
        self.levels.push(Level { others: places.collect(), of_finding: true, ..Level::new(scope, by) });
        self.tab = Tab::Cut;
    }
}

/// Where a finding leads, most precise first: names in findings are of an object, of a function on the stack, or of a call, which
/// only the profile can tell.
fn places(finding: &FindingRow, all: &Scope) -> Vec<(Scope, CutDimension)> {
    use CutDimension as D;
    let place = &finding.place;
    let counted = matches!(all.measure, CutMeasure::Calls | CutMeasure::Bytes);
    let named = |dimension: D, name: &Option<String>, by: D| {
        let key = CutKey::Name(name.clone()?);
        Some((all.with_key(dimension, &key, &[])?, by))
    };
    // Its time with what it called, as the finding has it.
    let on_stack = || {
        let key = CutKey::Name(place.function.clone()?);
        let text = format!("stack{}", term_of_key(D::Function, &key, false)?.strip_prefix("function")?);
        Some((all.with(Term { text, key: None }).ok()?, D::Function))
    };
    // A function's name without parameters.
    let called = |subject: &str, by: D| {
        let text = format!("{subject} ~ {}", regex_of(place.function.as_ref()?));
        Some((all.with(Term { text, key: None }).ok()?, by))
    };
    let places = [
        named(D::Object, &place.object, D::Holder),
        on_stack(),
        called("stack", D::Function),
        named(D::Api, &place.api, if counted { D::Caller } else { D::Function }),
        named(D::Feature, &place.feature, D::Component),
        named(D::Component, &place.component, if counted { D::Api } else { D::Function }),
        named(D::ThreadGroup, &place.thread_group, D::Component),
    ];
    places.into_iter().flatten().collect()
}

/// An expression in quotes for a function by its name without parameters.
fn regex_of(function: &str) -> String {
    let mut pattern = String::from("'^");
    for c in function.chars() {
        match c {
            // The filter's quotes know no escapes.
            '\'' => pattern.push_str(r"\x27"),
            c if c.is_alphanumeric() || c == '_' || c == ' ' => pattern.push(c),
            c if c.is_ascii() => pattern.extend(['\\', c]),
            c => pattern.push(c),
        }
    }
    pattern + r"(\(|<|$)'"
}
