//! Programs that trace others, or themselves: they could not while we trace them.

use std::fs;

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};

use crate::address_space::Mapping;

/// The sanitizers' libraries that look for leaks when the program ends, by the beginnings of their file names.
const LEAK_FINDERS: [&str; 6] =
    ["libasan.", "liblsan.", "libhwasan.", "libclang_rt.asan", "libclang_rt.lsan", "libclang_rt.hwasan"];
/// A function of theirs, where they are linked into the program.
const LEAK_CHECK: &str = "__lsan_do_leak_check";

/// Whether a process is going to trace others (it imports `ptrace`) or itself: a sanitizer that looks for leaks stops all
/// threads for it, from a thread that traces them.
pub fn traces(pid: i32) -> bool {
    finds_leaks(pid) || with_executable(pid, |file| imports(file, "ptrace"))
}

/// Whether it looks for leaks by tracing itself.
pub fn finds_leaks(pid: i32) -> bool {
    let is_finder = |mapping: &Mapping| {
        let name = mapping.path.file_name().unwrap_or_default().to_string_lossy();
        mapping.executable && LEAK_FINDERS.iter().any(|beginning| name.starts_with(beginning))
    };
    Mapping::all(pid).is_ok_and(|mappings| mappings.iter().any(is_finder))
        || with_executable(pid, |file| {
            file.symbols().chain(file.dynamic_symbols()).any(|s| s.is_definition() && s.name() == Ok(LEAK_CHECK))
        })
}

fn imports(file: &ElfFile64<'_, LittleEndian>, name: &str) -> bool {
    file.dynamic_symbols().any(|symbol| symbol.is_undefined() && symbol.name() == Ok(name))
}

fn with_executable(pid: i32, ask: impl Fn(&ElfFile64<'_, LittleEndian>) -> bool) -> bool {
    let Ok(data) = fs::read(format!("/proc/{pid}/exe")) else { return false };
    ElfFile64::<LittleEndian>::parse(&*data).is_ok_and(|file| ask(&file))
}
