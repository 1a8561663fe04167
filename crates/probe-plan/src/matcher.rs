//! Names by pattern: as they are, globs, `/regular expressions/`.

use regex::Regex;

use crate::SelectError;

/// A part of a pattern.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// No metacharacters.
    Exact(String),
    /// A glob or a regular expression.
    Pattern(Regex),
}

impl Matcher {
    /// Reads a part.
    ///
    /// # Errors
    /// [`SelectError::BadPattern`].
    pub fn parse(part: &str) -> Result<Self, SelectError> {
        let bad = |error: regex::Error| SelectError::BadPattern { part: part.to_owned(), message: error.to_string() };
        if let Some(regex) = part.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|r| !r.is_empty()) {
            return Regex::new(regex).map(Self::Pattern).map_err(bad);
        }
        if !part.contains(['*', '?', '[', '\\']) {
            return Ok(Self::Exact(part.to_owned()));
        }
        Regex::new(&glob(part)).map(Self::Pattern).map_err(bad)
    }

    /// True if it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == name,
            Self::Pattern(regex) => regex.is_match(name),
        }
    }
}

/// The regular expression of a glob.
fn glob(pattern: &str) -> String {
    let mut regex = String::from("(?s)^");
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => regex.push_str(&regex::escape(&rest.next().unwrap_or('\\').to_string())),
            // `operator[]` is a name, `[a-z]` a class.
            '[' => match rest.as_str().split_once(']').filter(|(class, _)| !class.is_empty() && *class != "!") {
                Some((class, behind)) => {
                    let (not, class) = class.strip_prefix(['!', '^']).map_or(("", class), |class| ("^", class));
                    let class = class.replace('\\', "\\\\").replace('[', "\\[").replace("&&", "&\\&");
                    regex.push_str(&format!("[{not}{class}]"));
                    rest = behind.chars();
                }
                None => regex.push_str("\\["),
            },
            other => regex.push_str(&regex::escape(&other.to_string())),
        }
    }
    regex.push('$');
    regex
}

/// Where the part before a single `mark` ends, outside of a regular expression: `::` separates C++ names, not parts.
pub fn separator(text: &str, mark: char) -> Option<usize> {
    let mut inside_regex = false;
    let mut previous = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, c)| *c);
        // A slash that begins a part begins a regular expression, unless it is a path: those have no slash at their
        // end.
        if c == '/' && !inside_regex && previous.is_none_or(|p| p == ':' || p == '@') {
            inside_regex = regex_end(&text[at + 1..]);
        } else if c == '/' && inside_regex && next.is_none_or(|n| n == ':' || n == '@') {
            inside_regex = false;
        } else if c == mark && !inside_regex && previous != Some(mark) && next != Some(mark) {
            return Some(at);
        }
        previous = Some(c);
    }
    None
}

/// True if a slash ends the part that `rest` is in.
fn regex_end(rest: &str) -> bool {
    rest.ends_with('/') || rest.contains("/:") || rest.contains("/@")
}
