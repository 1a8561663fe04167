//! Threads over time.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Kind, Role};

use super::{Theme, cut, rows};
use crate::app::App;

/// Columns of a number.
const NUMBER: usize = 10;
/// Columns of a thread's name at most.
const NAME: usize = 20;

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
    let (per_column, numbers) = layout(steps, width.saturating_sub(rows::MARK + name + 2));
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
    let mut heading = format!("  {}", rows::left("THREAD", name));
    for head in ["ON CPU", "RUNNABLE", "BLOCKED"].iter().take(numbers) {
        heading += &rows::right(head, NUMBER);
    }
    let heading = rows::left(&heading, width.saturating_sub(rows::width(&position))) + &position;
    lines.push(Line::styled(heading, theme.of(Role::Dim)));
    let old = !app.is_current();
    for at in sight {
        let lane = &view.threads[at];
        let set = |role: Role| if old { theme.of(Role::Dim) } else { theme.of(role) };
        let shown = rows::left(&parts::shorten(&names[at], Kind::Text, name), name);
        let mut spans = vec![Span::styled(shown, set(Role::Plain))];
        let times = [lane.states.on_cpu_ns, lane.states.runnable_ns, lane.states.blocked_ns];
        for (ns, role) in times.into_iter().zip([Role::Plain, Role::Dim, Role::Dim]).take(numbers) {
            spans.push(Span::styled(rows::right(&parts::duration(ns), NUMBER), set(role)));
        }
        spans.push(Span::raw("  "));
        let glyphs = parts::glyphs(&lane.steps, view.step_ns, per_column);
        spans.extend(glyphs.into_iter().map(|(role, glyph)| Span::styled(glyph.to_string(), set(role))));
        lines.push(rows::row(theme, at == app.lane, spans));
    }
    lines
}

/// Steps that share a column, and how many numbers stand beside them: time comes first.
fn layout(steps: usize, room: usize) -> (usize, usize) {
    const FEWEST: usize = 10;
    for per_column in 1..=steps.max(1) {
        let columns = steps.div_ceil(per_column);
        if let Some(numbers) = [3, 1, 0].into_iter().find(|numbers| columns + numbers * NUMBER <= room) {
            return (per_column, numbers);
        }
        if columns <= FEWEST {
            break;
        }
    }
    (steps.div_ceil(FEWEST).max(1), 0)
}
