//! Folders for the time of a recording, and those that recorders which were killed have left behind.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::TempDir;

/// Names of such folders begin with this.
const PREFIX: &str = "transect-";
/// A file in each, locked for as long as the recorder lives, however it ends.
const LOCK: &str = "recorder.lock";
/// A folder may be younger than its lock.
const SETTLED: Duration = Duration::from_secs(10);

/// A folder that only its user can enter; removed when dropped.
#[derive(Debug)]
pub struct OwnFolder {
    dir: TempDir,
    _lock: File,
}

impl OwnFolder {
    /// Makes one in the folder for temporary files.
    pub fn create() -> io::Result<OwnFolder> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(folder: &Path) -> io::Result<OwnFolder> {
        let only_us = fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(only_us).tempdir_in(folder)?;
        let lock = File::create_new(dir.path().join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(OwnFolder { dir, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes the folders of recorders of this user that were killed.
pub fn clear_leftovers() {
    clear_in(&std::env::temp_dir(), SETTLED);
}

/// Letters that `tempfile` adds to a name.
const RANDOM_LETTERS: usize = 6;

fn clear_in(folder: &Path, settled: Duration) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let ours = fs::symlink_metadata(&path).is_ok_and(|found| {
            let age = found.modified().ok().and_then(|made| made.elapsed().ok());
            found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0 && age.is_some_and(|age| age >= settled)
        });
        if ours && is_abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        } else if ours && entry.file_name().len() == PREFIX.len() + RANDOM_LETTERS {
            // Killed before it made its lock, it left an empty one; no other is removed by this.
            let _ = fs::remove_dir(&path);
        }
    }
}

/// Whether nobody holds the lock of a folder that has one.
fn is_abandoned(path: &Path) -> bool {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let lock = File::options().read(true).custom_flags(flags).open(path.join(LOCK));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_nothing_else() {
        let around = tempfile::tempdir().unwrap();
        let live = OwnFolder::create_in(around.path()).unwrap();
        let dead = OwnFolder::create_in(around.path()).unwrap();
        fs::write(dead.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/nowhere", dead.path().join("arena")).unwrap();
        // As the kernel leaves it: the lock is gone with its process, the folder is not.
        let OwnFolder { dir, _lock } = dead;
        let dead = dir.keep();
        drop(_lock);
        let foreign = around.path().join("transect-notes");
        fs::create_dir(&foreign).unwrap();
        fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(foreign.join("note"), "").unwrap();
        let empty = tempfile::Builder::new().prefix(PREFIX).tempdir_in(around.path()).unwrap().keep();
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o700)).unwrap();
        clear_in(around.path(), SETTLED);
        assert!(dead.exists(), "it may have just been made");
        clear_in(around.path(), Duration::ZERO);
        assert!(!dead.exists() && !empty.exists());
        assert!(live.path().join(LOCK).exists());
        assert!(foreign.exists(), "it has no lock");
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
