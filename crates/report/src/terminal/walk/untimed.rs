//! What the search would have timed and could not.

use std::collections::BTreeMap;

use transect_analyze::WalkView;

use super::super::escape::escape;
use super::super::page::Page;
use super::super::shorten::{Kind, shorten};
use super::super::style::Role;
use super::super::units::counted;

/// Names listed for a reason.
const NAMES: usize = 4;

/// Prints the reasons, each with the functions that it concerns.
pub(super) fn untimed(page: &mut Page, view: &WalkView) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for step in view.steps.iter().filter(|step| !step.note.is_empty()) {
        let functions = reasons.entry(&step.note).or_default();
        if !functions.contains(&step.function.as_str()) {
            functions.push(&step.function);
        }
    }
    if reasons.is_empty() {
        return;
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, functions)| std::cmp::Reverse(functions.len()));
    page.section("Remarks of the search", "functions whose shares rest on samples, and why");
    for (reason, functions) in reasons {
        let shown: Vec<String> =
            functions.iter().take(NAMES).map(|name| shorten(&escape(name), Kind::Function, 32)).collect();
        let more = if functions.len() > NAMES { ", …" } else { "" };
        let count = counted(functions.len() as i64, "function", "functions");
        page.wrapped(2, Role::Plain, &format!("{count}: {}", escape(reason)));
        page.wrapped(4, Role::Dim, &format!("{}{more}", shown.join(", ")));
    }
}
