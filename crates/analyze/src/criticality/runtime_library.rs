//! Which code belongs to language runtimes and the C library: a user looks for the place that called it.

/// Files of the C library and the loader, by the start of their names.
const C_LIBRARY: [&str; 12] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-linux",
    "ld-musl",
    "ld-2",
    "libpthread",
    "libm.so",
    "librt.so",
    "libdl.so",
    "[vdso]",
    "linux-vdso",
];
/// Files of other runtimes.
const RUNTIME: [&str; 9] =
    ["libstdc++", "libc++", "libgcc_s", "libgomp", "libomp", "libiomp", "libtbb", "libtsan", "libasan"];
/// Functions of runtimes that are linked into programs, by the start of their names.
const FUNCTIONS: [&str; 26] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "parking_lot",
    "__gnu_cxx::",
    "operator new",
    "operator delete",
    "__gthread",
    "pthread_",
    "__pthread_",
    "___pthread_",
    "__lll_",
    "__futex_",
    "__libc_",
    "__GI_",
    "__clock_",
    "__mem",
    "__str",
    "__syscall",
    "__new_sem_",
    "syscall",
    "runtime.",
    "__rust_",
];
/// Others, by their whole names.
const NAMES: [&str; 21] = [
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "sleep",
    "fsync",
    "fdatasync",
    "read",
    "write",
    "recv",
    "send",
    "poll",
    "epoll_wait",
    "malloc",
    "free",
    "calloc",
    "realloc",
    "_int_malloc",
    "_int_free",
    "memcpy",
    "memset",
    "memmove",
];

/// The C library or the loader, by file name.
pub(super) fn is_c_library(file: &str) -> bool {
    C_LIBRARY.iter().any(|start| file.starts_with(start))
}

/// The C library or another runtime, by file name.
pub(super) fn is_runtime_component(file: &str) -> bool {
    is_c_library(file) || RUNTIME.iter().any(|start| file.starts_with(start))
}

/// A function of a runtime, in whatever file it stands.
pub(super) fn is_runtime_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|start| name.starts_with(start)) || NAMES.contains(&name)
}
