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
const FUNCTIONS: [&str; 27] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "parking_lot",
    "hashbrown::",
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
/// The same where a name could not be demangled.
const MANGLED: [&str; 5] = ["_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"];
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

/// Go's standard library, by the first word of its packages' paths. `runtime` itself is above.
const GO_PACKAGES: [&str; 44] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "text",
    "time",
    "unicode",
];
/// Where Go's threads and goroutines begin and stacks are switched, before what its runtime does there.
const GO_ENTRIES: [&str; 11] = [
    "goexit",
    "mstart",
    "mstart0",
    "mstart1",
    "mcall",
    "morestack",
    "newstack",
    "systemstack",
    "rt0_go",
    "sigtramp",
    "clone",
];
/// Go's scheduler: a thread looks for a goroutine.
pub(crate) const GO_SCHEDULER: &str = "runtime.schedule";
/// Go's thread that looks at the others from time to time: it sleeps between, and nobody waits for it.
pub(crate) const GO_MONITOR: &str = "runtime.sysmon";
/// What compilers of C append to a function's name behind a dot; Go puts a function's name there.
const CLONES: [&str; 7] = ["part", "isra", "constprop", "cold", "lto_priv", "llvm", "localalias"];

/// What Transect puts into programs, by path: as installed, or as it is linked for one recording.
pub(crate) fn is_agent(path: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let linked = || folder.rsplit('/').next().is_some_and(|folder| folder.starts_with("transect-"));
    matches!(file, "libtransect_agent.so" | "libtransect_probe_agent.so") || file == "libtransect.so" && linked()
}

/// The C library or the loader, by file name.
pub(crate) fn is_c_library(file: &str) -> bool {
    C_LIBRARY.iter().any(|start| file.starts_with(start))
}

/// The C library or another runtime, by file name.
pub(super) fn is_runtime_component(file: &str) -> bool {
    is_c_library(file) || RUNTIME.iter().any(|start| file.starts_with(start))
}

/// A function of a runtime, in whatever file it stands.
pub(crate) fn is_runtime_function(name: &str) -> bool {
    let name = qualified(name);
    if let Some((implementer, of)) = name.strip_prefix('<').and_then(|inner| inner.split_once(" as ")) {
        // `<T as Trait>::method` is the program's own if the type or the trait is.
        return is_runtime_path(of) && (is_runtime_path(implementer) || !implementer.contains("::"));
    }
    // Methods of a primitive type are Rust's own: `<u64>::wrapping_mul`, `<*const T>::add`, `<[T]>::iter`.
    if let Some((of, _)) = name.strip_prefix('<').and_then(|inner| inner.split_once(">::"))
        && (of.starts_with(['*', '[']) || !of.contains("::") && of.starts_with(|c: char| c.is_ascii_lowercase()))
        && !of.contains('{')
    {
        return true;
    }
    is_runtime_path(name)
        || is_go_library(name)
        || MANGLED.iter().any(|start| name.starts_with(start))
        || NAMES.contains(&name)
}

/// `encoding/json.(*decodeState).object`: a function of Go's standard library.
fn is_go_library(name: &str) -> bool {
    let path = name.split(['(', '[']).next().unwrap_or(name);
    let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((package, function)) = last.split_once('.') else { return false };
    let first = if folder.is_empty() { package } else { folder.split('/').next().unwrap_or(folder) };
    let clone = function.starts_with(|c: char| c.is_ascii_digit())
        || CLONES.contains(&function.split('.').next().unwrap_or(""));
    GO_PACKAGES.contains(&first) && !clone
}

fn is_runtime_path(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&', '[']);
    FUNCTIONS.iter().any(|start| name.starts_with(start.trim_start_matches('<')))
}

/// Of a stack of Go's runtime alone, root first: the function that says what it is doing, such as `runtime.gcBgMarkWorker`,
/// rather than the system call that it does it by.
pub(super) fn go_task<'a>(functions: impl Iterator<Item = &'a str>) -> Option<usize> {
    let names: Vec<&str> = functions.map(|name| name.strip_suffix(".abi0").unwrap_or(name)).collect();
    if !names.first()?.starts_with("runtime.") {
        return None;
    }
    let is_task = |name: &&str| {
        let of_runtime = name.strip_prefix("runtime.").filter(|name| !name.contains(".gowrap"));
        of_runtime.is_some_and(|name| !GO_ENTRIES.contains(&name))
    };
    names.iter().position(|name| *name == GO_SCHEDULER).or_else(|| names.iter().position(is_task))
}

/// A demangled name without the return type that those of templates begin with: `std::f<int>` of `bool std::f<int>(int)`.
pub(crate) fn qualified(name: &str) -> &str {
    let (mut level, mut start) = (0_i32, 0);
    let bytes = name.as_bytes();
    let returned = decltype(name);
    for (at, &byte) in bytes.iter().enumerate().skip(returned) {
        match byte {
            // Of an operator everything is the name.
            _ if name[..at].ends_with("operator") => break,
            b'<' | b'[' | b'{' => level += 1,
            b'>' | b']' | b'}' if at > 0 && bytes[at - 1] != b'-' => level -= 1,
            b'(' if level == 0 && !name[at..].starts_with("(anonymous namespace)") => break,
            b'(' => level += 1,
            b')' => level -= 1,
            // `StubRoutines (2)`: no type comes before a bracket.
            b' ' if level == 0 && bytes.get(at + 1) == Some(&b'(') && !name[at + 1..].starts_with("(anonymous") => {
                break;
            }
            b' ' if level == 0 => start = at + 1,
            _ => {}
        }
        if !name.is_char_boundary(at + 1) {
            return name;
        }
    }
    &name[start..]
}

/// Length of the `decltype(auto)` that a name begins with, 0 if it does not.
fn decltype(name: &str) -> usize {
    let Some(rest) = name.strip_prefix("decltype") else { return 0 };
    let mut level = 0_i32;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' => level += 1,
            b')' if level == 1 => return name.len() - rest.len() + at + 1,
            b')' => level -= 1,
            b' ' => {}
            _ if level == 0 => return 0,
            _ => {}
        }
    }
    0
}

/// The name under which a function of the C library is public: `memcpy` of `__memcpy_avx_unaligned_erms`, `sscanf` of
/// `__isoc99_sscanf`.
pub(crate) fn public_name(name: &str) -> &str {
    const BEFORE: [&str; 7] = ["__vdso_", "__GI_", "__isoc99_", "__isoc23_", "__libc_", "___", "__"];
    const VARIANTS: [&str; 9] =
        ["_avx", "_evex", "_sse", "_ssse", "_erms", "_generic", "_fma", "_unaligned", "_usercnt"];
    let mut bare = name;
    if let Some(rest) = BEFORE.iter().find_map(|before| name.strip_prefix(before))
        && rest.starts_with(|c: char| c.is_ascii_lowercase())
    {
        bare = rest;
    }
    let end = VARIANTS.iter().filter_map(|variant| bare.find(variant)).filter(|&at| at > 0).min();
    match end {
        Some(end) => &bare[..end],
        // Those that begin like this are public as they are.
        None if name.starts_with("__libc_start") || name.starts_with("__cxa_") => name,
        None => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_without_its_return_type() {
        let names = [
            ("bool std::operator< <char, int>(A const&, B)", "std::operator< <char, int>(A const&, B)"),
            ("void f<int>(int)", "f<int>(int)"),
            ("decltype(auto) std::visit<app::See>(app::See&&)", "std::visit<app::See>(app::See&&)"),
            ("decltype ((*a).b(1)) app::get<int>(int)", "app::get<int>(int)"),
            ("decltyped(int)", "decltyped(int)"),
            ("ns::(anonymous namespace)::g(int)", "ns::(anonymous namespace)::g(int)"),
            ("main", "main"),
            ("std::map<int, long>::operator[](int)", "std::map<int, long>::operator[](int)"),
            ("S::operator bool() const", "S::operator bool() const"),
            ("<app::Key as core::hash::Hash>::hash", "<app::Key as core::hash::Hash>::hash"),
            ("größe", "größe"),
        ];
        for (name, expected) in names {
            assert_eq!(qualified(name), expected);
        }
    }

    #[test]
    fn what_is_a_runtimes_and_what_the_programs() {
        for name in [
            "bool std::operator< <char>(std::string const&)",
            "<A as core::slice::cmp::SlicePartialEq<B>>::equal_same_length",
            "<alloc::vec::Vec<T> as core::ops::Index<I>>::index",
            "_ZSteqIcEN9__gnu_cxx11__enable_ifE",
            "core::ptr::drop_in_place<app::Thing>",
            "<u64>::wrapping_mul",
            "<*const app::Thing>::copy_to_nonoverlapping",
            "<[u8]>::len",
            "fmt.(*pp).doPrintf",
            "encoding/json.(*decodeState).object",
            "slices.SortFunc[go.shape.[]github.com/a/b.T]",
            "runtime.mallocgc",
        ] {
            assert!(is_runtime_function(name), "{name}");
        }
        for name in [
            "<app::Key as core::hash::Hash>::hash",
            "<app::Key>::hash",
            "app::find",
            "void app::apply<std::string>(int)",
            "stdev",
            "main.(*server).handle",
            "github.com/user/fmt.Parse",
            "example.com/sort.Slice",
            "sort.part.0",
            "hash.constprop.0.isra.0",
            "log.1234",
            "time",
        ] {
            assert!(!is_runtime_function(name), "{name}");
        }
    }

    #[test]
    fn what_go_does_on_its_own() {
        let task = |names: &[&str]| go_task(names.iter().copied()).map(|at| names[at].to_owned());
        let collects =
            ["runtime.goexit.abi0", "runtime.gcBgMarkStartWorkers.gowrap1", "runtime.gcBgMarkWorker", "futex"];
        assert_eq!(task(&collects).as_deref(), Some("runtime.gcBgMarkWorker"));
        let schedules =
            ["runtime.mcall", "runtime.park_m", "runtime.schedule", "runtime.findRunnable", "runtime.futex.abi0"];
        assert_eq!(task(&schedules).as_deref(), Some("runtime.schedule"));
        assert_eq!(
            task(&["runtime.mstart.abi0", "runtime.mstart1", "runtime.sysmon"]).as_deref(),
            Some("runtime.sysmon")
        );
        assert_eq!(task(&["start_thread", "runtime.schedule"]), None);
        assert_eq!(task(&["runtime.goexit"]), None);
    }

    #[test]
    fn functions_of_the_c_library_by_their_public_names() {
        let names = [
            ("__memcmp_evex_movbe", "memcmp"),
            ("__memcpy_avx512_unaligned_erms", "memcpy"),
            ("__strlen_sse2", "strlen"),
            ("__isoc99_sscanf", "sscanf"),
            ("__libc_write", "write"),
            ("__pthread_mutex_unlock_usercnt", "pthread_mutex_unlock"),
            ("__vdso_clock_gettime", "clock_gettime"),
            ("__libc_start_call_main", "__libc_start_call_main"),
            ("__cxa_throw", "__cxa_throw"),
            ("fdatasync", "fdatasync"),
            ("_IO_file_overflow", "_IO_file_overflow"),
        ];
        for (name, public) in names {
            assert_eq!(public_name(name), public);
        }
    }
}
