//! What stands out, in plain words.

use transect_analyze::{FindingKind, FindingRow};

use super::escape::escape;
use super::page::Page;
use super::style::Role;
use super::units::percent;

/// Prints the findings, weightiest first.
pub(crate) fn summary(page: &mut Page, findings: &[FindingRow]) {
    page.section("What stands out", "share of all threads' time that each finding concerns");
    if findings.is_empty() {
        page.empty("nothing: no component, API, lock or thread group takes an unusual share");
    }
    for finding in findings {
        let (bullet, role) = match finding.kind {
            FindingKind::Nothing => ("–  ".to_owned(), Role::Dim),
            _ => (format!("{}  ", percent(finding.percent)), Role::Large),
        };
        page.bulleted(11, (role, &bullet), Role::Title, &escape(&finding.finding));
        page.wrapped(11, Role::Plain, &escape(&finding.evidence));
        if !finding.next.is_empty() {
            page.bulleted(11, (Role::Dim, "→ "), Role::Command, &escape(&finding.next));
        }
    }
}
