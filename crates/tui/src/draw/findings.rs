//! The tab of findings.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Role};

use super::{Theme, rows};
use crate::app::App;

/// Columns before the text of a finding.
const INDENT: usize = 12;

/// As many findings as fit, the chosen one among them.
pub fn lines(app: &App, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(vec![
        Span::styled("Findings", theme.of(Role::Title)),
        Span::styled(
            rows::cut_end(
                "   what each takes of the wall time, the most that its repair could save",
                width.saturating_sub(8),
            ),
            theme.of(Role::Dim),
        ),
    ])];
    let findings = match &app.findings.shown {
        None => return lines,
        Some((_, Err(error))) => return [lines, rows::reason(theme, error, width)].concat(),
        Some((_, Ok(findings))) => findings,
    };
    let count = format!("{} of {}", (app.finding + 1).min(findings.len()), findings.len());
    let used = lines[0].width();
    if used + count.len() < width {
        let blank = " ".repeat(width - used - count.len());
        lines[0].push_span(Span::styled(blank + &count, theme.of(Role::Dim)));
    }
    let mut shown: Vec<Line<'static>> = Vec::new();
    let mut chosen = 0..0;
    let room = width.saturating_sub(INDENT).max(10);
    for (number, finding) in findings.iter().enumerate() {
        let begin = shown.len();
        let is_chosen = number == app.finding;
        let (role, weight) = parts::weight(finding);
        for (at, line) in parts::wrap(&escape(&finding.finding), room).into_iter().enumerate() {
            let weight = if at == 0 { weight.as_str() } else { "" };
            let spans = vec![
                Span::styled(rows::right(weight, INDENT - rows::MARK - 2) + "  ", theme.of(role)),
                Span::styled(rows::left(&line, room), theme.of(Role::Title)),
            ];
            shown.push(rows::row(theme, is_chosen, spans));
        }
        let mut add = |role: Role, first: &str, text: &str| {
            for (at, line) in parts::wrap(text, room).into_iter().enumerate() {
                let lead = if at == 0 { rows::right(first, INDENT) } else { " ".repeat(INDENT) };
                shown.push(Line::from(vec![Span::raw(lead), Span::styled(line, theme.of(role))]));
            }
        };
        add(Role::Plain, "", &parts::evidence(finding));
        if !finding.next.is_empty() {
            add(Role::Dim, "→ ", &escape(&finding.next));
        }
        if is_chosen {
            chosen = begin..shown.len();
        }
    }
    let room = height.saturating_sub(lines.len());
    // As far down as the chosen one needs.
    let first = chosen.end.saturating_sub(room).min(chosen.start);
    lines.extend(shown.into_iter().skip(first).take(room));
    lines
}
