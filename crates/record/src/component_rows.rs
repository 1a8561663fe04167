//! Components of several collectors in one table.

use transect_profile_model::{Component, ComponentId};

/// The component's row, added if it is new.
pub fn place(components: &mut Vec<Component>, wanted: &Component) -> ComponentId {
    // One file may go by several paths (/lib and /usr/lib): the build-id tells.
    let same = |c: &Component| {
        c.static_in.is_none() && c.build_id == wanted.build_id && (!c.build_id.is_empty() || c.path == wanted.path)
    };
    // Two files may have one build-id: then the path that is most alike.
    let candidates = components.iter().enumerate().filter(|(_, component)| same(component));
    let found = candidates
        .max_by_key(|(index, component)| (common_end(&component.path, &wanted.path), std::cmp::Reverse(*index)));
    let index = found.map(|(index, _)| index).unwrap_or_else(|| {
        components.push(wanted.clone());
        components.len() - 1
    });
    index as ComponentId
}

/// How many names two paths have in common at their ends.
fn common_end(one: &str, other: &str) -> usize {
    one.rsplit('/').zip(other.rsplit('/')).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_files_with_one_build_id_the_path_tells() {
        let component = |path: &str| Component {
            path: path.to_owned(),
            build_id: "1234".to_owned(),
            executable: false,
            synthetic: false,
            static_in: None,
        };
        let mut rows = vec![component("./a/libf.so"), component("./b/libf.so")];
        assert_eq!(place(&mut rows, &component("/w/b/libf.so")), 1);
        assert_eq!(place(&mut rows, &component("/w/a/libf.so")), 0);
        assert_eq!(place(&mut rows, &component("/usr/lib/libf.so.1.2")), 0, "a link's name says nothing");
        assert_eq!(rows.len(), 2);
    }
}
