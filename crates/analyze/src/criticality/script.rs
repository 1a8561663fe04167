//! Functions of scripts, which a runtime has made code of or interprets, among those that lead to a place.

use super::Source;
use super::call_path::FunctionId;
use super::part::frame_of;
use crate::names::file_name;

/// The innermost of these functions (root first) that is a script's, but for scripts that come with the runtime, with
/// `file:line`.
pub(super) fn innermost(source: &Source<'_>, callers: &[FunctionId]) -> Option<(String, String)> {
    let comes_with_runtime = |file: &str| file.starts_with("node:") || file.starts_with("/usr/lib/");
    callers.iter().rev().find_map(|&id| {
        // What is in a file of code belongs to a component.
        let function = Some(&source.paths.functions[id as usize]).filter(|function| function.component.is_empty())?;
        let frame = &source.tables.frames[frame_of(source, &function.name)? as usize];
        let place = || format!("{}:{}", file_name(&frame.file), frame.line);
        (!comes_with_runtime(&frame.file)).then(|| (function.name.clone(), place()))
    })
}

#[cfg(test)]
mod tests {
    use transect_profile_model::{CallStack, Component, Space, StackFrame};

    use crate::criticality::short_lived::ShortLived;
    use crate::criticality::testing::{sample, session};
    use crate::criticality::{Source, place};
    use crate::names::Names;
    use crate::synthetic::empty;

    #[test]
    fn the_script_is_named_that_leads_to_the_runtimes_function() {
        let mut profile = empty();
        let path = "/usr/bin/node".into();
        let component =
            Component { path, build_id: String::new(), executable: true, synthetic: false, static_in: None };
        profile.components.push(component);
        let frames = [
            ("node::Start", Some(0), "", 0),
            ("main", None, "/srv/app.js", 4),
            ("appendRecord", None, "/srv/app.js", 2),
            ("fsyncSync", None, "node:fs", 1322),
            ("uv_fs_fsync", Some(0), "", 0),
        ];
        for (function, component, file, line) in frames {
            let (function, file) = (function.into(), file.into());
            profile.sched.frames.push(StackFrame {
                function,
                component,
                file,
                line,
                inlined: false,
                space: Space::User,
            });
        }
        let ids = (0..frames.len() as u32).collect();
        profile.sched.stacks.push(CallStack { frames: ids, complete: true, linked: 0 });
        profile.sched.samples.push(sample(0, 0, 1, 1000, false));
        let (names, session) = (Names::new(&profile), session(1));
        let (rows, ..) = place::rows(&Source::new(&profile, &names, &session), &ShortLived::default());
        let script = rows[0].script.as_ref().map(|(function, place)| format!("{function} at {place}"));
        assert_eq!((&*rows[0].function, script.as_deref()), ("uv_fs_fsync", Some("appendRecord at app.js:2")));
    }
}
