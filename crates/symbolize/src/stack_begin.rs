//! Functions that stacks begin with.

/// Functions that make threads.
const MAKERS: &[&str] = &["clone", "clone3", "__clone", "__clone3"];
/// Functions that a program or thread begins with, but for those.
const BEGINNINGS: &[&str] = &["main", "_start", "start_thread", "thread_start"];

/// Whether a function makes threads: of theirs it is no frame, where the function that they begin in is known.
pub fn makes_threads(function: &str) -> bool {
    MAKERS.contains(&function)
}

/// Whether a program or thread begins with a function: a stack that has it as its root lacks nothing.
pub fn is_beginning(function: &str) -> bool {
    BEGINNINGS.contains(&function) || makes_threads(function)
}
