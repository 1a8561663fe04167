//! What the tables have in common: columns, the mark of the chosen row, and which rows are in sight.

use std::ops::Range;

use ratatui::text::{Line, Span};
use transect_report::terminal::parts::{self, Role};

use super::Theme;

pub use parts::width;

/// Columns of the mark before each row.
pub const MARK: usize = 2;

/// Which of `count` rows are in sight in `height` lines, the chosen one in the middle where there is a choice.
pub fn in_sight(count: usize, chosen: usize, height: usize) -> Range<usize> {
    let first = chosen.saturating_sub(height / 2).min(count.saturating_sub(height));
    first..(first + height).min(count)
}

/// A text at the right end of `columns`.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text at the left end of `columns`.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// The widest of some texts.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(width).max().unwrap_or(0)
}

/// The beginning of a text that is too long.
pub fn cut_end(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        if width(&shown) + width(c.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        shown.push(c);
    }
    if columns > 0 { shown + "…" } else { shown }
}

/// The end of a text that is too long.
pub fn cut_start(text: &str, columns: usize) -> String {
    let reversed: String = text.chars().rev().collect();
    cut_end(&reversed, columns).chars().rev().collect()
}

/// A row of a table with its mark.
pub fn row(theme: Theme, chosen: bool, spans: Vec<Span<'static>>) -> Line<'static> {
    let mark = if chosen { "› " } else { "  " };
    let line = Line::from([vec![Span::raw(mark)], spans].concat());
    if chosen { line.patch_style(theme.chosen()) } else { line }
}

/// Text that tells why there are no rows.
pub fn reason(theme: Theme, text: &str, columns: usize) -> Vec<Line<'static>> {
    let lines = text.lines().flat_map(|line| parts::wrap(line, columns.saturating_sub(MARK).max(10)));
    lines.map(|line| Line::styled(format!("  {line}"), theme.of(Role::Dim))).collect()
}

/// A share of the whole, and how it is set.
pub fn share(share: f64) -> (Role, String) {
    let role = if share >= 10.0 { Role::Large } else { Role::Plain };
    (role, parts::percent(share))
}

/// "12 of 345" where not all rows are in sight.
pub fn position(shown: &Range<usize>, chosen: usize, count: usize) -> String {
    match shown.len() < count {
        true => format!("{} of {}", parts::count(chosen as i64 + 1), parts::count(count as i64)),
        false => String::new(),
    }
}
