use std::path::Path;

use rustc_hash::FxHashMap;
use transect_profile_model::{Component, ComponentId, Process, Profile};

/// Display names of a profile's components: file names; two of the same name get the shortest distinguishing path
/// suffix, two of the same path the start of their build-id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    display: Vec<String>,
}

impl Names {
    /// Names every component of `profile`.
    pub fn new(profile: &Profile) -> Self {
        let components = &profile.components;
        let mut display: Vec<String> = components.iter().map(|c| file_name(&c.path).to_owned()).collect();
        let mut same_name: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (id, component) in components.iter().enumerate() {
            same_name.entry(file_name(&component.path)).or_default().push(id);
        }
        for ids in same_name.values().filter(|ids| ids.len() > 1) {
            for &id in ids {
                let others: Vec<&Component> = ids.iter().filter(|&&o| o != id).map(|&o| &components[o]).collect();
                display[id] = distinguish(&components[id], &others);
            }
        }
        Self { display }
    }

    /// Display name of a component.
    pub fn get(&self, id: ComponentId) -> &str {
        self.display.get(id as usize).map_or("?", String::as_str)
    }

    /// Number of components.
    pub fn len(&self) -> usize {
        self.display.len()
    }

    /// True for a profile without components.
    pub fn is_empty(&self) -> bool {
        self.display.is_empty()
    }
}

fn distinguish(component: &Component, others: &[&Component]) -> String {
    let longest = component.path.matches('/').count() + 1;
    for segments in 1..=longest {
        let suffix = path_suffix(&component.path, segments);
        if others.iter().all(|other| path_suffix(&other.path, segments) != suffix) {
            return suffix.to_owned();
        }
    }
    let same_path = others.iter().any(|other| other.path == component.path && other.build_id != component.build_id);
    let name = file_name(&component.path);
    if same_path && !component.build_id.is_empty() {
        let start: String = component.build_id.chars().take(8).collect();
        return format!("{name} ({start})");
    }
    name.to_owned()
}

/// The last `segments` segments of a path; the whole path if it has no more.
fn path_suffix(path: &str, segments: usize) -> &str {
    match path.rmatch_indices('/').nth(segments - 1) {
        Some((slash, _)) => &path[slash + 1..],
        None => path,
    }
}

/// File name of a path; the whole text if it has none.
pub(crate) fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// The component that is a process' executable; `None` if the recording holds no such component.
pub(crate) fn executable_of(profile: &Profile, process: &Process) -> Option<ComponentId> {
    let find = |matches: &dyn Fn(&Component) -> bool| profile.components.iter().position(matches);
    find(&|c| c.executable && c.path == process.executable)
        .or_else(|| find(&|c| c.path == process.executable))
        .or_else(|| find(&|c| c.executable && file_name(&c.path) == file_name(&process.executable)))
        .and_then(|id| ComponentId::try_from(id).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    fn names(paths: &[(&str, &str)]) -> Vec<String> {
        let mut profile = synthetic::empty();
        profile.components = paths
            .iter()
            .map(|&(path, build_id)| Component {
                path: path.into(),
                build_id: build_id.into(),
                executable: false,
                synthetic: false,
                static_in: None,
            })
            .collect();
        let names = Names::new(&profile);
        (0..names.len()).map(|id| names.get(id as u32).to_owned()).collect()
    }

    #[test]
    fn unique_file_names_stand_alone() {
        assert_eq!(
            names(&[("/usr/bin/app", ""), ("/usr/lib/libz.so.1", ""), ("[vdso]", "")]),
            ["app", "libz.so.1", "[vdso]"]
        );
    }

    #[test]
    fn equal_file_names_get_the_shortest_suffix_that_tells_them_apart() {
        assert_eq!(
            names(&[
                ("/opt/a/lib/libz.so", ""),
                ("/opt/b/lib/libz.so", ""),
                ("/usr/lib64/libz.so", ""),
                ("/x/y.so", "")
            ]),
            ["a/lib/libz.so", "b/lib/libz.so", "lib64/libz.so", "y.so"]
        );
        assert_eq!(
            names(&[("/lib/z.so", ""), ("/usr/lib/z.so", ""), ("z.so", "")]),
            ["/lib/z.so", "usr/lib/z.so", "z.so"]
        );
    }

    #[test]
    fn a_file_that_was_replaced_is_told_by_build_id() {
        assert_eq!(
            names(&[("/a/z.so", "0123456789ab"), ("/a/z.so", "fedcba987654")]),
            ["z.so (01234567)", "z.so (fedcba98)"]
        );
    }
}
