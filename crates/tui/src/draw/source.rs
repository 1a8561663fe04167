//! Source lines of a function with their time.

use ratatui::text::{Line, Span};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Kind, Role};

use super::{Theme, cut, rows};
use crate::app::{App, SourceRow};

/// Columns of the terminal from which on states stand apart.
const WITH_STATES: usize = 100;

/// Title, way, head and lines.
pub fn lines(app: &App, theme: Theme, width: usize, height: usize) -> Vec<Line<'static>> {
    let way = cut::way(&app.level().scope, theme, width);
    let Some(function) = &app.source.function else {
        let why = "lines of which function? choose one in Cut (d, function) or in Tree, then press s";
        return [vec![Line::styled("Source", theme.of(Role::Title)), way], rows::reason(theme, why, width)].concat();
    };
    let title = |function: &str, words: &str| {
        let name =
            parts::shorten(&escape(function), Kind::Function, width.saturating_sub(9 + rows::width(words)).max(8));
        Line::from(vec![
            Span::styled(format!("Lines of {name}"), theme.of(Role::Title)),
            Span::styled(words.to_owned(), theme.of(Role::Dim)),
        ])
    };
    let (view, _) = match &app.source.pane.shown {
        None => return vec![title(function, ""), way],
        Some((_, Err(error))) => {
            return [vec![title(function, ""), way], rows::reason(theme, &escape(error), width)].concat();
        }
        Some((_, Ok(view))) => view,
    };
    let words = format!("   {} with what it called; SELF without", parts::duration(view.total_ns));
    let mut lines = vec![title(&view.function, &words), way];
    let all = app.source.rows();
    if all.is_empty() {
        lines.extend(rows::reason(theme, parts::nothing(&view.scope), width));
        return lines;
    }
    let states = width >= WITH_STATES;
    let sight = rows::in_sight(all.len(), app.source.selected, height.saturating_sub(lines.len() + 1));
    let position = rows::position(&sight, app.source.selected, all.len());
    let mut heading = rows::right("SHARE", rows::MARK + 7) + &rows::right("SELF", 9);
    if states {
        heading += &["ON CPU", "RUNNABLE", "BLOCKED"].map(|head| rows::right(head, 10)).concat();
    }
    heading += &(rows::right("LINE", 7) + "  SOURCE");
    let heading = rows::left(&heading, width.saturating_sub(rows::width(&position))) + &position;
    lines.push(Line::styled(heading, theme.of(Role::Dim)));
    let old = !app.is_current();
    for at in sight {
        let set = |role: Role| if old { theme.of(Role::Dim) } else { theme.of(role) };
        let used = rows::MARK + 7 + 9 + if states { 30 } else { 0 } + 7 + 2;
        let room = width.saturating_sub(used).max(8);
        let spans = match &all[at] {
            SourceRow::File(file, note) => {
                let name = file
                    .as_ref()
                    .map_or("code without lines (build with -g)".to_owned(), |file| escape(file).into_owned());
                let note = if note.is_empty() { String::new() } else { format!("  ({note})") };
                let room = width.saturating_sub(rows::MARK + rows::width(&note)).max(8);
                vec![
                    Span::styled(parts::shorten(&name, Kind::File, room), set(Role::Name)),
                    Span::styled(note, set(Role::Warning)),
                ]
            }
            SourceRow::Line(number, times, text) => {
                let ns = |ns: i64| if ns > 0 { parts::duration(ns) } else { String::new() };
                let share = times.as_ref().and_then(|times| parts::share(times.total_ns, view.total_ns));
                let (role, share) = share.map(rows::share).unwrap_or_default();
                let of = |part: fn(&transect_analyze::LineTimes) -> i64| times.as_ref().map(|times| ns(part(times)));
                let column = |text: Option<String>, columns: usize, role: Role| {
                    Span::styled(rows::right(&text.unwrap_or_default(), columns), set(role))
                };
                let mut spans = vec![
                    Span::styled(rows::right(&share, 7), set(role)),
                    column(of(|times| times.self_ns), 9, Role::Plain),
                ];
                if states {
                    spans.push(column(of(|times| times.states.on_cpu_ns), 10, Role::Plain));
                    spans.push(column(of(|times| times.states.runnable_ns), 10, Role::Dim));
                    spans.push(column(of(|times| times.states.blocked_ns), 10, Role::Wait));
                }
                let number = if *number > 0 { number.to_string() } else { "–".to_owned() };
                let role = if times.is_some() { Role::Plain } else { Role::Dim };
                spans.push(column(Some(number), 7, role));
                spans.push(Span::styled(format!("  {}", rows::left(&rows::cut_end(text, room), room)), set(role)));
                spans
            }
        };
        lines.push(rows::row(theme, at == app.source.selected, spans));
    }
    lines
}
