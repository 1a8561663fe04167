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

/// What a finding takes, and how that is set.
pub fn weight(finding: &FindingRow) -> (Role, String) {
    let few = is_guess(finding);
    match (finding.kind, finding.saves_percent) {
        (FindingKind::Nothing, _) => (Role::Dim, "–".to_owned()),
        (_, Some(saves)) if few => (Role::Large, about(saves)),
        (_, Some(saves)) => (Role::Large, percent(saves)),
        // Of all threads' time: what it would save is not known.
        (_, None) => (Role::Large, format!("({})", percent(finding.percent))),
    }
}

/// The numbers behind a finding, harmless to a terminal.
pub fn evidence(finding: &FindingRow) -> String {
    let unsure = if is_guess(finding) { " (few samples: a rough guess)" } else { "" };
    format!("{}{unsure}", escape(&finding.evidence))
}

fn is_guess(finding: &FindingRow) -> bool {
    finding.confidence == Some(Confidence::FewSamples)
}

fn row(page: &mut Page, finding: &FindingRow) {
    let (role, weight) = weight(finding);
    page.bulleted(11, (role, &format!("{weight}  ")), Role::Title, &escape(&finding.finding));
    page.wrapped(11, Role::Plain, &evidence(finding));
    if !finding.next.is_empty() {
        page.bulleted(11, (Role::Dim, "→ "), Role::Command, &escape(&finding.next));
    }
}
