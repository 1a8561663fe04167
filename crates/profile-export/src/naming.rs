//! Display names of components.

use std::collections::HashMap;

use transect_profile_model::Component;

/// Last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// File name of each component; where two share one, the shortest path suffix that tells them apart.
pub(crate) fn component_names(components: &[Component]) -> Vec<String> {
    let mut depth = vec![1usize; components.len()];
    loop {
        let names: Vec<String> = components.iter().zip(&depth).map(|(c, &d)| suffix(&c.path, d).to_owned()).collect();
        let mut seen: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            seen.entry(name).or_default().push(i);
        }
        let mut grew = false;
        for same in seen.values().filter(|same| same.len() > 1) {
            for &i in same {
                if suffix(&components[i].path, depth[i]) != components[i].path {
                    depth[i] += 1;
                    grew = true;
                }
            }
        }
        if !grew {
            return names;
        }
    }
}

/// The last `parts` parts of a path, the whole path if it has no more.
fn suffix(path: &str, parts: usize) -> &str {
    path.rmatch_indices('/').nth(parts - 1).map_or(path, |(at, _)| &path[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Vec<String> {
        let component =
            |p: &&str| Component { path: (*p).into(), build_id: String::new(), executable: false, synthetic: false };
        component_names(&paths.iter().map(component).collect::<Vec<_>>())
    }

    #[test]
    fn file_names_when_unique() {
        assert_eq!(names(&["/usr/lib/libz.so.1", "/bin/git", "[vdso]"]), ["libz.so.1", "git", "[vdso]"]);
    }

    #[test]
    fn shortest_distinguishing_suffix() {
        assert_eq!(
            names(&["/usr/lib/a/libz.so.1", "/opt/lib/a/libz.so.1", "/opt/x/libm.so"]),
            ["usr/lib/a/libz.so.1", "opt/lib/a/libz.so.1", "libm.so"]
        );
    }

    #[test]
    fn two_builds_at_one_path_end() {
        assert_eq!(names(&["/a/x.so", "/a/x.so"]), ["/a/x.so", "/a/x.so"]);
    }
}
