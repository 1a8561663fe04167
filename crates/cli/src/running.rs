//! Which recordings run on this machine: one small file for each in the user's cache, so that `top` finds them.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use transect_binary_info::CacheFolder;
use transect_profile_store::StoreError;

use crate::failure::Failure;

/// Name of the folder in the user's cache.
const KIND: &str = "running";

/// So long it is known that a recorder was killed.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A recording that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Process id of the recorder.
    pub recorder: i32,
    /// Its profile folder, absolute.
    pub folder: PathBuf,
}

/// Removes the announcement when the recording ends.
#[derive(Debug)]
pub struct Announcement {
    file: Option<PathBuf>,
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
    }
}

/// Announces that this process records into `folder`. Without a cache to write to, `top` still works by folder.
pub fn announce(folder: &Path) -> Announcement {
    // Takes away what recorders that were killed have left.
    drop(list());
    let announced = CacheFolder::of_user(KIND).ok().and_then(|registry| {
        let file = registry.path().join(std::process::id().to_string());
        let path = std::path::absolute(folder).ok()?;
        registry.write(&file, path.as_os_str().as_bytes()).ok()?;
        Some(file)
    });
    Announcement { file: announced }
}

/// All recordings of this user whose recorder lives.
pub fn list() -> Vec<Running> {
    let alive = |(file, recording): (PathBuf, Running)| {
        if is_recorder(recording.recorder) {
            return Some(recording);
        }
        // Left over from a recorder that was killed, and kept for as long as there is something to be said about it.
        let is_old = fs::metadata(&file)
            .and_then(|found| found.modified())
            .is_ok_and(|written| std::time::SystemTime::now().duration_since(written).is_ok_and(|age| age > KEPT));
        if is_old || recording.folder.exists() {
            let _ = fs::remove_file(file);
        }
        None
    };
    announced().into_iter().filter_map(alive).collect()
}

/// What was announced and not taken back, with its file.
fn announced() -> Vec<(PathBuf, Running)> {
    let registry = CacheFolder::path_of_user(KIND);
    let entries = registry.and_then(|registry| fs::read_dir(registry).ok()).into_iter().flatten().flatten();
    let recording = |entry: fs::DirEntry| {
        let recorder = entry.file_name().to_str()?.parse().ok()?;
        let folder = PathBuf::from(std::ffi::OsString::from_vec(CacheFolder::read(&entry.path()).ok()?));
        Some((entry.path(), Running { recorder, folder }))
    };
    entries.filter_map(recording).collect()
}

/// What is behind a failure: where no profile is, one may be on its way, or its recorder was killed.
pub fn named(failure: Failure) -> Failure {
    let Failure::Read(StoreError::NotFound { path }) = &failure else { return failure };
    let Ok(folder) = std::path::absolute(path) else { return failure };
    let path = path.clone();
    match announced().into_iter().find(|(_, recording)| recording.folder == folder) {
        Some((_, Running { recorder, .. })) if is_recorder(recorder) => Failure::Unwritten { path, recorder },
        Some((_, Running { recorder, .. })) => Failure::Killed { path, recorder },
        None => failure,
    }
}

/// True if the process lives and is one of this command (pids are reused). Its name is compared, not its file: an
/// upgrade replaces the file under a running recorder.
fn is_recorder(pid: i32) -> bool {
    let name = |pid: &str| transect_attach::read_text(format!("/proc/{pid}/comm")).ok();
    let other = name(&pid.to_string());
    other.is_some() && other == name("self")
}

/// True if the process handles SIGUSR2; sent to one that does not (yet), the signal would end it.
pub fn takes_snapshots(pid: i32) -> bool {
    const SIGUSR2: u32 = 12;
    transect_attach::read_text(format!("/proc/{pid}/status"))
        .ok()
        .and_then(|status| {
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(caught.trim(), 16).ok()
        })
        .is_some_and(|caught| caught & 1 << (SIGUSR2 - 1) != 0)
}
