//! Findings in plain words.

use transect_analyze::{Confidence, FindingKind, FindingRow};

use super::escape::escape;
use super::page::Page;
use super::style::Role;
use super::units::{about, percent};

/// Prints the findings, weightiest first: as many as end within `lines` of the page, and one at least.
pub(crate) fn summary(page: &mut Page, findings: &[FindingRow], lines: usize) {
    page.section("Findings", "what each takes of the wall time, the most that its repair could save");
    if findings.is_empty() {
        page.empty("nothing: no component, API, lock or thread group takes an unusual share");
    }
    for (at, finding) in findings.iter().enumerate() {
        let before = page.mark();
        row(page, finding);
        // The line that tells how many are left has its place, too.
        if at > 0 && page.lines() + usize::from(at + 1 < findings.len()) > lines {
            page.cut(before);
            page.left_out(findings.len() - at, "--view summary");
            break;
        }
    }
}

fn row(page: &mut Page, finding: &FindingRow) {
    let few = finding.confidence == Some(Confidence::FewSamples);
    let (bullet, role) = match (finding.kind, finding.saves_percent) {
        (FindingKind::Nothing, _) => ("–  ".to_owned(), Role::Dim),
        (_, Some(saves)) if few => (format!("{}  ", about(saves)), Role::Large),
        (_, Some(saves)) => (format!("{}  ", percent(saves)), Role::Large),
        // Of all threads' time: what it would save is not known.
        (_, None) => (format!("({})  ", percent(finding.percent)), Role::Large),
    };
    page.bulleted(11, (role, &bullet), Role::Title, &escape(&finding.finding));
    let unsure = if few { " (few samples: a rough guess)" } else { "" };
    page.wrapped(11, Role::Plain, &format!("{}{unsure}", escape(&finding.evidence)));
    if !finding.next.is_empty() {
        page.bulleted(11, (Role::Dim, "→ "), Role::Command, &escape(&finding.next));
    }
}
