use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::BinaryError;
use crate::plain_file::{LastLink, open_plain};

/// A folder, for its user only, in which something is kept from run to run.
#[derive(Debug)]
pub struct CacheFolder(PathBuf);

impl CacheFolder {
    /// Makes it, if it does not exist.
    ///
    /// # Errors
    /// [`BinaryError::WriteCache`].
    pub fn make(folder: PathBuf) -> Result<Self, BinaryError> {
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(source) => Err(BinaryError::WriteCache { path: folder, source }),
        }
    }

    /// The user's for what is called `kind`: `$XDG_CACHE_HOME/transect/KIND`, else `~/.cache/transect/KIND`.
    ///
    /// # Errors
    /// [`BinaryError::NoCacheFolder`], or [`BinaryError::WriteCache`] if the folder can't be made or written.
    pub fn of_user(kind: &str) -> Result<Self, BinaryError> {
        let cache = Self::make(Self::path_of_user(kind).ok_or(BinaryError::NoCacheFolder)?)?;
        let refused = |source| BinaryError::WriteCache { path: cache.0.clone(), source };
        // By sudo root may have a user's home: what this user can change says what is done in programs of root.
        let own = rustix::process::geteuid().as_raw();
        let is_own = fs::symlink_metadata(&cache.0).map_err(refused)?.uid() == own;
        // Whose folder it is in could put another one in its place.
        let is_safe = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.uid() == own || found.uid() == 0);
        if !is_own || !cache.0.ancestors().skip(1).take(2).all(is_safe) {
            return Err(refused(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's")));
        }
        match rustix::fs::access(&cache.0, rustix::fs::Access::WRITE_OK) {
            Ok(()) => Ok(cache),
            Err(error) => Err(BinaryError::WriteCache { path: cache.0, source: error.into() }),
        }
    }

    /// Where the user's lies; `None` if neither `XDG_CACHE_HOME` is an absolute path nor `HOME` a folder: homes are not made
    /// (`nobody`'s is `/nonexistent`).
    pub fn path_of_user(kind: &str) -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache")))?;
        Some(base.join("transect").join(kind))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is in `file`, of this folder: a plain file, no link and nothing that could be waited for.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(file: &Path) -> io::Result<Vec<u8>> {
        let mut file = open_plain(file, LastLink::Refuse)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Puts `bytes` at `file` in it in one step, so that a reader (an agent that starts meanwhile) never sees half of them.
    ///
    /// # Errors
    /// What the system says. Nothing is left behind then.
    pub fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let draft = self.0.join(format!(".draft-{}-{serial}", std::process::id()));
        // One of a process that had this number; nothing is followed or written over.
        let _ = fs::remove_file(&draft);
        let result = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut draft| draft.write_all(bytes))
            .and_then(|()| fs::rename(&draft, file));
        if result.is_err() {
            let _ = fs::remove_file(&draft);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::make(folder.path().join("kind")).unwrap();
        let file = cache.path().join("kept");
        cache.write(&file, b"bytes").unwrap();
        assert_eq!(CacheFolder::read(&file).unwrap(), b"bytes");
        let link = cache.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(CacheFolder::read(&link).is_err());
    }
}
