//! Components of several collectors in one table.

use transect_profile_model::{Component, ComponentId};

/// The component's row, added if it is new.
pub fn place(components: &mut Vec<Component>, wanted: &Component) -> ComponentId {
    // One file may go by several paths (/lib and /usr/lib): the build-id tells.
    let same = |c: &Component| {
        c.static_in.is_none() && c.build_id == wanted.build_id && (!c.build_id.is_empty() || c.path == wanted.path)
    };
    let index = components.iter().position(same).unwrap_or_else(|| {
        components.push(wanted.clone());
        components.len() - 1
    });
    index as ComponentId
}
