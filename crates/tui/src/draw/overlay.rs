//! Boxes above the screen.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use transect_report::terminal::escape;
use transect_report::terminal::parts::{self, Role};

use super::help::KEYS;
use super::{Theme, rows};
use crate::app::{App, Input, Overlay, PickKind, Prompt, PromptKind};

/// Draws the box, if there is one.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, screen: Rect) {
    match &app.overlay {
        None => {}
        Some(Overlay::Help(from)) => help(frame, theme, *from, screen),
        Some(Overlay::Command(command)) => show_command(frame, theme, command, screen),
        Some(Overlay::Prompt(one)) => prompt(frame, theme, one, screen),
        Some(Overlay::Picker(picker)) => {
            let title = match picker.kind {
                PickKind::Dimension => "By which dimension? Type to find, ↑ ↓, Enter",
                PickKind::Measure => "Sum up what? ↑ ↓, Enter",
            };
            let words = picker.words();
            let area = boxed(frame, theme, title, screen, 48, words.len().max(1) + 1);
            let sight = rows::in_sight(words.len(), picker.selected, usize::from(area.height).saturating_sub(1));
            let mut lines =
                vec![Line::from(vec![Span::styled("> ", theme.of(Role::Dim)), Span::raw(picker.text.text.clone())])];
            for at in sight {
                let text = rows::left(&escape(words[at]), usize::from(area.width).saturating_sub(rows::MARK));
                lines.push(rows::row(theme, at == picker.selected, vec![Span::raw(text)]));
            }
            if words.is_empty() {
                lines.push(Line::styled("  none is called so", theme.of(Role::Warning)));
            }
            frame.render_widget(Paragraph::new(lines), area);
            set_cursor(frame, area, &picker.text, 2);
        }
    }
}

/// An empty box with a frame, as large as its contents need and the screen allows.
fn boxed(frame: &mut Frame<'_>, theme: Theme, title: &str, screen: Rect, columns: usize, lines: usize) -> Rect {
    let wanted = columns.max(rows::width(title) + 2) + 4;
    let width = wanted.min(usize::from(screen.width)) as u16;
    let height = (lines + 2).min(usize::from(screen.height)) as u16;
    let area = Rect::new(screen.x + (screen.width - width) / 2, screen.y + (screen.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    let title = rows::cut_end(title, usize::from(width).saturating_sub(4));
    let block = Block::bordered().title(Span::styled(format!(" {title} "), theme.of(Role::Title)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

fn help(frame: &mut Frame<'_>, theme: Theme, from: usize, screen: Rect) {
    let area = boxed(frame, theme, "Keys", screen, 90, KEYS.len());
    let keys = rows::widest(KEYS.iter().map(|(key, _)| *key)) + 2;
    let mut lines = Vec::new();
    for (key, what) in KEYS {
        if key.is_empty() {
            lines.push(Line::styled(*what, theme.of(Role::Title)));
            continue;
        }
        let room = usize::from(area.width).saturating_sub(keys + 2).max(10);
        for (at, what) in parts::wrap(what, room).into_iter().enumerate() {
            let key = if at == 0 { *key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("  {}", rows::left(key, keys)), theme.of(Role::Name)),
                Span::raw(what),
            ]));
        }
    }
    let height = usize::from(area.height);
    let left = lines.len().saturating_sub(height);
    let from = from.min(left);
    let more = from < left;
    let mut shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(height).collect();
    if more {
        shown.pop();
        shown.push(Line::styled("… ↓ for more", theme.of(Role::Dim)));
    }
    frame.render_widget(Paragraph::new(shown), area);
}

fn show_command(frame: &mut Frame<'_>, theme: Theme, command: &str, screen: Rect) {
    let room = usize::from(screen.width).saturating_sub(6).max(10);
    let command = escape(command).into_owned();
    let lines = in_lines(&command, room);
    let area = boxed(frame, theme, "The same as a command, printed again when you quit", screen, room, lines.len());
    let lines: Vec<Line<'_>> = lines.into_iter().map(|line| Line::styled(line, theme.of(Role::Command))).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// A text in lines of at most `columns`, broken anywhere: as a shell shows it.
fn in_lines(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for c in text.chars() {
        let last = lines.len() - 1;
        match rows::width(&lines[last]) + rows::width(c.encode_utf8(&mut [0; 4])) > columns {
            true => lines.push(c.to_string()),
            false => lines[last].push(c),
        }
    }
    lines
}

fn prompt(frame: &mut Frame<'_>, theme: Theme, prompt: &Prompt, screen: Rect) {
    let (title, example) = match prompt.kind {
        PromptKind::Filter => {
            ("Only what meets this filter", "component = libc.so.6 and state != running; stack ~ ^inflate")
        }
        PromptKind::Range => {
            ("Only this range of time", "200ms 1.5s, 2s.. from then on, ..3s until then, empty for all")
        }
    };
    let mut below: Vec<String> = match &prompt.error {
        None => vec![example.to_owned()],
        Some(error) => error.lines().map(|line| escape(line).into_owned()).collect(),
    };
    let room = usize::from(screen.width).saturating_sub(6);
    if let [message, text, caret] = &mut below[..] {
        // Where text and caret are too long, both lose the same columns before the place.
        let at = caret.chars().count();
        let lost = at.saturating_sub(room);
        *text = rows::cut_end(&text.chars().skip(lost).collect::<String>(), room);
        *caret = caret.chars().skip(lost).collect();
        let message = std::mem::take(message);
        below.splice(0..1, parts::wrap(&message, room.max(10)));
    }
    let area = boxed(frame, theme, title, screen, room, 1 + below.len());
    let offset = (prompt.input.cursor + 3).saturating_sub(usize::from(area.width));
    let shown: String = prompt.input.text.chars().skip(offset).collect();
    let role = if prompt.error.is_some() { Role::Warning } else { Role::Dim };
    let mut lines =
        vec![Line::from(vec![Span::styled("> ", theme.of(Role::Dim)), Span::raw(escape(&shown).into_owned())])];
    lines.extend(below.into_iter().map(|line| Line::styled(line, theme.of(role))));
    frame.render_widget(Paragraph::new(lines), area);
    let input = Input { cursor: prompt.input.cursor - offset, text: shown };
    set_cursor(frame, area, &input, 2);
}

fn set_cursor(frame: &mut Frame<'_>, area: Rect, input: &Input, before: usize) {
    let columns = rows::width(&input.text.chars().take(input.cursor).collect::<String>()) + before;
    let x = area.x + columns.min(usize::from(area.width).saturating_sub(1)) as u16;
    frame.set_cursor_position(Position::new(x, area.y));
}
