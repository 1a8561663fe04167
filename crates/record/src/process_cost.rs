//! What the agent costs a process once, outside of its own code: for the estimate of the overhead only.

use std::collections::HashMap;

use transect_profile_model::{Process, ProcessId};

/// What it takes to load the agent into a program and to give up its mappings, ns: 500 runs of `/bin/true` by a shell, less
/// what the agent measures itself, or what samples show in it.
const IMAGE_NS: f64 = 350_000.0;
/// The same to give the child of a fork a record of its own, and its memory up.
const FORK_NS: f64 = 150_000.0;

/// All of `processes` that `counts` has, by their rows.
pub fn processes_ns(processes: &[Process], counts: impl Fn(ProcessId) -> bool) -> f64 {
    let mut known: HashMap<i32, &str> = HashMap::new();
    let mut ns = 0.0;
    for (row, process) in processes.iter().enumerate() {
        // What begins as its parent's program was forked; the next program of that process number was executed.
        let first = known.insert(process.pid, &process.executable).is_none();
        let is_fork = first && known.get(&process.parent_pid) == Some(&process.executable.as_str());
        if counts(row as ProcessId) {
            ns += if is_fork { FORK_NS } else { IMAGE_NS };
        }
    }
    ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_forked_has_loaded_nothing() {
        let row = |pid, parent_pid, executable: &str| Process {
            pid,
            parent_pid,
            executable: executable.to_owned(),
            start_ns: 0,
            wall_ns: 1,
        };
        let shell = row(1, 0, "/bin/sh");
        // A subshell, a command, one that the kernel started at once (vfork), and a script.
        let children = [
            row(2, 1, "/bin/sh"),
            row(3, 1, "/bin/sh"),
            row(3, 1, "/bin/true"),
            row(4, 1, "/bin/true"),
            row(5, 1, "/bin/sh"),
            row(5, 1, "/bin/sh"),
        ];
        let all: Vec<Process> = [shell].into_iter().chain(children).collect();
        assert_eq!(processes_ns(&all, |_| true), 3.0 * FORK_NS + 4.0 * IMAGE_NS);
        assert_eq!(processes_ns(&all, |row| row == 1), FORK_NS);
    }
}
