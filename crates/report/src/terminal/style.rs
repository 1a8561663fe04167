//! Colour and width of a terminal, decided once and passed in.

use std::ffi::OsString;

use anstyle::{AnsiColor, Effects};

/// What `--color` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorChoice {
    /// Colour if the output is a terminal and the environment does not object.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How text is laid out and coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Lines are made to fit; below 40 they are laid out for 40.
    pub width: usize,
    /// Emit ANSI colours.
    pub color: bool,
}

/// Columns assumed where the output is no terminal (a file, a pipe) and `COLUMNS` says nothing.
pub const DEFAULT_WIDTH: usize = 120;

impl Style {
    /// Decides colour and width as command-line tools commonly do.
    ///
    /// Colour under [`ColorChoice::Auto`]: `NO_COLOR` (set and not empty, <https://no-color.org>) forbids it,
    /// `CLICOLOR_FORCE` (set, not `0`) demands it, else it needs a terminal whose `TERM` is set and not `dumb`.
    /// Width: `columns` (what the terminal says), else `COLUMNS`, else [`DEFAULT_WIDTH`].
    ///
    /// Pure: `environment` looks up a variable, `is_terminal` tells what the output is.
    pub fn resolve(
        choice: ColorChoice,
        is_terminal: bool,
        columns: Option<usize>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                set("NO_COLOR").is_none()
                    && (set("CLICOLOR_FORCE").is_some_and(|v| v != "0")
                        || (is_terminal && set("TERM").is_some_and(|term| term != "dumb")))
            }
        };
        let from_environment = || set("COLUMNS")?.to_str()?.parse().ok();
        let width = columns.or_else(from_environment).filter(|&w| w > 0).unwrap_or(DEFAULT_WIDTH);
        Self { width, color }
    }

    /// The width that layouts work with.
    pub(crate) fn columns(self) -> usize {
        self.width.max(40)
    }

    /// `text` in the colours of `role`.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        let style = role.style();
        if !self.color || text.is_empty() || style == anstyle::Style::new() {
            return text.to_owned();
        }
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

/// What a piece of text is; decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Ordinary text.
    #[default]
    Plain,
    /// Title of a section.
    Title,
    /// Column heads, explanations and other text that stands back.
    Dim,
    /// Component, API and group names.
    Name,
    /// Bars of busy time.
    Bar,
    /// Bars and words of waiting.
    Wait,
    /// Losses and findings.
    Warning,
    /// Shares that are worth a look.
    Large,
    /// A command to type.
    Command,
}

impl Role {
    /// Its colour and weight.
    pub fn style(self) -> anstyle::Style {
        let plain = anstyle::Style::new();
        match self {
            Self::Plain => plain,
            Self::Title => plain.bold(),
            Self::Dim => plain.effects(Effects::DIMMED),
            Self::Name => AnsiColor::Cyan.on_default(),
            Self::Bar => AnsiColor::Green.on_default(),
            Self::Wait => AnsiColor::Yellow.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Large => AnsiColor::Red.on_default().bold(),
            Self::Command => AnsiColor::Blue.on_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(choice: ColorChoice, is_terminal: bool, variables: &[(&str, &str)]) -> Style {
        Style::resolve(choice, is_terminal, None, |name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn color_follows_flag_then_environment_then_terminal() {
        use ColorChoice::*;
        let xterm = ("TERM", "xterm-256color");
        assert!(resolve(Auto, true, &[xterm]).color);
        assert!(!resolve(Auto, false, &[xterm]).color);
        assert!(!resolve(Auto, true, &[("TERM", "dumb")]).color);
        assert!(!resolve(Auto, true, &[xterm, ("NO_COLOR", "1")]).color);
        assert!(resolve(Auto, true, &[xterm, ("NO_COLOR", "")]).color, "empty NO_COLOR does not count");
        assert!(resolve(Auto, false, &[("CLICOLOR_FORCE", "1")]).color);
        assert!(!resolve(Auto, false, &[("CLICOLOR_FORCE", "0")]).color);
        assert!(resolve(Always, false, &[("NO_COLOR", "1")]).color);
        assert!(!resolve(Never, true, &[xterm, ("CLICOLOR_FORCE", "1")]).color);
    }

    #[test]
    fn width_from_terminal_then_environment() {
        let columns = |name: &str| (name == "COLUMNS").then(|| OsString::from("99"));
        assert_eq!(Style::resolve(ColorChoice::Auto, true, Some(77), columns).width, 77);
        assert_eq!(Style::resolve(ColorChoice::Auto, true, None, columns).width, 99);
        assert_eq!(Style::resolve(ColorChoice::Auto, true, Some(0), |_| None).width, DEFAULT_WIDTH);
    }
}
