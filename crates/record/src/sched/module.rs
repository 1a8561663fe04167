//! ELF files with what names their places. Reading them is most of what naming takes, so it is done on all CPUs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

use transect_binary_info::Object;
use transect_probe_plan::Lines;
use transect_profile_model::ComponentId;
use transect_symbolize::function_at;

use super::mapped_file::{FileKey, MappedFile, MappedFiles};
use super::place::{FileId, Place};
use super::tail_call::Linkage;

/// An ELF file with what names its places.
pub(super) struct Module {
    pub read: ReadFile,
    /// Where `main` is, by the program's entry code; looked for once.
    pub main: Option<Option<u64>>,
    pub component: ComponentId,
}

/// What a file tells.
#[derive(Debug, Default)]
pub(crate) struct ReadFile {
    pub object: Option<Object>,
    /// Line tables, if they were asked for.
    pub lines: Option<Option<Lines>>,
    /// Functions that only the unwind information knows, as start and end.
    pub described: Option<Vec<(u64, u64)>>,
    /// What it calls and is called by, once it was asked for.
    pub linkage: Option<Linkage>,
}

impl ReadFile {
    /// The file, and nothing more yet.
    pub fn of(file: &MappedFile) -> Self {
        let object = file.object();
        if let Some(object) = &object {
            object.fetch_debug_file();
        }
        Self { object, ..Self::default() }
    }

    /// With its line tables.
    pub fn with_lines(file: &MappedFile) -> Self {
        let mut read = Self::of(file);
        read.lines = read.object.as_ref().map(Lines::of);
        read
    }

    /// With all that naming what lies at these offsets takes.
    fn for_places(file: &MappedFile, offsets: &[u64]) -> Self {
        let mut read = Self::of(file);
        let lines = |object| if is_c_library(object) { Lines::inside(object) } else { Lines::of(object) };
        read.lines = read.object.as_ref().map(lines);
        if let Some(object) = &read.object {
            let unnamed =
                |offset: &u64| object.vaddr(*offset).is_some_and(|vaddr| function_at(object, vaddr).is_none());
            read.described = offsets.iter().any(unnamed).then(|| described(object));
        }
        read
    }
}

/// Whether it is the C library, which is met in every program: to unpack and read the lines of its separate debug file takes
/// 60 ms, longer than many a program runs. In longer runs that is done ahead ([`super::read_ahead`]).
fn is_c_library(object: &Object) -> bool {
    const SONAMES: [&str; 3] = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"];
    object.soname().is_some_and(|name| SONAMES.contains(&name))
}

/// Files that were read already, for whoever names places in them next.
pub(crate) type ReadFiles = HashMap<FileKey, ReadFile>;

/// Functions without symbol that the unwind information describes, sorted.
pub(super) fn described(object: &Object) -> Vec<(u64, u64)> {
    let functions = object.function_symbols();
    functions.iter().filter(|f| f.is_described_only()).map(|f| (f.vaddr, f.vaddr + f.size)).collect()
}

/// Reads all files that places lie in, but for the `known` ones.
pub(super) fn read_all(files: &MappedFiles, places: &[Place], known: &mut ReadFiles) -> HashMap<FileId, ReadFile> {
    let mut offsets: HashMap<FileId, Vec<u64>> = HashMap::new();
    for place in places {
        if let Place::File { file, offset, returns } = *place {
            offsets.entry(file).or_default().push(offset - u64::from(returns && offset > 0));
        }
    }
    let mut found: HashMap<FileId, ReadFile> = HashMap::new();
    offsets.retain(|&file, _| match known.remove(&files.get(file).key()) {
        Some(read) => found.insert(file, read).is_some(),
        None => true,
    });
    let workers = thread::available_parallelism().map_or(1, usize::from).min(offsets.len());
    let wanted = Mutex::new(offsets.into_iter());
    let next = || wanted.lock().ok().and_then(|mut wanted| wanted.next());
    let read = || {
        let mut read = Vec::new();
        while let Some((file, offsets)) = next() {
            read.push((file, ReadFile::for_places(files.get(file), &offsets)));
        }
        read
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..workers).filter_map(|_| thread::Builder::new().spawn_scoped(scope, read).ok()).collect();
        found.extend(read());
        // What a thread did not get done is read when it is asked for.
        found.extend(others.into_iter().flat_map(|other| other.join().unwrap_or_default()));
    });
    found
}
