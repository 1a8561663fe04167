//! A page of sections, built in memory and written at once.

use super::markdown;
use super::shorten::{cut_middle, width};
use super::style::{Role, Style};
use super::table::Table;

/// Text of a report under construction.
pub(crate) struct Page {
    out: String,
    markdown: bool,
    /// Colours and width.
    pub style: Style,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { out: String::new(), markdown: false, style }
    }

    /// A page in Markdown: titles, paragraphs and pipe tables.
    pub(crate) fn markdown() -> Self {
        Self { out: String::new(), markdown: true, style: Style { width: super::DEFAULT_WIDTH, color: false } }
    }

    pub(crate) fn into_text(self) -> String {
        self.out
    }

    /// Lines so far.
    pub(crate) fn lines(&self) -> usize {
        self.out.matches('\n').count()
    }

    /// Where the page ends now, for [`Page::cut`].
    pub(crate) fn mark(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written since `mark`.
    pub(crate) fn cut(&mut self, mark: usize) {
        self.out.truncate(mark);
    }

    /// A section's title after an empty line, with an explanation behind it where it fits, else below it.
    pub(crate) fn section(&mut self, title: &str, explanation: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        if self.markdown {
            self.out.push_str(&format!("## {}\n\n", markdown::escape(title)));
            return self.wrapped(0, Role::Dim, explanation);
        }
        let fits = width(title) + 3 + width(explanation) <= self.style.columns();
        let title = self.style.paint(Role::Title, title);
        if explanation.is_empty() {
            self.out.push_str(&format!("{title}\n"));
        } else if fits {
            self.out.push_str(&format!("{title}   {}\n", self.style.paint(Role::Dim, explanation)));
        } else {
            self.out.push_str(&format!("{title}\n"));
            self.wrapped(0, Role::Dim, explanation);
        }
    }

    /// A table, indented by two columns.
    pub(crate) fn table(&mut self, table: &Table) {
        if self.markdown {
            markdown::table(table, &mut self.out);
            return self.out.push('\n');
        }
        table.render(2, self.style, &mut self.out);
    }

    /// A line of painted pieces.
    pub(crate) fn line(&mut self, pieces: &[(Role, &str)]) {
        if self.markdown {
            let text: String = pieces.iter().map(|(_, text)| *text).collect();
            return self.wrapped(0, Role::Plain, &text);
        }
        for (role, text) in pieces {
            self.out.push_str(&self.style.paint(*role, text));
        }
        self.out.push('\n');
    }

    /// `text` broken at spaces, indented by `indent`.
    pub(crate) fn wrapped(&mut self, indent: usize, role: Role, text: &str) {
        self.bulleted(indent, (Role::Plain, ""), role, text);
    }

    /// `text` broken at spaces, indented by `indent`; `bullet` stands before the first line, in the last columns of its
    /// indentation. A word wider than the page is cut in the middle; a command's argument, which is to be pasted, by a
    /// pattern's asterisk.
    pub(crate) fn bulleted(&mut self, indent: usize, bullet: (Role, &str), role: Role, text: &str) {
        if self.markdown {
            let text = [bullet.1, text].join(" ");
            if !text.trim().is_empty() {
                self.out.push_str(&format!("{}\n\n", markdown::escape(text.trim())));
            }
            return;
        }
        let room = self.style.columns().saturating_sub(indent).max(10);
        for (i, line) in wrap(text, room).iter().enumerate() {
            let lead = if i == 0 { bullet.1 } else { "" };
            let pad = " ".repeat(indent.saturating_sub(width(lead)));
            self.out.push_str(&format!("{pad}{}{}\n", self.style.paint(bullet.0, lead), self.style.paint(role, line)));
        }
    }

    /// Facts joined by ` · `, broken between facts where the page is narrow.
    pub(crate) fn items(&mut self, indent: usize, facts: &[String]) {
        let room = self.style.columns().saturating_sub(indent);
        let mut line = String::new();
        for fact in facts {
            if !line.is_empty() && width(&line) + 3 + width(fact) > room {
                self.wrapped(indent, Role::Plain, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push_str(" · ");
            }
            line.push_str(fact);
        }
        self.wrapped(indent, Role::Plain, &line);
    }

    /// "… 12 more: HINT" if rows were left out.
    pub(crate) fn left_out(&mut self, left: usize, hint: &str) {
        if left > 0 {
            let n = super::units::count(left as i64);
            self.wrapped(2, Role::Dim, &format!("… {n} more: {hint}"));
        }
    }

    /// "nothing to show" with its reason.
    pub(crate) fn empty(&mut self, reason: &str) {
        self.wrapped(2, Role::Dim, reason);
    }
}

/// `text` broken at spaces into lines of at most `columns`; a longer word is cut in the middle, a pattern in quotes by an asterisk.
/// A program's arguments are whole: what is pasted would do something else.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut of_program = false;
    for word in words(text) {
        of_program |= word == "--";
        let cut = if of_program { word.clone() } else { cut_middle(&word, columns) };
        let word = if word.starts_with('\'') { cut.replace('…', "*") } else { cut };
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The words of a text; a number and its percent sign are one, and what stands in single quotes as an argument of a command.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quoted = false;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let joins = |last: &String| quoted || word.starts_with('%') && last.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|last| joins(last)) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        let closes = |word: &str| word.contains('\'');
        quoted = match word.strip_prefix('\'') {
            _ if quoted => !closes(word),
            // Two of them at least: one is an apostrophe.
            Some(rest) => !closes(rest) && text.matches('\'').count() > 1,
            None => false,
        };
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{words, wrap};

    #[test]
    fn a_programs_arguments_are_not_cut() {
        let sql = "'select a, b from t where b like 1 order by a, b, a, b'";
        let lines = wrap(&format!("Run: transect walk -- sqlite3 x.db {sql}"), 30);
        assert!(lines.contains(&sql.to_owned()), "{lines:?}");
        assert_eq!(wrap("--api 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", 20)[1].chars().count(), 20);
    }

    #[test]
    fn arguments_of_commands_are_whole_words() {
        let text = "See: --api 'std::map<int, a b>::find (int)' --view x; it's 5 % of 'f' and 'em";
        let wanted = [
            "See:",
            "--api",
            "'std::map<int, a b>::find (int)'",
            "--view",
            "x;",
            "it's",
            "5 %",
            "of",
            "'f'",
            "and",
            "'em",
        ];
        assert_eq!(words(text), wanted);
    }
}
