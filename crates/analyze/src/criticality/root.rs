//! Functions at the root of stacks.

/// Functions that a program or a thread begins in.
const BEGINNINGS: [&str; 8] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
];

/// Whether a program or a thread begins in it, before any code of its own.
pub(crate) fn begins_there(function: &str) -> bool {
    BEGINNINGS.contains(&function)
}

/// Whether every program is in it all the time.
pub(crate) fn is_root(function: &str) -> bool {
    function == "main" || begins_there(function)
}
