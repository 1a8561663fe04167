//! The screens as text: header, tabs, the screen, a line of keys; every name made harmless.

mod cut;
mod findings;
mod header;
mod help;
mod overlay;
mod rows;
mod source;
mod theme;
mod timeline;
mod tree;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use transect_report::terminal::parts::Role;

use crate::app::{App, Tab};
pub use theme::Theme;

/// Least size of a terminal in which anything can be read.
const LEAST: (u16, u16) = (40, 10);

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let words = format!("too small: {} × {} at least", LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let header = header::lines(app, theme, area.width.into());
    let rows =
        [Constraint::Length(header.len() as u16), Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
    let [top, tabs, body, bottom] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(header), top);
    frame.render_widget(Paragraph::new(tab_line(app, theme, tabs.width.into())), tabs);
    screen(frame, app, theme, body);
    frame.render_widget(Paragraph::new(bottom_line(app, theme, bottom.width.into())), bottom);
    overlay::draw(frame, app, theme, body);
}

fn screen(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = match app.tab {
        Tab::Findings => findings::lines(app, theme, width, height),
        Tab::Cut => cut::lines(app, theme, width, height),
        Tab::Tree => tree::lines(app, theme, width, height),
        Tab::Timeline => timeline::lines(app, theme, width, height),
        Tab::Source => source::lines(app, theme, width, height),
    };
    frame.render_widget(Paragraph::new(lines), area);
}

/// The screens' names, that of the shown one in brackets; what is being computed at the right end.
fn tab_line(app: &App, theme: Theme, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, tab) in Tab::ALL.into_iter().enumerate() {
        let name = format!("{} {}", number + 1, tab.as_str());
        spans.push(match tab == app.tab {
            true => Span::styled(format!("[{name}]"), theme.of(Role::Title)),
            false => Span::styled(format!(" {name} "), theme.of(Role::Dim)),
        });
    }
    if let Some(busy) = &app.busy {
        const TURN: [char; 4] = ['|', '/', '-', '\\'];
        let seconds = app.waited / 10;
        let elapsed = if seconds > 0 { format!("{seconds} s ") } else { String::new() };
        let used: usize = spans.iter().map(Span::width).sum();
        let words = format!("{} {elapsed}{}", TURN[app.waited % TURN.len()], busy.words());
        let words = rows::cut_end(&words, width.saturating_sub(used + 1));
        spans.push(Span::raw(" ".repeat(width.saturating_sub(used + rows::width(&words)))));
        spans.push(Span::styled(words, theme.of(Role::Warning)));
    }
    Line::from(spans)
}

/// What there is to say, else the keys of the screen.
fn bottom_line(app: &App, theme: Theme, width: usize) -> Line<'static> {
    if let Some(message) = &app.message {
        return Line::styled(rows::cut_end(message, width), theme.of(Role::Warning));
    }
    let keys = match app.tab {
        Tab::Findings => "Enter opens the cut of a finding · 2 all · 3 calls · 4 threads",
        Tab::Cut => "Enter down · ← up · d by · m measure · / filter · x exclude · r range · y command",
        Tab::Tree => "→ open · ← close · s source · f only its stacks · / filter · m measure · y command",
        Tab::Timeline => "Enter the thread's cut · / filter · r range · Backspace up · y command",
        Tab::Source => "↑ ↓ lines · Backspace up · Tab other screens",
    };
    const ALWAYS: &str = "? help · q quit";
    // What is always there goes last, and is never cut off.
    let room = width.saturating_sub(rows::width(ALWAYS) + 3);
    let mut shown = String::new();
    for key in keys.split(" · ") {
        if rows::width(&shown) + rows::width(key) + 3 > room {
            break;
        }
        shown += key;
        shown += " · ";
    }
    Line::styled(shown + ALWAYS, theme.of(Role::Dim))
}
