//! A cut: its rows, and the way that led to it.

use ratatui::text::{Line, Span};
use transect_analyze::{CutKey, CutView, ExactDuration};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Role};

use super::{Theme, rows};
use crate::app::{App, Level};
use crate::scope::Scope;

/// Columns of a bar at most.
const BAR: usize = 10;
/// Columns of the terminal from which on there are bars.
const WITH_BARS: usize = 60;

/// Title, way, head and rows.
pub fn lines(app: &App, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let level = app.level();
    let mut lines = vec![title(level, theme, width), way(&level.scope, theme, width)];
    // While another cut is computed, the rows of the one above remain.
    let shown = app.levels.iter().rev().find(|level| level.pane.shown.is_some());
    let Some((level, (_, result))) = shown.and_then(|level| Some((level, level.pane.shown.as_ref()?))) else {
        return lines;
    };
    match result {
        Err(error) => lines.extend(rows::reason(theme, error, width)),
        Ok(view) if view.rows.is_empty() => lines.extend(rows::reason(theme, parts::nothing(&view.scope), width)),
        Ok(view) => {
            let old = !app.is_current();
            let (room, selected) = (height.saturating_sub(lines.len()), level.selected);
            lines.extend(table(view, selected, old, theme, width, room));
        }
    }
    lines
}

fn title(level: &Level, theme: Theme, width: usize) -> Line<'static> {
    let name = parts::title(level.scope.measure);
    let by = format!(" by {}", level.by);
    let words = match level.pane.get() {
        Some(view) => {
            let (scope, whole) = (&view.scope, view.scope.whole);
            let of = parts::share(scope.total, whole).filter(|_| scope.total != whole);
            let of = of.map(|of| format!(", {} of all {}", parts::percent(of), parts::amount(scope, whole)));
            format!("   {}{}", parts::amount(scope, scope.total), of.unwrap_or_default())
        }
        None => String::new(),
    };
    let room = width.saturating_sub(parts::width(name) + parts::width(&by));
    Line::from(vec![
        Span::styled(name, theme.of(Role::Title)),
        Span::styled(by, theme.of(Role::Title)),
        Span::styled(rows::cut_end(&words, room), theme.of(Role::Dim)),
    ])
}

/// The filter, a condition after the other, and the range of time.
pub fn way(scope: &Scope, theme: Theme, width: usize) -> Line<'static> {
    let mut words = vec!["all".to_owned()];
    words.extend(scope.terms.iter().map(|term| escape(&term.text).into_owned()));
    let at = |ns: Option<i64>, open: &str| ns.map_or_else(|| open.to_owned(), |ns| ExactDuration(ns).to_string());
    if scope.from_ns.is_some() || scope.to_ns.is_some() {
        words.push(format!("from {} to {}", at(scope.from_ns, "the start"), at(scope.to_ns, "the end")));
    }
    Line::styled(rows::cut_start(&words.join(" › "), width), theme.of(Role::Name))
}

fn table(view: &CutView, selected: usize, old: bool, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let Some(&by) = view.by.first() else { return Vec::new() };
    let sight = rows::in_sight(view.rows.len(), selected, height.saturating_sub(1));
    let shown = &view.rows[sight.clone()];
    let amounts: Vec<String> = shown.iter().map(|row| parts::amount(&view.scope, row.value)).collect();
    let spreads: Vec<String> =
        shown.iter().map(|row| parts::spread(&view.scope, row.value, (row.low, row.high))).collect();
    let head = parts::head(view.scope.measure);
    let amount = rows::widest(amounts.iter().map(String::as_str).chain([head]));
    let spread = rows::widest(spreads.iter().map(String::as_str));
    let bar = if width >= WITH_BARS { BAR + 2 } else { 0 };
    let spread = if spread > 0 { spread + 2 } else { 0 };
    let name = width.saturating_sub(rows::MARK + 7 + 2 + bar + amount + spread + 2).max(8);
    let mut heading = rows::right("SHARE", rows::MARK + 7) + "  " + &" ".repeat(bar) + &rows::right(head, amount);
    heading += &rows::right(if spread > 0 { "±" } else { "" }, spread);
    heading += &format!("  {}", by.word().to_uppercase());
    let position = rows::position(&sight, selected, view.rows.len());
    let heading = rows::left(&heading, width.saturating_sub(rows::width(&position))) + &position;
    let mut lines = vec![Line::styled(heading, theme.of(Role::Dim))];
    for (at, row) in shown.iter().enumerate() {
        let (role, share) = rows::share(row.share * 100.0);
        let dim = |role: Role| if old { theme.of(Role::Dim) } else { theme.of(role) };
        let key = row.keys.first().unwrap_or(&CutKey::None);
        let text = parts::shorten(&parts::key_text(key), parts::kind(by), name);
        let mut spans = vec![Span::styled(rows::right(&share, 7) + "  ", dim(role))];
        if bar > 0 {
            spans.push(Span::styled(rows::left(&parts::bar(row.share * 100.0, BAR), bar), dim(Role::Bar)));
        }
        spans.push(Span::styled(rows::right(&amounts[at], amount), dim(Role::Plain)));
        spans.push(Span::styled(rows::right(&spreads[at], spread) + "  ", dim(Role::Dim)));
        spans.push(Span::styled(rows::left(&text, name), dim(Role::Plain)));
        lines.push(rows::row(theme, sight.start + at == selected, spans));
    }
    lines
}
