//! Children that the program forks while its functions are timed: copies of its stacks hold our return sites, copies of its
//! text the jumps. Both are put back before the unwinders' probes are switched off, which an exception would need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use transect_attach::finish_left;
use transect_text_patch::Window;

use crate::probe_session::{ProbeSession, clean_child, our_code, siblings};

/// Children that are cleaned may have forked before that: it is looked so often for more at most.
const ROUNDS: usize = 8;

/// The children of one process that windows have left their traces in.
#[derive(Debug, Default)]
pub struct Children {
    /// Processes that were there when the window began, and the number that was given last then.
    before: Option<(BTreeSet<i32>, Option<i32>)>,
    /// Those that could not be cleaned yet, with what puts their text back.
    waiting: BTreeMap<i32, Vec<Window>>,
}

impl Children {
    /// A window is about to begin.
    pub fn begin(&mut self) {
        let last = last_number();
        self.before = Some((processes(), last));
    }

    /// Cleans those that were forked since, after the process itself; `windows` put the original bytes back. False if some
    /// are left to be cleaned later.
    pub fn clean(&mut self, session: &ProbeSession, windows: &[Window]) -> bool {
        self.clean_waiting(session);
        let Some((mut known, last)) = self.before.take() else { return self.waiting.is_empty() };
        if last.is_some() && last == last_number() {
            return self.waiting.is_empty();
        }
        known.insert(session.target().pid());
        for round in 0..=ROUNDS {
            let new: Vec<i32> = processes().difference(&known).copied().collect();
            known.extend(&new);
            let new = siblings::among(new.into_iter(), session.arena().file(), session.target().pid());
            if new.is_empty() {
                break;
            }
            for pid in new.into_iter().filter(|&pid| round == ROUNDS || !is_cleaned(pid, session, windows)) {
                self.waiting.insert(pid, windows.to_vec());
            }
        }
        self.waiting.is_empty()
    }

    /// Tries again with those that could not be cleaned.
    pub fn clean_waiting(&mut self, session: &ProbeSession) {
        // A thread that is asleep still would take seconds.
        if !self.waiting.is_empty() && finish_left() {
            self.waiting.retain(|&pid, windows| !is_cleaned(pid, session, windows));
        }
    }
}

/// Cleans one child; true if nothing of ours is left in it, or it is gone.
fn is_cleaned(pid: i32, session: &ProbeSession, windows: &[Window]) -> bool {
    match clean_child(pid, &our_code(session.arena()), &session.places, windows) {
        Ok(whole) => whole,
        Err(error) => error.is_gone(),
    }
}

fn processes() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The number that a process or thread was given last: while it does not change, none was made.
fn last_number() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_is_seen() {
        let mut children = Children::default();
        children.begin();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (before, last) = children.before.unwrap();
        assert_ne!(last, last_number());
        assert!(processes().difference(&before).any(|&pid| pid == child.id().cast_signed()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
