//! Choosing functions: `[component:]function[@source]`.
//!
//! Each part is a glob (`*`, `?`, `[abc]`), or a regular expression between slashes that may match anywhere in the
//! name. `libz.so.1:deflate*`, `*::push_back`, `/^mem(cpy|move)$/`, `@src/table.c`, `libc.so.6:0x9d2e0`.

use std::path::Path;

use regex::Regex;

use crate::{Function, Plan, cxx_name};

/// Why a selection is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A part does not parse.
    #[error("bad pattern '{part}': {message}")]
    BadPattern {
        /// The part.
        part: String,
        /// What is wrong.
        message: String,
    },
    /// Nothing has that name.
    #[error("no function matches '{pattern}'{}", near_text(.near))]
    Unknown {
        /// The pattern.
        pattern: String,
        /// Names that are written much like it.
        near: Vec<String>,
    },
    /// One function is wanted and several have the name.
    #[error("'{pattern}' is the name of {} functions; choose one: {}", .candidates.len(), list(.candidates))]
    Ambiguous {
        /// The pattern.
        pattern: String,
        /// Patterns for each of them alone.
        candidates: Vec<String>,
    },
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", list(near)) }
}

fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}

#[derive(Debug, Clone)]
enum Matcher {
    /// No metacharacters.
    Exact(String),
    Pattern(Regex),
}

impl Matcher {
    fn parse(part: &str) -> Result<Self, SelectError> {
        let bad = |error: regex::Error| SelectError::BadPattern { part: part.to_owned(), message: error.to_string() };
        if let Some(regex) = part.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|r| !r.is_empty()) {
            return Regex::new(regex).map(Self::Pattern).map_err(bad);
        }
        if !part.contains(['*', '?', '[', '\\']) {
            return Ok(Self::Exact(part.to_owned()));
        }
        Regex::new(&glob(part)).map(Self::Pattern).map_err(bad)
    }

    fn matches(&self, name: &str) -> bool {
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

/// A pattern for functions.
#[derive(Debug, Clone)]
pub struct Selector {
    text: String,
    component: Option<Matcher>,
    function: Option<Matcher>,
    source: Option<Matcher>,
    address: Option<u64>,
}

impl Selector {
    /// Reads `[component:]function[@source]`; an omitted part matches all.
    ///
    /// # Errors
    /// [`SelectError::BadPattern`].
    pub fn parse(text: &str) -> Result<Self, SelectError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            let message = "write COMPONENT:FUNCTION, such as libz.so.1:deflate*".to_owned();
            return Err(SelectError::BadPattern { part: text.to_owned(), message });
        }
        let (component, rest) = match separator(trimmed, ':') {
            Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
            None => ("", trimmed),
        };
        let (function, source) = match separator(rest, '@') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, ""),
        };
        let part = |part: &str| if part.is_empty() { Ok(None) } else { Matcher::parse(part).map(Some) };
        let hexadecimal = function.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Ok(Self {
            text: trimmed.to_owned(),
            component: part(component)?,
            function: if hexadecimal.is_some() { None } else { part(function)? },
            source: part(source)?,
            address: hexadecimal,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The virtual address that is asked for instead of a name (`0x…`).
    pub fn address(&self) -> Option<u64> {
        self.address
    }

    /// True if functions are chosen by source file too: [`Selector::matches_source`] is to be asked.
    pub fn wants_source(&self) -> bool {
        self.source.is_some()
    }

    /// True if it names one function, without wildcards.
    pub fn is_exact(&self) -> bool {
        self.address.is_some() || matches!(self.function, Some(Matcher::Exact(_)))
    }

    /// True if the component at `path` may hold such functions: by path, file name, the name up to `.so`, or soname.
    pub fn matches_component(&self, path: &Path, soname: Option<&str>) -> bool {
        let Some(matcher) = &self.component else { return true };
        let full = path.to_string_lossy();
        let file = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let stem = file.split(".so").next().unwrap_or_default();
        [&*full, &*file, stem].into_iter().chain(soname).any(|name| matcher.matches(name))
    }

    /// True if the function's name, one of its other names, or its name without parameters or template arguments is
    /// such a one. Source files are not asked.
    pub fn matches_function(&self, function: &Function) -> bool {
        if let Some(address) = self.address {
            return function.vaddr == address;
        }
        let Some(matcher) = &self.function else { return true };
        if matcher.matches(&function.name) {
            return true;
        }
        // What is left of its names is those of the functions that it chooses.
        if function.name.ends_with(" [resolver]") {
            return false;
        }
        if function.symbol != function.name && matcher.matches(&function.symbol)
            || function.aliases.iter().any(|alias| matcher.matches(alias))
        {
            return true;
        }
        if function.symbol == function.name || !function.name.contains(['(', '<']) {
            return false;
        }
        let plain = cxx_name::without_parameters(&function.name);
        matcher.matches(plain) || plain.contains('<') && matcher.matches(&cxx_name::without_arguments(&function.name))
    }

    /// True if a function of this source file is wanted: the pattern matches the path or some end of it
    /// (`table.c`, `src/table.c`).
    pub fn matches_source(&self, file: &str) -> bool {
        let Some(matcher) = &self.source else { return true };
        matcher.matches(file) || file.match_indices('/').any(|(at, _)| matcher.matches(&file[at + 1..]))
    }

    /// The error for a pattern that matched nothing: it suggests names from `functions` that are written much like it.
    pub fn unknown<'a>(&self, functions: impl IntoIterator<Item = &'a Function>) -> SelectError {
        let wanted = self.text[separator(&self.text, ':').map_or(0, |at| at + 1)..].to_owned();
        SelectError::Unknown { pattern: self.text.clone(), near: near_names(&wanted, functions) }
    }

    /// The one function that is meant, of `components` (name, plan): component's index and function's.
    ///
    /// # Errors
    /// [`SelectError::Unknown`], [`SelectError::Ambiguous`].
    pub fn only(&self, components: &[(&Path, &Plan)]) -> Result<(usize, u32), SelectError> {
        let mut found = Vec::new();
        for (index, (path, plan)) in components.iter().enumerate() {
            if self.matches_component(path, None) {
                let functions = plan.functions.iter().enumerate().filter(|(_, f)| self.matches_function(f));
                found.extend(functions.map(|(function, _)| (index, function as u32)));
            }
        }
        match found[..] {
            [one] => Ok(one),
            [] => Err(self.unknown(components.iter().flat_map(|(_, plan)| &plan.functions))),
            _ => {
                let describe = |&(component, function): &(usize, u32)| {
                    let (path, plan) = components[component];
                    let f = &plan.functions[function as usize];
                    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                    format!("{file}:{:#x} ({})", f.vaddr, f.name)
                };
                let candidates = found.iter().map(describe).collect();
                Err(SelectError::Ambiguous { pattern: self.text.clone(), candidates })
            }
        }
    }
}

/// Where the part before a single `mark` ends, outside of a regular expression: `::` separates C++ names, not parts.
fn separator(text: &str, mark: char) -> Option<usize> {
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

/// Up to five names of `functions` that are written much like `wanted`, the nearest first.
pub fn near_names<'a>(wanted: &str, functions: impl IntoIterator<Item = &'a Function>) -> Vec<String> {
    const MOST: usize = 5;
    let wanted = wanted.trim_matches(['*', '/', '^', '$']);
    let allowed = (wanted.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for function in functions {
        let plain = cxx_name::without_parameters(&function.name);
        let last = plain.rsplit("::").next().unwrap_or(plain);
        for name in [plain, last].into_iter().chain(function.aliases.iter().map(String::as_str)) {
            if name.len().abs_diff(wanted.len()) > allowed {
                continue;
            }
            let distance = match name.eq_ignore_ascii_case(wanted) {
                true => 0,
                false => strsim::osa_distance(wanted, name),
            };
            if distance <= allowed {
                near.push((distance, if name == last { plain } else { name }));
            }
        }
    }
    near.sort_unstable();
    near.dedup();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in near {
        if names.len() < MOST && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, symbol: &str) -> Function {
        Function { name: name.to_owned(), symbol: symbol.to_owned(), ..Function::default() }
    }

    fn matches(pattern: &str, name: &str) -> bool {
        Selector::parse(pattern).unwrap().matches_function(&function(name, "_Zsomething"))
    }

    #[test]
    fn parts() {
        let s = Selector::parse("libz.so.1:deflate*").unwrap();
        assert!(s.matches_component(Path::new("/usr/lib/libz.so.1"), None));
        assert!(s.matches_component(Path::new("/usr/lib/libz.so.1.3.1"), Some("libz.so.1")));
        assert!(!s.matches_component(Path::new("/usr/lib/libzstd.so.1"), None));
        assert!(s.matches_function(&function("deflateInit", "deflateInit")));
        assert!(!s.matches_function(&function("inflate", "inflate")));
        let s = Selector::parse("libz:deflate@src/*.c").unwrap();
        assert!(s.matches_component(Path::new("/usr/lib/libz.so.1"), None));
        assert!(s.matches_source("/build/zlib/src/deflate.c") && !s.matches_source("/build/deflate.c"));
        let s = Selector::parse("@table.c").unwrap();
        assert!(s.wants_source() && s.matches_source("table.c") && s.matches_source("/x/table.c"));
        assert!(!s.matches_source("/x/notable.c"));
        assert_eq!(Selector::parse("libc.so.6:0x1f").unwrap().address(), Some(0x1f));
        let s = Selector::parse("/usr/bin/app:main").unwrap();
        assert!(s.matches_component(Path::new("/usr/bin/app"), None) && s.matches_function(&function("main", "main")));
    }

    #[test]
    fn names_of_classes() {
        let name = "std::vector<int, std::allocator<int> >::push_back(int&&)";
        for pattern in
            ["*::push_back", "std::vector::push_back", "std::vector<*>::push_back*", "/push_back/", "a.out:/^std::/"]
        {
            assert!(matches(pattern, name), "{pattern}");
        }
        assert!(!matches("push_back", name));
        assert!(matches("A::operator[]", "A::operator[](int)"));
        assert!(matches("*operator[]*", "A::operator[](int)"));
        assert!(matches("f[ab]", "fb") && !matches("f[!ab]", "fb"));
        assert!(Selector::parse("/(/").is_err());
    }

    #[test]
    fn other_names() {
        let f = Function { aliases: vec!["__read".into()], ..function("read", "read") };
        assert!(Selector::parse("__read").unwrap().matches_function(&f));
        let resolver = Function { aliases: vec!["bcopy".into()], ..function("memmove [resolver]", "memmove") };
        assert!(!Selector::parse("memmove").unwrap().matches_function(&resolver));
        assert!(Selector::parse("memmove*").unwrap().matches_function(&resolver));
    }

    #[test]
    fn near_and_ambiguous() {
        let plan = Plan {
            functions: vec![
                Function { vaddr: 0x10, ..function("deflate", "deflate") },
                Function { vaddr: 0x20, ..function("helper", "helper") },
                Function { vaddr: 0x30, ..function("helper", "helper") },
            ],
            ..Plan::default()
        };
        let components = [(Path::new("/lib/libz.so.1"), &plan)];
        let ask = |text: &str| Selector::parse(text).unwrap().only(&components);
        assert_eq!(ask("deflate"), Ok((0, 0)));
        assert_eq!(ask("libz.so.1:0x30"), Ok((0, 2)));
        let error = ask("defalte").unwrap_err().to_string();
        assert_eq!(error, "no function matches 'defalte'; did you mean deflate?");
        let error = ask("helper").unwrap_err().to_string();
        assert!(error.contains("libz.so.1:0x20") && error.contains("libz.so.1:0x30"), "{error}");
    }
}
