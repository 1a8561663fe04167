//! Answers to the agent's requests for linkage plans.
//!
//! The mailbox is memory that the program can write. So a request counts only if the kernel says that who asks has mapped
//! that very file, and nothing but plain files is opened.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::thread::futex;
use transect_attach::Mapping;
use transect_binary_info::{LastLink, Object, PlanCache, open_plain};
use transect_event_abi::arena::{REQUEST_DONE, REQUEST_FAILED, REQUEST_POSTED};

use crate::arena::Arena;
use crate::feature::pid_namespace_map;
use crate::static_components::StaticComponents;

/// Makes plans on demand.
pub struct Plans<'a> {
    cache: PlanCache,
    statics: Option<&'a StaticComponents>,
}

impl<'a> Plans<'a> {
    /// With a cache directory of one's own, or the user's, and what the recording knows of static components.
    pub fn new(cache: PlanCache, statics: Option<&'a StaticComponents>) -> Plans<'a> {
        Plans { cache, statics }
    }

    /// Answers the request in the mailbox, if there is one.
    pub fn answer(&self, arena: &Arena) {
        let request = &arena.header().request;
        if request.state.load(Ordering::Acquire) != REQUEST_POSTED {
            // An asker that died holds the mailbox: free it.
            let owner = request.owner.load(Ordering::Acquire);
            if owner != 0 && !Path::new(&format!("/proc/{owner}")).exists() {
                let _ = request.owner.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
            return;
        }
        let bytes: Vec<u8> =
            request.path.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).take_while(|&b| b != 0).collect();
        let path = PathBuf::from(OsStr::from_bytes(&bytes));
        let asker = request.owner.load(Ordering::Acquire).cast_signed();
        let object = mapped_file(asker, &path).and_then(|file| Object::of_file(&path, &file).ok());
        let done = object.as_ref().is_some_and(|object| self.cache.ensure_object(object).is_ok());
        if let (Some(statics), Some(object)) = (self.statics, &object) {
            statics.ensure(object);
        }
        let state = if done { REQUEST_DONE } else { REQUEST_FAILED };
        let _ = request.state.compare_exchange(REQUEST_POSTED, state, Ordering::AcqRel, Ordering::Relaxed);
        let _ = futex::wake(&request.state, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// The file at a path, if the thread that knows itself by the number `asker` has mapped it.
fn mapped_file(asker: i32, path: &Path) -> Option<File> {
    if asker <= 0 || path.as_os_str().is_empty() {
        return None;
    }
    let open = |place: &Path| open_plain(place, LastLink::Follow).ok();
    pid_namespace_map::all_of(asker).find_map(|task| {
        // File systems in layers may number files in maps otherwise than in stat: there the path tells.
        let its = |file: File, place: &Path| {
            let inode = file.metadata().ok()?.ino();
            let place = place.canonicalize().ok();
            let is_it = |mapping: Mapping| mapping.inode == inode || place.as_ref() == Some(&mapping.path);
            Mapping::each(task).ok()?.any(is_it).then_some(file)
        };
        // In a mount namespace of its own, or relative to a folder of its own, it is somewhere else.
        let through = |folder: &str| {
            let inside = path.strip_prefix("/").unwrap_or(path);
            let place = Path::new("/proc").join(task.to_string()).join(folder).join(inside);
            open(&place).and_then(|file| its(file, &place))
        };
        match path.is_absolute() {
            true => open(path).and_then(|file| its(file, path)).or_else(|| through("root")),
            false => through("cwd"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_asker_has_mapped_is_opened() {
        let own = std::process::id().cast_signed();
        let program = std::env::current_exe().unwrap();
        assert!(mapped_file(own, &program).is_some());
        // An object of the same machine that nobody here has mapped.
        let other = Path::new("/bin/true").canonicalize().unwrap();
        assert!(mapped_file(own, &other).is_none());
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.so");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(mapped_file(own, &pipe).is_none(), "and nobody waits for a writer");
        assert!(mapped_file(0, &program).is_none());
        // A copy is another file, whatever it is called.
        let copy = folder.path().join("copy");
        std::fs::copy(&program, &copy).unwrap();
        assert!(mapped_file(own, &copy).is_none());
    }
}
