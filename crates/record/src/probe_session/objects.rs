//! The ELF objects that a process has mapped, opened so that the file read is the file mapped.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use transect_attach::{Mapping, Reach};
use transect_binary_info::Object;

/// Executable mappings that were looked at: start, device and inode. Another object may come to an address that one has left.
pub type KnownMappings = HashSet<(u64, ((u32, u32), u64))>;

/// One object of a process.
#[derive(Debug)]
pub struct LoadedObject {
    /// Path as the process sees it.
    pub path: PathBuf,
    /// The file.
    pub object: Object,
    /// What is added to virtual addresses.
    pub bias: u64,
    /// Executable mappings of it.
    pub code: Vec<Reach>,
    /// All of its addresses, data included: what displaced code may refer to.
    pub reach: Reach,
    /// Device and inode: tells whether the same file is still there.
    pub identity: ((u32, u32), u64),
}

/// An object that can't be looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableObject {
    /// Path as the process sees it.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Opens the objects in `mappings` of process `pid` whose start address is not in `known`, which it then is.
pub fn load(pid: i32, mappings: &[Mapping], known: &mut KnownMappings) -> (Vec<LoadedObject>, Vec<UnreadableObject>) {
    let (mut objects, mut unreadable) = (Vec::<LoadedObject>::new(), Vec::new());
    for mapping in mappings.iter().filter(|m| m.executable && m.inode != 0 && !m.shared) {
        let identity = (mapping.device, mapping.inode);
        if !known.insert((mapping.start, identity)) {
            continue;
        }
        let code = Reach { low: mapping.start, high: mapping.end };
        // A second executable segment, or the same one split by a change of protection.
        if let Some(object) = objects
            .iter_mut()
            .find(|o| o.identity == identity && o.object.load_bias(mapping.start, mapping.offset) == Some(o.bias))
        {
            object.code.push(code);
            continue;
        }
        match open(pid, mapping) {
            Ok(object) => match object.load_bias(mapping.start, mapping.offset) {
                Some(bias) if is_copy(&object, bias, mapping, mappings) => {
                    let reason = "a copy of some of its code, made by the program".to_owned();
                    unreadable.push(UnreadableObject { path: mapping.path.clone(), reason });
                }
                Some(bias) => {
                    let range = object.address_range();
                    let reach = Reach { low: range.start.wrapping_add(bias), high: range.end.wrapping_add(bias) };
                    objects.push(LoadedObject {
                        path: mapping.path.clone(),
                        object,
                        bias,
                        code: vec![code],
                        reach,
                        identity,
                    });
                }
                None => {
                    let reason = "mapped where its program headers don't say".to_owned();
                    unreadable.push(UnreadableObject { path: mapping.path.clone(), reason });
                }
            },
            Err(reason) => unreadable.push(UnreadableObject { path: mapping.path.clone(), reason }),
        }
    }
    leave_guests_alone(pid, &mut objects, &mut unreadable);
    by_importance(pid, &mut objects);
    (objects, unreadable)
}

/// Whether a mapping holds code of an object that is loaded elsewhere: V8 maps its built-in functions a second time, near its
/// heap. What a loader has mapped begins with the file's first page.
fn is_copy(object: &Object, bias: u64, mapping: &Mapping, mappings: &[Mapping]) -> bool {
    const PAGE: u64 = !0xfff;
    let first = object.address_range().start;
    let (begin, offset) = ((first & PAGE).wrapping_add(bias), object.file_offset(first).unwrap_or(0) & PAGE);
    let of_file = || mappings.iter().filter(|other| (other.device, other.inode) == (mapping.device, mapping.inode));
    let elsewhere = |other: &Mapping| {
        other.executable && object.load_bias(other.start, other.offset).is_some_and(|other| other != bias)
    };
    of_file().any(elsewhere) && !of_file().any(|other| other.offset == offset && other.start == begin)
}

/// In a program without a loader only its own file is code that the CPU runs: what else it has mapped may be another
/// program's that it translates (valgrind), in which a jump to us leads nowhere.
fn leave_guests_alone(pid: i32, objects: &mut Vec<LoadedObject>, unreadable: &mut Vec<UnreadableObject>) {
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let executable = fs::read_link(&link).unwrap_or_default();
    if objects.iter().all(|object| object.path == executable) {
        return;
    }
    let has_no_loader = |object: &Object| object.is_static() && !object.is_loader();
    let opened = match objects.iter().find(|object| object.path == executable) {
        Some(program) => has_no_loader(&program.object),
        // It was looked at before, or is another's of the same name.
        None => Object::open(&link).is_ok_and(|object| has_no_loader(&object)),
    };
    if !opened {
        return;
    }
    objects.retain(|object| {
        let own = object.path == executable;
        if !own {
            let reason =
                "mapped by a statically linked program, which may translate it instead of running it".to_owned();
            unreadable.push(UnreadableObject { path: object.path.clone(), reason });
        }
        own
    });
}

/// The executable first, then what it asks for itself, then the rest: if there is not room for all, the program's own
/// code has it.
fn by_importance(pid: i32, objects: &mut [LoadedObject]) {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let Some(program) = objects.iter().find(|o| o.path == executable) else { return };
    let needed: HashSet<String> = program.object.needed().iter().cloned().collect();
    objects.sort_by_cached_key(|o| {
        let name = o.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let asked_for = needed.contains(&name) || o.object.soname().is_some_and(|soname| needed.contains(soname));
        (o.path != executable, !asked_for)
    });
}

/// The file behind a mapping: by its mapping where we may (which works for deleted files and other mount namespaces),
/// else by its path in the process' own root, if that is still the same file.
fn open(pid: i32, mapping: &Mapping) -> Result<Object, String> {
    let through_root =
        |path: &Path| PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(path));
    let is_same = |path: &Path| {
        fs::metadata(path).is_ok_and(|m| {
            // Overlay file systems show other devices in maps than in stat: the inode must do there.
            let device = (rustix::fs::major(m.dev()), rustix::fs::minor(m.dev()));
            m.ino() == mapping.inode && (device == mapping.device || device.0 == 0 || mapping.device.0 == 0)
        })
    };
    // The plain path first: separate debug files are found beside it.
    let candidates = [
        (!mapping.deleted && is_same(&mapping.path)).then(|| mapping.path.clone()),
        (!mapping.deleted).then(|| through_root(&mapping.path)).filter(|p| is_same(p)),
        Some(PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end))),
    ];
    let mut reason = String::new();
    for path in candidates.into_iter().flatten() {
        match Object::open(&path) {
            Ok(object) => return Ok(object),
            Err(error) => reason = error.to_string(),
        }
    }
    if mapping.deleted {
        reason = format!("its file was deleted or replaced, and {reason}");
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_copy_of_code_is_no_second_object() {
        let pid = std::process::id() as i32;
        let mut mappings = Mapping::all(pid).unwrap();
        let program = std::env::current_exe().unwrap();
        let code = mappings.iter().find(|m| m.executable && m.path == program).unwrap().clone();
        // Part of the code, where nothing else of the file is.
        let start = 0x7000_0000_0000;
        let offset = code.offset + 0x1000;
        mappings.push(Mapping { start, end: start + (code.end - code.start - 0x1000), offset, ..code });
        let (objects, unreadable) = load(pid, &mappings, &mut KnownMappings::default());
        assert_eq!(objects.iter().filter(|object| object.path == program).count(), 1);
        assert!(unreadable.iter().any(|object| object.path == program && object.reason.contains("a copy")));
    }
}
