use serde::{Deserialize, Serialize};

use crate::{Form, Influence, Term};

/// A term in two versions of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Features of the term.
    pub features: Vec<String>,
    /// How each stands in it.
    pub forms: Vec<Form>,
    /// In the old version, ns; `None` if it has no such term.
    pub old_ns: Option<i64>,
    /// In the new version.
    pub new_ns: Option<i64>,
    /// New less old, a missing term counted as 0; ns.
    pub ns: i64,
    /// Bounds of the difference (95 %); `None` if one version has no such term: its time may be part of others there.
    pub low: Option<i64>,
    /// See `low`.
    pub high: Option<i64>,
}

impl Difference {
    /// Whether the interval excludes 0.
    pub fn is_significant(&self) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > 0 || high < 0)
    }
}

/// What changed between two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Terms, the surest and largest changes first.
    pub differences: Vec<Difference>,
    /// What makes the comparison doubtful.
    pub notes: Vec<String>,
}

/// Compares the terms of two versions. The two were measured apart, so squares of interval widths add up.
pub fn compare(old: &Influence, new: &Influence) -> Comparison {
    let same = |a: &Term, b: &Term| a.features == b.features && a.forms == b.forms;
    let only_new = new.terms.iter().filter(|term| !old.terms.iter().any(|own| same(own, term)));
    let pairs = old
        .terms
        .iter()
        .map(|term| (Some(term), new.terms.iter().find(|own| same(own, term))))
        .chain(only_new.map(|term| (None, Some(term))));
    let mut differences: Vec<Difference> = pairs.map(|(old, new)| difference(old, new)).collect();
    differences.sort_by_key(|own| (!own.is_significant(), std::cmp::Reverse(own.ns.unsigned_abs())));
    let mut notes = Vec::new();
    if old.method != new.method {
        notes.push(format!("the old times are {}, the new ones {}", old.method.what(), new.method.what()));
    }
    if old.command != new.command {
        notes.push("the commands differ".to_owned());
    }
    if old.model_hash != new.model_hash {
        notes.push("the models' features or places differ".to_owned());
    }
    if !(old.is_reliable() && new.is_reliable()) {
        notes.push("predictions of a version are too far off for its terms to be believed".to_owned());
    }
    let differences_of_one = differences.iter().any(|own| own.old_ns.is_none() || own.new_ns.is_none());
    if differences_of_one {
        notes.push("a term that one version lacks may be part of others there: no interval for its change".to_owned());
    }
    Comparison { differences, notes }
}

fn difference(old: Option<&Term>, new: Option<&Term>) -> Difference {
    let time = |term: Option<&Term>| term.map(|term| term.ns);
    let half = |term: Option<&Term>| term.and_then(|term| Some((term.high? as f64 - term.low? as f64) / 2.0));
    let ns = time(new).unwrap_or(0).saturating_sub(time(old).unwrap_or(0));
    let half = half(old).zip(half(new)).map(|(old, new)| old.hypot(new));
    let any = old.or(new);
    Difference {
        features: any.map(|term| term.features.clone()).unwrap_or_default(),
        forms: any.map(|term| term.forms.clone()).unwrap_or_default(),
        old_ns: time(old),
        new_ns: time(new),
        ns,
        low: half.map(|half| (ns as f64 - half).round() as i64),
        high: half.map(|half| (ns as f64 + half).round() as i64),
    }
}

/// The comparison as a table for people.
pub fn comparison_text(comparison: &Comparison) -> String {
    let mut rows = vec![["term", "old", "new", "change", "95 % interval", ""].map(str::to_owned)];
    let time = |ns: Option<i64>| ns.map_or_else(|| "-".to_owned(), crate::table::time);
    for own in &comparison.differences {
        let term =
            Term { features: own.features.clone(), forms: own.forms.clone(), ns: own.ns, low: own.low, high: own.high };
        rows.push([
            term.label(),
            time(own.old_ns),
            time(own.new_ns),
            crate::table::signed(own.ns),
            crate::table::interval(own.low, own.high),
            if own.is_significant() { "*".to_owned() } else { String::new() },
        ]);
    }
    let mut out = crate::table::aligned(&rows);
    if comparison.differences.iter().any(Difference::is_significant) {
        out.push_str("* the change is more than chance (95 %)\n");
    } else {
        out.push_str("no change is more than chance (95 %)\n");
    }
    for note in &comparison.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_both_intervals_add_up_by_their_squares() {
        let term = |ns, half| Term {
            features: vec!["A".into()],
            forms: vec![Form::On],
            ns,
            low: Some(ns - half),
            high: Some(ns + half),
        };
        let found = difference(Some(&term(100, 30)), Some(&term(200, 40)));
        assert_eq!((found.ns, found.low, found.high), (100, Some(50), Some(150)));
    }
}
