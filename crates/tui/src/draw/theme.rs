//! Colours: those of the reports. None carries meaning alone.

use anstyle::{AnsiColor, Effects};
use ratatui::style::{Color, Modifier, Style};
use transect_report::terminal::parts::Role;

/// How text is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Colours are wanted; else weight alone is used.
    pub color: bool,
}

impl Theme {
    /// How text of a role is set.
    pub fn of(self, role: Role) -> Style {
        let of_report = role.style();
        let mut style = Style::new();
        if let (true, Some(anstyle::Color::Ansi(color))) = (self.color, of_report.get_fg_color()) {
            style = style.fg(ansi(color));
        }
        let effects = of_report.get_effects();
        if effects.contains(Effects::BOLD) {
            style = style.add_modifier(Modifier::BOLD);
        }
        if effects.contains(Effects::DIMMED) {
            style = style.add_modifier(Modifier::DIM);
        }
        style
    }

    /// The row that is chosen, which has a mark, too.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

fn ansi(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Red => Color::Red,
        AnsiColor::Green => Color::Green,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Blue => Color::Blue,
        AnsiColor::Magenta => Color::Magenta,
        AnsiColor::Cyan => Color::Cyan,
        _ => Color::Reset,
    }
}
