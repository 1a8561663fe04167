//! Choosing functions: `[component:]function[@source]`; and USDT points: `[component:]provider:point`.
//!
//! Each part is a glob (`*`, `?`, `[abc]`), or a regular expression between slashes that may match anywhere in the
//! name. `libz.so.1:deflate*`, `*::push_back`, `/^mem(cpy|move)$/`, `@src/table.c`, `libc.so.6:0x9d2e0`.

use std::path::Path;

use crate::matcher::{Matcher, separator};
use crate::{Function, Plan, UsdtNote, cxx_name};

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
    /// No USDT point has that name.
    #[error("no USDT point matches '{pattern}'{}", near_text(.near))]
    UnknownPoint {
        /// The pattern.
        pattern: String,
        /// `provider:point` of points that are written much like it.
        near: Vec<String>,
    },
    /// There is no such component, nor a provider of USDT points of that name.
    #[error(
        "no component{} matches '{pattern}'; it has {}{}", if .points.is_empty() { "" } else { " or USDT point" },
        list(.components), near_text(.points)
    )]
    UnknownComponent {
        /// The pattern.
        pattern: String,
        /// File names of the components that there are.
        components: Vec<String>,
        /// `provider:point` of the points that are written most like it.
        points: Vec<String>,
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

impl SelectError {
    /// The pattern, or the part of it, that is none.
    pub fn pattern(&self) -> &str {
        match self {
            Self::BadPattern { part, .. } => part,
            Self::Unknown { pattern, .. }
            | Self::UnknownPoint { pattern, .. }
            | Self::UnknownComponent { pattern, .. }
            | Self::Ambiguous { pattern, .. } => pattern,
        }
    }
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", list(near)) }
}

fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}

/// A pattern for functions.
#[derive(Debug, Clone)]
pub struct Selector {
    text: String,
    component: Option<Matcher>,
    function: Option<Matcher>,
    source: Option<Matcher>,
    address: Option<u64>,
    /// Provider and name of a USDT point, as they are written.
    point: Option<(String, [Matcher; 2])>,
    /// Only a point can be meant: it was written with its component.
    only_point: bool,
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
        let (provider, name, only_point) = match separator(function, ':') {
            Some(at) => (&function[..at], &function[at + 1..], true),
            None => (component, function, false),
        };
        let point = if provider.is_empty() || name.is_empty() || !source.is_empty() {
            None
        } else {
            Some((format!("{provider}:{name}"), [Matcher::parse(provider)?, Matcher::parse(name)?]))
        };
        let part = |part: &str| if part.is_empty() { Ok(None) } else { Matcher::parse(part).map(Some) };
        let hexadecimal = function.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Ok(Self {
            text: trimmed.to_owned(),
            component: part(component)?,
            function: if hexadecimal.is_some() { None } else { part(function)? },
            source: part(source)?,
            address: hexadecimal,
            point,
            only_point,
        })
    }

    /// True if it was written as `component:provider:point`: no function is meant.
    pub fn wants_point(&self) -> bool {
        self.only_point
    }

    /// True if a USDT point is such a one. Of `component:provider:point`, the component is to be asked for besides; in
    /// `provider:point`, what may be a component's name is the provider's.
    pub fn matches_point(&self, note: &UsdtNote) -> bool {
        self.point
            .as_ref()
            .is_some_and(|(_, [provider, name])| provider.matches(&note.provider) && name.matches(&note.name))
    }

    /// The error for a pattern that matches none of these points: it suggests some that are written much like it, or
    /// belong to the provider that is named. `None` if a point was hardly meant.
    pub fn unknown_point<'a>(&self, points: impl IntoIterator<Item = &'a UsdtNote>) -> Option<SelectError> {
        const MOST: usize = 5;
        let (wanted, [provider, _]) = self.point.as_ref()?;
        let allowed = (wanted.chars().count() / 3).max(1);
        let mut near: Vec<(bool, usize, String)> = points
            .into_iter()
            .map(|note| {
                let name = format!("{}:{}", note.provider, note.name);
                (!provider.matches(&note.provider), strsim::osa_distance(wanted, &name), name)
            })
            .filter(|(other, distance, _)| !other || *distance <= allowed)
            .collect();
        near.sort_unstable_by_key(|(_, distance, name)| (*distance, name.clone()));
        near.dedup();
        if near.is_empty() && !self.only_point {
            return None;
        }
        let near = near.into_iter().take(MOST).map(|(_, _, name)| name).collect();
        Some(SelectError::UnknownPoint { pattern: self.text.clone(), near })
    }

    /// The error for a pattern whose component none of `components` (file names) is; of `points` it suggests the nearest.
    pub fn unknown_component<'a>(
        &self,
        components: Vec<String>,
        points: impl IntoIterator<Item = &'a UsdtNote>,
    ) -> SelectError {
        const MOST: usize = 3;
        let wanted = self.point.as_ref().map_or(self.text.as_str(), |(text, _)| text);
        let names = points.into_iter().map(|note| format!("{}:{}", note.provider, note.name));
        let mut near: Vec<(usize, String)> = names.map(|name| (strsim::osa_distance(wanted, &name), name)).collect();
        near.sort_unstable();
        near.dedup();
        let points = near.into_iter().take(MOST).map(|(_, name)| name).collect();
        SelectError::UnknownComponent { pattern: self.text.clone(), components, points }
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

    /// True if it names a component.
    pub fn wants_component(&self) -> bool {
        self.component.is_some()
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
    fn points() {
        let note = |provider: &str, name: &str| UsdtNote {
            provider: provider.into(),
            name: name.into(),
            arguments: String::new(),
            semaphore: None,
        };
        let (open, close) = (note("shop", "open"), note("shop", "close"));
        let s = Selector::parse("shop:open").unwrap();
        assert!(s.matches_point(&open) && !s.matches_point(&close) && !s.wants_point());
        let s = Selector::parse("app:sh*:/^(open|close)$/").unwrap();
        assert!(s.matches_point(&open) && s.matches_point(&close) && s.wants_point());
        assert!(s.matches_component(Path::new("/usr/bin/app"), None));
        assert!(!Selector::parse("std::sort").unwrap().matches_point(&note("std", "sort")));
        assert!(!Selector::parse("open").unwrap().matches_point(&open));
        let error = |text: &str| Selector::parse(text).unwrap().unknown_point([&open, &close]).map(|e| e.to_string());
        assert_eq!(
            error("shop:opne").unwrap(),
            "no USDT point matches 'shop:opne'; did you mean shop:open, shop:close?"
        );
        assert_eq!(error("shp:close").unwrap(), "no USDT point matches 'shp:close'; did you mean shop:close?");
        assert_eq!(error("libz:deflate"), None);
        assert_eq!(error("a.out:b:c").unwrap(), "no USDT point matches 'a.out:b:c'");
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
