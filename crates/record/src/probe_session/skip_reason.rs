//! Processes in which no return address may be replaced.

use std::fs;
use std::path::{Path, PathBuf};

use transect_attach::{Mapping, Target};

/// Why functions of a process must not be timed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// The CPU compares return addresses with copies of its own, and ends who returns elsewhere.
    #[error("it has a shadow stack, by which the CPU guards return addresses; timing replaces some for a moment")]
    ShadowStack,
    /// Stacks are copied away and back, with our return sites on them, after these are gone.
    #[error(
        "it may switch stacks by copying them ({}); timing replaces return addresses, which would come back later", .0.display()
    )]
    CopiedStacks(PathBuf),
}

/// Looks for one. Threads may get shadow stacks and extensions may be loaded later, so it is looked before every window.
pub fn skip_reason(target: &Target, mappings: &[Mapping]) -> Option<SkipReason> {
    let tasks = fs::read_dir(format!("/proc/{}/task", target.pid())).into_iter().flatten().flatten();
    let mut statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    if statuses.any(|status| has_shadow_stack(&status)) {
        return Some(SkipReason::ShadowStack);
    }
    let copier = mappings.iter().find(|mapping| mapping.executable && copies_stacks(&mapping.path));
    copier.map(|mapping| SkipReason::CopiedStacks(mapping.path.clone()))
}

/// By a thread's `/proc` status (Linux 6.6 and later, on CPUs that have it).
fn has_shadow_stack(status: &str) -> bool {
    // The line of the features that are locked, off or on, begins alike; names of threads have their new lines escaped.
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
    features.is_some_and(|features| features.split_whitespace().any(|feature| feature == "shstk"))
}

/// Python's greenlet, which gevent and eventlet are made with.
fn copies_stacks(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    let name = name.strip_prefix('_').unwrap_or(name);
    // Between the two is what the extension was built for.
    name.strip_prefix("greenlet").is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_stacks_are_seen_in_the_status() {
        let status =
            |features: &str| format!("Name:\tshstk\nThreads:\t1\n{features}\nSpeculation_Store_Bypass:\tnone\n");
        assert!(has_shadow_stack(&status("x86_Thread_features:\tshstk \nx86_Thread_features_locked:\t")));
        assert!(has_shadow_stack(&status(
            "x86_Thread_features:\twrss shstk \nx86_Thread_features_locked:\tshstk wrss "
        )));
        // Off, and locked so.
        assert!(!has_shadow_stack(&status("x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss ")));
        assert!(!has_shadow_stack(&status("x86_Thread_features:\tnoshstk")));
        assert!(!has_shadow_stack(&status("Seccomp:\t0")), "an old kernel, or another CPU");
        assert!(!has_shadow_stack(""));
    }

    #[test]
    fn greenlet_is_known_by_its_file() {
        for name in [
            "_greenlet.cpython-311-x86_64-linux-gnu.so",
            "_greenlet.abi3.so",
            "_greenlet.so",
            "greenlet.cpython-38-x86_64-linux-gnu.so",
            "_greenlet.so (deleted)",
        ] {
            assert!(copies_stacks(&Path::new("/usr/lib/python3/dist-packages/greenlet").join(name)), "{name}");
        }
        for name in
            ["/opt/greenlet/_test.so", "/opt/libgreenletters.so", "/opt/greenlet.py", "/opt/_greenlet.solution", ""]
        {
            assert!(!copies_stacks(Path::new(name)), "{name}");
        }
    }
}
