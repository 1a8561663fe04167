//! Threads over time.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Kind, Role};

use super::{Theme, cut, rows};
use crate::app::App;

/// Columns of the terminal from which on the threads' time is there as numbers.
const WITH_TIMES: usize = 100;
/// Columns of a thread's name at most.
const NAME: usize = 24;

/// Title, way, head and threads.
pub fn lines(app: &App, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let way = cut::way(&app.level().scope, theme, width);
    let title = Span::styled("Threads over time", theme.of(Role::Title));
    let view = match &app.timeline.shown {
        None => return vec![Line::from(title), way],
        Some((_, Err(error))) => return [vec![Line::from(title), way], rows::reason(theme, error, width)].concat(),
        Some((_, Ok(view))) => view,
    };
    let steps = view.threads.iter().map(|lane| lane.steps.len()).max().unwrap_or(0);
    let end = view.from_ns + view.step_ns * steps as i64;
    let names: Vec<String> = view.threads.iter().map(|lane| escape(&lane.thread).into_owned()).collect();
    let name = rows::widest(names.iter().map(String::as_str)).clamp(6, NAME);
    let times = if width >= WITH_TIMES { 3 * 10 } else { 10 };
    let room = width.saturating_sub(rows::MARK + name + times + 3).max(10);
    let per_column = steps.div_ceil(room).max(1);
    let range = format!(
        "   from {} to {}, {} a column",
        parts::duration(view.from_ns),
        parts::duration(end),
        parts::duration(view.step_ns * per_column as i64)
    );
    let mut lines = vec![Line::from(vec![title, Span::styled(range, theme.of(Role::Dim))]), way];
    lines.push(Line::styled(rows::cut_end(parts::LEGEND, width), theme.of(Role::Dim)));
    if view.threads.is_empty() {
        lines.extend(rows::reason(theme, "no thread lived in this range", width));
        return lines;
    }
    let sight = rows::in_sight(view.threads.len(), app.lane, height.saturating_sub(lines.len() + 1));
    let position = rows::position(&sight, app.lane, view.threads.len());
    let mut heading = format!("  {}", rows::left("THREAD", name)) + &rows::right("ON CPU", 10);
    if width >= WITH_TIMES {
        heading += &(rows::right("RUNNABLE", 10) + &rows::right("BLOCKED", 10));
    }
    let heading = rows::left(&heading, width.saturating_sub(rows::width(&position))) + &position;
    lines.push(Line::styled(heading, theme.of(Role::Dim)));
    let old = !app.is_current();
    for at in sight {
        let lane = &view.threads[at];
        let set = |role: Role| if old { theme.of(Role::Dim) } else { theme.of(role) };
        let number = |ns: i64, role: Role| Span::styled(rows::right(&parts::duration(ns), 10), set(role));
        let shown = rows::left(&parts::shorten(&names[at], Kind::Text, name), name);
        let mut spans = vec![Span::styled(shown, set(Role::Plain)), number(lane.states.on_cpu_ns, Role::Plain)];
        if width >= WITH_TIMES {
            spans.push(number(lane.states.runnable_ns, Role::Dim));
            spans.push(number(lane.states.blocked_ns, Role::Dim));
        }
        spans.push(Span::raw("  "));
        let glyphs = parts::glyphs(&lane.steps, view.step_ns, per_column);
        spans.extend(glyphs.into_iter().map(|(role, glyph)| Span::styled(glyph.to_string(), set(role))));
        lines.push(rows::row(theme, at == app.lane, spans));
    }
    lines
}
