//! Which components and APIs a selection names.

use transect_profile_model::{ComponentId, Profile};
use wildmatch::WildMatch;

use crate::criticality::qualified;
use crate::escape::is_named;
use crate::finding::words::bare;
use crate::names::{Names, file_name};

/// The last part of a function's name: `f` of `bool N::C<int>::f[abi:cxx11](int)`.
pub(crate) fn short_name(function: &str) -> &str {
    let name = qualified(bare(function));
    let name = name.split_once("[abi:").map_or(name, |(name, _)| name);
    let whole = name.split_once('<').map_or(name, |(name, _)| name);
    let last = |name: &'_ str| name.rfind("::").map_or(0, |at| at + 2);
    // Of `C<int>::f` what follows the template, of `f<int>` what comes before it.
    if name.rfind("::") > name.rfind('>') { &name[last(name)..] } else { &whole[last(whole)..] }
}

/// An exact name, or a pattern with `*` and `?`. Brackets are literal: C++ names are full of them.
pub(crate) struct Pattern {
    text: String,
    glob: Option<WildMatch>,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let glob = text.contains(['*', '?']).then(|| WildMatch::new(text));
        Self { text: text.to_owned(), glob }
    }

    /// A function by name, or name without return type and parameters.
    pub(crate) fn matches_function(&self, name: &str) -> bool {
        let bare = bare(name);
        let qualified = qualified(bare);
        let untagged = qualified.split_once("[abi:").map_or(qualified, |(name, _)| name);
        [name, bare, qualified, untagged].iter().any(|name| self.matches(name))
    }

    fn matches(&self, name: &str) -> bool {
        // Exact first: `operator*` is a name as well as a pattern.
        is_named(&self.text, name) || self.glob.as_ref().is_some_and(|glob| glob.matches(name))
    }

    /// A component by display name, file name, path or name up to `.so`.
    pub(crate) fn matches_component(&self, display: &str, path: &str) -> bool {
        let file = file_name(path);
        let stem = file.split_once(".so").map_or(file, |(stem, _)| stem);
        [display, file, path, stem].iter().any(|name| self.matches(name))
    }

    /// An API by name, raw symbol or name up to the parameter list.
    pub(crate) fn matches_api(&self, api: &str, symbol: &str) -> bool {
        let bare = api.split_once('(').map_or(api, |(bare, _)| bare);
        [api, symbol, bare].iter().any(|name| self.matches(name))
    }
}

/// For each component whether the selection names it; `None` if it names none in particular.
pub(crate) fn chosen_components(profile: &Profile, names: &Names, pattern: Option<&str>) -> Option<Vec<bool>> {
    let pattern = Pattern::new(pattern?);
    let matches = |(id, component): (usize, &transect_profile_model::Component)| {
        pattern.matches_component(names.get(id as ComponentId), &component.path)
    };
    Some(profile.components.iter().enumerate().map(matches).collect())
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn components_by_any_of_their_names() {
        let hit = |pattern: &str| Pattern::new(pattern).matches_component("lib64/libz.so.1", "/usr/lib64/libz.so.1");
        assert!(
            ["lib64/libz.so.1", "libz.so.1", "/usr/lib64/libz.so.1", "libz", "libz*", "*z.so.?"].into_iter().all(hit)
        );
        assert!(!["z", "lib", "libz.so", "libzstd*"].into_iter().any(hit));
    }

    #[test]
    fn apis_by_name_symbol_or_bare_name() {
        let hit = |pattern: &str| Pattern::new(pattern).matches_api("ns::V::operator[](unsigned long)", "_ZN2ns1VixEm");
        assert!(
            ["ns::V::operator[]", "_ZN2ns1VixEm", "ns::V::operator[](unsigned long)", "ns::*"].into_iter().all(hit)
        );
        assert!(!["operator[]", "ns", "V"].into_iter().any(hit));
        assert!(Pattern::new("operator*").matches_api("operator*", "_Zml"));
    }
}
