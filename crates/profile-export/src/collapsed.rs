//! Folded stacks, as `flamegraph.pl` and inferno read them.

use std::collections::BTreeMap;
use std::io::Write;

use transect_profile_model::{Profile, Space};

use crate::stack::{Frame, Stacks};
use crate::{ExportError, Format, Subject};

pub(crate) fn write(profile: &Profile, subject: Subject, out: &mut dyn Write) -> Result<(), ExportError> {
    let stacks = Stacks::collect(profile, subject);
    if !stacks.has_times {
        return Err(ExportError::NoTimes { format: Format::Collapsed });
    }
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for stack in stacks.rows.iter().filter(|s| s.self_ns > 0) {
        let mut frames: Vec<String> = stack.frames.iter().map(|f| plain(&stacks.text(f)) + mark(f)).collect();
        if subject == Subject::Walk && stack.class.is_wait() {
            frames.push("[off-CPU]".to_owned());
        }
        *lines.entry(frames.join(";")).or_default() += stack.self_ns;
    }
    for (stack, ns) in lines {
        writeln!(out, "{stack} {ns}")?;
    }
    Ok(())
}

/// How `stackcollapse-perf.pl` marks functions of the kernel, for viewers that colour them.
fn mark(frame: &Frame<'_>) -> &'static str {
    match frame {
        Frame::Function(frame) if frame.space == Space::Kernel => "_[k]",
        Frame::Node(node) if node.space == Space::Kernel => "_[k]",
        _ => "",
    }
}

/// The format has no quoting: `;` separates frames and a newline ends the stack. `;` becomes `:` as in
/// `stackcollapse-perf.pl`, control characters become U+FFFD, and an empty name would vanish.
fn plain(name: &str) -> String {
    if name.is_empty() {
        return "[unnamed]".to_owned();
    }
    name.chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn separators_cannot_be_forged() {
        assert_eq!(plain("f<[u8; 4]>\n99"), "f<[u8: 4]>\u{fffd}99");
        assert_eq!(plain(""), "[unnamed]");
    }
}
