//! The search as it goes: a line a step.

use transect_profile_model::{ShareMethod, Space, WalkNodeId, WalkStep, WalkTables};

use super::super::escape::escape;
use super::super::shorten::{Kind, shorten, width};
use super::super::style::{Role, Style};
use super::super::units::{duration, percent};

/// Narrower pages show the callee alone.
const WIDE: usize = 64;

/// One step of the search as one line without line end, made to fit, foreign names escaped:
/// `  0.41 s  main  Store::swapOut → unlink [kernel]  38.2 % exact`. Of `walk`, the groups and nodes that the step points
/// to are used.
pub fn walk_progress(step: &WalkStep, walk: &WalkTables, style: Style) -> String {
    let group = walk.groups.get(step.group as usize).map_or("", |group| group.thread_group.as_str());
    let time = format!("{:>8}", duration(step.time_ns));
    let share = format!("{:>7}", percent(step.share * 100.0));
    let how = match step.method {
        ShareMethod::Exact => "exact",
        ShareMethod::Sampled => "sampled",
        ShareMethod::SyscallExact => "syscall",
    };
    let mark = if step.followed { "▸" } else { " " };
    let head = format!("{time}  {share} {how:<7} {mark} ");
    let group = shorten(&escape(group), Kind::Text, 12);
    let (parent, _) = name(walk, step.parent);
    let (function, space) = name(walk, step.node);
    let wide = style.columns() >= WIDE;
    let group = if wide { format!("{group}  ") } else { String::new() };
    let kernel = if wide && space == Space::Kernel { " [kernel]" } else { "" };
    let mut room = style.columns().saturating_sub(width(&head) + width(&group) + width(kernel));
    // The callee is what is new: it gets what the caller does not need.
    let function = shorten(&function, Kind::Function, room * 3 / 5);
    room -= width(&function);
    // A root is its own caller.
    let parent = if room > 12 && step.parent != step.node {
        shorten(&parent, Kind::Function, room - 3) + " → "
    } else {
        String::new()
    };
    room = room.saturating_sub(width(&parent));
    let note = match step.note.as_str() {
        "" => String::new(),
        note if room >= 16 => shorten(&format!("  ({})", escape(note)), Kind::Text, room),
        _ => String::new(),
    };
    let role = if step.followed { Role::Title } else { Role::Dim };
    [
        style.paint(Role::Dim, &time),
        format!("  {}", style.paint(if step.followed { Role::Large } else { Role::Dim }, &share)),
        format!(" {}", style.paint(Role::Dim, &format!("{how:<7}"))),
        format!(" {mark} "),
        style.paint(Role::Dim, &group),
        style.paint(Role::Dim, &parent),
        style.paint(role, &function),
        style.paint(Role::Wait, kernel),
        style.paint(Role::Dim, &note),
    ]
    .concat()
}

fn name(walk: &WalkTables, id: WalkNodeId) -> (String, Space) {
    match walk.nodes.get(id as usize) {
        Some(node) => (escape(&node.function).into_owned(), node.space),
        None => ("?".to_owned(), Space::User),
    }
}

#[cfg(test)]
mod tests {
    use transect_analyze::synthetic::walked_proxy;

    use super::*;

    #[test]
    fn a_step_is_a_line_that_fits() {
        let mut walk = walked_proxy().walk;
        walk.nodes[3].function = format!("evil\n\u{1b}[31m::{}", "x".repeat(300));
        for step in &walk.steps {
            for columns in [40, 80, 120, 200] {
                let line = walk_progress(step, &walk, Style { width: columns, color: false });
                assert!(width(&line) <= columns, "{columns}: {line}");
                assert!(!line.contains(['\n', '\u{1b}']), "{line:?}");
            }
        }
        let step = walk.steps.iter().find(|step| walk.nodes[step.node as usize].function == "fsync").unwrap();
        let line = walk_progress(step, &walk, Style { width: 80, color: false });
        assert_eq!(line, "  290 ms   66.0 % syscall ▸ log  AccessLog::commit() → fsync");
    }

    #[test]
    fn a_step_that_points_nowhere_is_still_a_line() {
        let walk = walked_proxy().walk;
        let step = WalkStep { node: 9_999, parent: 9_999, group: 99, ..walk.steps[0].clone() };
        assert!(walk_progress(&step, &walk, Style { width: 80, color: false }).contains('?'));
    }
}
