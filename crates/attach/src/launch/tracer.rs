//! Programs that trace others, or themselves: they could not while we trace them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};

use crate::address_space::Mapping;

/// The sanitizers' libraries that look for leaks when the program ends, by the beginnings of their file names.
const LEAK_FINDERS: [&str; 6] =
    ["libasan.", "liblsan.", "libhwasan.", "libclang_rt.asan", "libclang_rt.lsan", "libclang_rt.hwasan"];
/// A function of theirs, where they are linked into the program.
const LEAK_CHECK: &str = "__lsan_do_leak_check";

/// Programs' files that were looked at, each once: a shell starts the same ones again and again.
#[derive(Debug, Default)]
pub struct Tracers {
    known: BTreeMap<Version, bool>,
}

/// Device, inode, time of the last change in s and ns, size.
type Version = (u64, u64, i64, i64, u64);

impl Tracers {
    /// Whether a process is going to trace others (it imports `ptrace`) or itself: a sanitizer that looks for leaks stops all
    /// threads for it, from a thread that traces them.
    pub fn traces(&mut self, pid: i32) -> bool {
        let executable = File::open(format!("/proc/{pid}/exe"));
        let by_file = executable.and_then(|file| Ok((file.metadata()?, file))).is_ok_and(|(found, file)| {
            let version = (found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.size());
            let look = || look(file, |elf| imports(elf, "ptrace") || checks_leaks(elf));
            *self.known.entry(version).or_insert_with(look)
        });
        by_file || has_leak_finder(pid)
    }
}

/// Whether a process looks for leaks by tracing itself.
pub fn finds_leaks(pid: i32) -> bool {
    has_leak_finder(pid) || File::open(format!("/proc/{pid}/exe")).is_ok_and(|file| look(file, checks_leaks))
}

fn has_leak_finder(pid: i32) -> bool {
    let is_finder = |mapping: &Mapping| {
        let name = mapping.path.file_name().unwrap_or_default().to_string_lossy();
        mapping.executable && LEAK_FINDERS.iter().any(|beginning| name.starts_with(beginning))
    };
    Mapping::all(pid).is_ok_and(|mappings| mappings.iter().any(is_finder))
}

type Elf<'d> = ElfFile64<'d, LittleEndian, &'d ReadCache<File>>;

/// Only what the answer needs is read of the file.
fn look(file: File, ask: impl Fn(&Elf<'_>) -> bool) -> bool {
    ElfFile64::parse(&ReadCache::new(file)).is_ok_and(|elf| ask(&elf))
}

fn imports(file: &Elf<'_>, name: &str) -> bool {
    file.dynamic_symbols().any(|symbol| symbol.is_undefined() && symbol.name() == Ok(name))
}

fn checks_leaks(file: &Elf<'_>) -> bool {
    file.symbols().chain(file.dynamic_symbols()).any(|s| s.is_definition() && s.name() == Ok(LEAK_CHECK))
}
