use transect_profile_model::{Profile, Space, StackFrame};

use super::super::{boolean, component, file_name, int32, optional_int64, own_id, text};
use crate::StoreError;
use crate::column::{Column, TableReader};

const USER: &str = "user";
const KERNEL: &str = "kernel";

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows = profile.sched.frames.as_slice();
    vec![
        own_id(rows),
        text("function", rows, |f| &f.function),
        optional_int64("component_id", rows, |f| f.component.map(i64::from)),
        text("component", rows, |f| f.component.map_or("", |id| file_name(&component(profile, id).path))),
        text("file", rows, |f| &f.file),
        int32("line", rows, |f| f.line),
        boolean("inlined", rows, |f| f.inlined),
        text("space", rows, |f| space_word(f.space)),
    ]
}

pub(crate) fn space_word(space: Space) -> &'static str {
    match space {
        Space::User => USER,
        Space::Kernel => KERNEL,
    }
}

pub(crate) fn parse_space(word: &str) -> Option<Space> {
    match word {
        USER => Some(Space::User),
        KERNEL => Some(Space::Kernel),
        _ => None,
    }
}

pub(crate) fn read(table: &TableReader, components: usize) -> Result<Vec<StackFrame>, StoreError> {
    let mut function = table.text("function")?.into_iter();
    let mut component = table.optional_ids("component_id", components)?.into_iter();
    let mut file = table.text("file")?.into_iter();
    let mut line = table.int32("line")?.into_iter();
    let mut inlined = table.boolean("inlined")?.into_iter();
    let mut space = table.words("space", parse_space)?.into_iter();
    Ok(std::iter::from_fn(|| {
        Some(StackFrame {
            function: function.next()?,
            component: component.next()?,
            file: file.next()?,
            line: line.next()?,
            inlined: inlined.next()?,
            space: space.next()?,
        })
    })
    .collect())
}
