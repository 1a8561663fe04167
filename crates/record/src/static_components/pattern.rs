//! Patterns of names and paths, and what comes near to one that matches nothing.

use wildmatch::WildMatch;

/// A glob (`*`, `?`), or a plain name.
pub struct Pattern {
    glob: WildMatch,
}

impl Pattern {
    /// Compiles a pattern.
    pub fn new(text: &str) -> Pattern {
        Pattern { glob: WildMatch::new(text) }
    }

    /// True for a function's raw name, its demangled name, or that without its parameters.
    pub fn matches_function(&self, raw: &str, demangled: &str) -> bool {
        self.glob.matches(raw) || self.glob.matches(demangled) || self.glob.matches(without_parameters(demangled))
    }

    /// True for a path, or for its end after a `/`.
    pub fn matches_path(&self, path: &str) -> bool {
        if self.glob.matches(path) {
            return true;
        }
        let mut rest = path;
        while let Some((_, after)) = rest.split_once('/') {
            rest = after;
            if self.glob.matches(rest) {
                return true;
            }
        }
        false
    }
}

/// `ns::f(int) const` → `ns::f`; `operator()` and `(anonymous namespace)` keep their parentheses.
pub fn without_parameters(name: &str) -> &str {
    let keeps = |at: usize| {
        name[at..].starts_with("(anonymous namespace)")
            || name[at..].starts_with("()") && name[..at].ends_with("operator")
    };
    match name.match_indices('(').map(|(at, _)| at).find(|&at| at > 0 && !keeps(at)) {
        Some(at) => &name[..at],
        None => name,
    }
}

/// `; did you mean a, b?` with the names most like the pattern, or nothing.
pub fn near_matches<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> String {
    let plain: String = pattern.chars().filter(|c| !matches!(c, '*' | '?')).collect();
    let wanted = plain.to_lowercase();
    let mut found: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let related = !wanted.is_empty() && (lower.contains(&wanted) || wanted.contains(lower.as_str()));
            let distance = distance(&wanted, &lower);
            (related && lower.len() > 2 || distance * 3 <= wanted.len().max(3)).then_some((distance, name))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    let names: Vec<&str> = found.iter().take(5).map(|(_, name)| *name).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(", ")) }
}

/// Levenshtein's distance of the first 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    if a.len().abs_diff(b.len()) > 24 {
        return usize::MAX / 4;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_by_their_end() {
        let p = Pattern::new("third_party/zlib/*");
        assert!(p.matches_path("/home/me/src/third_party/zlib/deflate.c"));
        assert!(!p.matches_path("/home/me/src/my_third_party/zlib/deflate.c"));
        assert!(Pattern::new("deflate.c").matches_path("/src/deflate.c"));
    }

    #[test]
    fn functions_match_with_and_without_parameters() {
        let p = Pattern::new("absl::*Cat");
        assert!(p.matches_function("_ZN4absl6StrCatEv", "absl::StrCat()"));
        assert_eq!(without_parameters("a::operator()(int)"), "a::operator()");
        assert_eq!(without_parameters("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
    }

    #[test]
    fn names_alike_are_proposed() {
        let names = ["deflate", "deflateInit_", "inflate", "main"];
        assert_eq!(near_matches("deflte", names.into_iter()), "; did you mean deflate?");
        assert_eq!(near_matches("zzz", names.into_iter()), "");
    }
}
