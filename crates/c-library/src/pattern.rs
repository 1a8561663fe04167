//! Patterns that choose functions: `COMPONENT:FUNCTION[@SOURCE]`, several of them, `!` to exclude.

use std::path::Path;

use transect_probe_plan::{Function, Lines, Selector};

use crate::error::Error;

#[derive(Debug, Clone)]
struct Term {
    exclude: bool,
    /// An empty component: the program itself.
    executable: bool,
    selector: Selector,
}

/// A list of patterns.
#[derive(Debug, Clone)]
pub struct Pattern {
    terms: Vec<Term>,
}

impl Pattern {
    /// Reads a list, separated by commas or blanks outside of brackets (so that `f(int, char)` and `map<int, int>` are
    /// one pattern each).
    ///
    /// # Errors
    /// [`Error::Argument`] for an empty list, or a pattern that can't be read.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let terms: Vec<Term> = split(text).into_iter().map(Term::parse).collect::<Result<_, _>>()?;
        if terms.iter().all(|term| term.exclude) {
            return Err(Error::Argument(format!(
                "{text:?} chooses no function: write COMPONENT:FUNCTION, such as libz.so.1:deflate*"
            )));
        }
        Ok(Self { terms })
    }

    /// True if functions of this object may match.
    pub fn wants_object(&self, path: &Path, executable: bool) -> bool {
        self.terms.iter().any(|term| !term.exclude && term.component(path, executable))
    }

    /// True if a source file is needed for matching.
    pub fn wants_source(&self) -> bool {
        self.terms.iter().any(|term| term.selector.wants_source())
    }

    /// True if it is one name, without wildcards.
    pub fn is_exact(&self) -> bool {
        matches!(&self.terms[..], [term] if term.selector.is_exact())
    }

    /// True if some pattern includes the function and none excludes it. `lines` are asked if there is need.
    pub fn matches(&self, path: &Path, executable: bool, function: &Function, lines: Option<&Lines>) -> bool {
        let of = |exclude| {
            self.terms
                .iter()
                .filter(move |term| term.exclude == exclude)
                .any(|term| term.component(path, executable) && term.matches(function, lines))
        };
        of(false) && !of(true)
    }
}

impl Term {
    fn parse(text: &str) -> Result<Self, Error> {
        let (exclude, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let executable = rest.starts_with(':') && !rest.starts_with("::") || rest.starts_with(":::");
        let rest = if executable { &rest[1..] } else { rest };
        let selector = Selector::parse(rest).map_err(|error| Error::Argument(format!("{text:?}: {error}")))?;
        Ok(Self { exclude, executable, selector })
    }

    fn component(&self, path: &Path, executable: bool) -> bool {
        (!self.executable || executable) && self.selector.matches_component(path, None)
    }

    fn matches(&self, function: &Function, lines: Option<&Lines>) -> bool {
        self.selector.matches_function(function)
            && (!self.selector.wants_source()
                || lines
                    .and_then(|lines| lines.at(function.vaddr))
                    .is_some_and(|line| self.selector.matches_source(&line.file)))
    }
}

fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut regex) = (0_i32, 0, false);
    for (i, c) in text.char_indices() {
        match c {
            // `/…/` is a regular expression in the function's place; a path begins with a slash in the component's.
            '/' if text[..i].ends_with(':') => regex = true,
            '/' if regex && !text[..i].ends_with('\\') => regex = false,
            '(' | '<' | '[' | '{' if !regex => depth += 1,
            ')' | '>' | ']' | '}' if !regex => depth = (depth - 1).max(0),
            ',' | ' ' | '\t' | '\n' if depth == 0 && !regex => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, executable: bool, name: &str) -> bool {
        let pattern = Pattern::parse(pattern).unwrap();
        let function = Function { name: name.into(), ..Function::default() };
        pattern.wants_object(Path::new(path), executable)
            && pattern.matches(Path::new(path), executable, &function, None)
    }

    #[test]
    fn components_are_file_names_paths_or_the_executable() {
        assert!(matches("libz.so.1:deflate*", "/lib/libz.so.1", false, "deflateInit_"));
        assert!(!matches("libz.so.1:deflate*", "/lib/libm.so.6", false, "deflateInit_"));
        assert!(matches("/lib/*:f", "/lib/libm.so.6", false, "f") || matches("*libm*:f", "/lib/libm.so.6", false, "f"));
        assert!(matches(":f", "/bin/app", true, "f"));
        assert!(!matches(":f", "/lib/libm.so.6", false, "f"));
        assert!(matches("f", "/lib/libm.so.6", false, "f"));
    }

    #[test]
    fn names_of_cpp_are_one_pattern() {
        assert!(matches("ns::f", "/bin/app", true, "ns::f(int, char)"));
        assert!(matches("app:ns::f(int, char)", "/bin/app", true, "ns::f(int, char)"));
        assert!(matches("ns::f(int, char),other", "/bin/app", true, "other"));
        assert!(matches("a::b*", "/bin/app", true, "a::b<std::pair<int, (x)3> >::c(int)"));
    }

    #[test]
    fn exclusion_wins() {
        assert!(matches("*,!main", "/bin/app", true, "f"));
        assert!(!matches("*,!main", "/bin/app", true, "main"));
        assert!(!matches("* !libm*:*", "/lib/libm.so.6", false, "sin"));
        assert!(Pattern::parse("!main").is_err());
        assert!(Pattern::parse("").is_err());
    }

    #[test]
    fn lists_are_split_outside_of_brackets_and_regular_expressions() {
        assert_eq!(split("a,b c"), ["a", "b", "c"]);
        assert_eq!(split("f(int, char),map<int, int>::x"), ["f(int, char)", "map<int, int>::x"]);
        assert_eq!(split("libz:/^def.{1,3}$/,b"), ["libz:/^def.{1,3}$/", "b"]);
        assert_eq!(split("/usr/bin/a:f,b"), ["/usr/bin/a:f", "b"]);
    }
}
