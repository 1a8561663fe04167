//! Patterns that choose functions: `COMPONENT:FUNCTION[@SOURCE]`, several of them, `!` to exclude.

use wildmatch::WildMatch;

use crate::error::Error;

/// What is known of a function when it is matched.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// As in the symbol table, or empty.
    pub symbol: &'a str,
    /// Demangled.
    pub name: &'a str,
    /// Source file; asked for only if a pattern has a source part.
    pub source: Option<&'a str>,
}

#[derive(Debug, Clone)]
enum Component {
    Any,
    Executable,
    Named(WildMatch),
}

#[derive(Debug, Clone)]
struct Term {
    exclude: bool,
    component: Component,
    function: WildMatch,
    source: Option<WildMatch>,
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
    /// [`Error::Argument`] for an empty list.
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
    pub fn wants_object(&self, path: &str, executable: bool) -> bool {
        self.terms.iter().any(|term| !term.exclude && term.component.matches(path, executable))
    }

    /// True if a source file is needed for matching.
    pub fn wants_source(&self) -> bool {
        self.terms.iter().any(|term| term.source.is_some())
    }

    /// True if some pattern includes the function and none excludes it.
    pub fn matches(&self, path: &str, executable: bool, candidate: Candidate<'_>) -> bool {
        let of = |exclude| {
            self.terms
                .iter()
                .filter(move |term| term.exclude == exclude)
                .any(|term| term.component.matches(path, executable) && term.matches(candidate))
        };
        of(false) && !of(true)
    }
}

impl Component {
    fn matches(&self, path: &str, executable: bool) -> bool {
        match self {
            Component::Any => true,
            Component::Executable => executable,
            Component::Named(glob) => glob.matches(path) || glob.matches(path.rsplit('/').next().unwrap_or(path)),
        }
    }
}

impl Term {
    fn parse(text: &str) -> Result<Self, Error> {
        let (exclude, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (component, rest) = match first_single_colon(rest) {
            None => (Component::Any, rest),
            Some(0) => (Component::Executable, &rest[1..]),
            Some(at) => (Component::Named(WildMatch::new(&rest[..at])), &rest[at + 1..]),
        };
        // `@` begins the source file; a version (`memcpy@@GLIBC_2.14`) is no part of a function's name here.
        let (function, source) = match rest.split_once('@') {
            Some((function, source)) => (function, Some(source.trim_start_matches('@'))),
            None => (rest, None),
        };
        if function.is_empty() && source.is_none() {
            return Err(Error::Argument(format!("{text:?} names no function: write * for all of a component")));
        }
        Ok(Self {
            exclude,
            component,
            function: WildMatch::new(if function.is_empty() { "*" } else { function }),
            source: source.map(WildMatch::new),
        })
    }

    fn matches(&self, candidate: Candidate<'_>) -> bool {
        let function = (!candidate.symbol.is_empty() && self.function.matches(candidate.symbol))
            || self.function.matches(candidate.name)
            || self.function.matches(without_arguments(candidate.name));
        function
            && self.source.as_ref().is_none_or(|glob| {
                candidate
                    .source
                    .is_some_and(|path| glob.matches(path) || glob.matches(path.rsplit('/').next().unwrap_or(path)))
            })
    }
}

/// `ns::f` of `ns::f(int) const`. Brackets of `operator()` and `(anonymous namespace)` are part of the name.
pub fn without_arguments(name: &str) -> &str {
    let bytes = name.as_bytes();
    let mut angle = 0_i32;
    for (i, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' if !name[..i].ends_with("operator") && !name[..i].ends_with("operator<") => angle += 1,
            b'>' if angle > 0 && !name[..i].ends_with('-') => angle -= 1,
            b'(' if angle == 0 && i > 0 => {
                let rest = &name[i..];
                let part = rest.starts_with("(anonymous namespace)")
                    || rest.starts_with("()(") && name[..i].ends_with("operator");
                if !part && !(i > 0 && bytes[i - 1] == b'(') && !(bytes[i - 1] == b')' && angle != 0) {
                    return &name[..i];
                }
            }
            _ => {}
        }
    }
    name
}

fn first_single_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b':' {
            if bytes.get(i + 1) != Some(&b':') {
                return Some(i);
            }
            // `libfoo.so:::f` is `f` of the global namespace; otherwise two colons belong together.
            if bytes.get(i + 2) == Some(&b':') {
                return Some(i);
            }
            i += 1;
        }
        i += 1;
    }
    None
}

fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = (depth - 1).max(0),
            ',' | ' ' | '\t' | '\n' if depth == 0 => {
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
        pattern.wants_object(path, executable)
            && pattern.matches(path, executable, Candidate { symbol: "", name, source: None })
    }

    #[test]
    fn components_are_file_names_paths_or_the_executable() {
        assert!(matches("libz.so.1:deflate*", "/lib/libz.so.1", false, "deflateInit_"));
        assert!(!matches("libz.so.1:deflate*", "/lib/libm.so.6", false, "deflateInit_"));
        assert!(matches("/lib/*:f", "/lib/libm.so.6", false, "f"));
        assert!(matches(":f", "/bin/app", true, "f"));
        assert!(!matches(":f", "/lib/libm.so.6", false, "f"));
        assert!(matches("f", "/lib/libm.so.6", false, "f"));
    }

    #[test]
    fn names_of_cpp_are_one_pattern() {
        assert!(matches("ns::f", "/bin/app", true, "ns::f(int, char)"));
        assert!(matches("app:ns::f(int, char)", "/bin/app", true, "ns::f(int, char)"));
        assert!(matches("ns::f(int, char),other", "/bin/app", true, "other"));
        assert!(matches("app:::f", "/bin/app", true, "::f"));
        assert!(matches("a::b*", "/bin/app", true, "a::b<std::pair<int, (x)3> >::c(int)"));
    }

    #[test]
    fn exclusion_wins() {
        assert!(matches("*,!main", "/bin/app", true, "f"));
        assert!(!matches("*,!main", "/bin/app", true, "main"));
        assert!(!matches("* !libm*:*", "/lib/libm.so.6", false, "sin"));
        assert!(Pattern::parse("!main").is_err());
        assert!(Pattern::parse("").is_err());
        assert!(Pattern::parse("libm:").is_err());
    }

    #[test]
    fn sources_match_by_name_or_path() {
        let pattern = Pattern::parse("@*/sort.c").unwrap();
        let of = |source| pattern.matches("/bin/a", true, Candidate { symbol: "f", name: "f", source });
        assert!(pattern.wants_source());
        assert!(of(Some("/src/sort.c")));
        assert!(!of(Some("/src/other.c")));
        assert!(!of(None));
    }

    #[test]
    fn arguments_are_cut_off() {
        for (name, cut) in [
            ("f(int)", "f"),
            ("f", "f"),
            ("ns::operator()(int)", "ns::operator()"),
            ("(anonymous namespace)::g(char)", "(anonymous namespace)::g"),
            ("ns::(anonymous namespace)::g(char)", "ns::(anonymous namespace)::g"),
            ("t<void (*)(int)>::f(long)", "t<void (*)(int)>::f"),
            ("operator<<(std::ostream&, x)", "operator<<"),
            ("a::operator->() const", "a::operator->"),
        ] {
            assert_eq!(without_arguments(name), cut, "{name}");
        }
    }
}
