//! What ran, for how long, and what was not seen.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Role};

use super::{Theme, rows};
use crate::app::App;

/// Two lines, and one more if anything was lost.
pub fn lines(app: &App, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let facts = &app.facts;
    let status = parts::status(&facts.meta, &facts.totals);
    let command = escape(&parts::shell_words(&facts.meta.command)).into_owned();
    let room = width.saturating_sub("transect  ".len() + parts::width(&status));
    let mut lines = vec![Line::from(vec![
        Span::styled("transect  ", theme.of(Role::Dim)),
        Span::styled(parts::cut_middle(&command, room), theme.of(Role::Title)),
        Span::styled(status, theme.of(Role::Warning)),
    ])];
    let mut extent = String::new();
    for (number, fact) in parts::extent(&facts.meta, &facts.totals).into_iter().enumerate() {
        let next = if number == 0 { fact } else { format!(" · {fact}") };
        if parts::width(&extent) + parts::width(&next) > width {
            break;
        }
        extent += &next;
    }
    lines.push(Line::raw(extent));
    let (role, lost) = parts::not_seen(&facts.loss);
    if role == Role::Warning {
        lines.push(Line::styled(rows::cut_end(&lost, width), theme.of(role)));
    }
    lines
}
