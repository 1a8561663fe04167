use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{BinaryError, Object, Plan, plan};

/// The folder in which linkage plans are kept from run to run.
///
/// An object with a build-id has `<build-id>-<hash of inode, size and change time>.plan`, good for every later run: two
/// files may have one build-id. One without has `path-<hash of its path>.plan` and beside it a stamp of the file, good until
/// the file at that path changes.
#[derive(Debug)]
pub struct PlanCache {
    folder: PathBuf,
    /// Plans by path that this cache wrote.
    fresh: Mutex<HashSet<PathBuf>>,
}

impl PlanCache {
    /// Opens the cache in `folder`, which is made, readable by its user only, if it does not exist.
    ///
    /// # Errors
    /// [`BinaryError::WriteCache`].
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, BinaryError> {
        let folder = folder.into();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|source| BinaryError::WriteCache { path: folder.clone(), source })?;
        Ok(Self { folder, fresh: Mutex::default() })
    }

    /// Opens the user's cache: `$XDG_CACHE_HOME/transect/linkage`, else `~/.cache/transect/linkage`.
    ///
    /// # Errors
    /// [`BinaryError::NoCacheFolder`], or [`BinaryError::WriteCache`] if the folder can't be made or written.
    pub fn open_default() -> Result<Self, BinaryError> {
        let cache = Self::new(Self::default_folder().ok_or(BinaryError::NoCacheFolder)?)?;
        let refused = |source| BinaryError::WriteCache { path: cache.folder.clone(), source };
        // By sudo root may have a user's home: plans that this user can change say what is done in programs of root.
        if fs::symlink_metadata(&cache.folder).map_err(refused)?.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it is another user's")));
        }
        match rustix::fs::access(&cache.folder, rustix::fs::Access::WRITE_OK) {
            Ok(()) => Ok(cache),
            Err(error) => Err(BinaryError::WriteCache { path: cache.folder, source: error.into() }),
        }
    }

    /// Where the user's cache lies; `None` if neither `XDG_CACHE_HOME` is an absolute path nor `HOME` a folder: homes are not
    /// made (`nobody`'s is `/nonexistent`).
    pub fn default_folder() -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache")))?;
        Some(base.join("transect").join("linkage"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file in which the plan of `object` belongs.
    pub fn plan_path(&self, object: &Object) -> PathBuf {
        self.folder.join(object.kept_name() + ".plan")
    }

    /// The file with the plan of the object at `path`: the one in the cache if it is sound, else a new one.
    ///
    /// # Errors
    /// Those of [`Object::open`], or [`BinaryError::WriteCache`].
    pub fn ensure(&self, path: impl AsRef<Path>) -> Result<PathBuf, BinaryError> {
        self.ensure_object(&Object::open(path)?)
    }

    /// As [`PlanCache::ensure`], for an object that is open already.
    ///
    /// # Errors
    /// [`BinaryError::WriteCache`].
    pub fn ensure_object(&self, object: &Object) -> Result<PathBuf, BinaryError> {
        let file = self.plan_path(object);
        let by_path = object.build_id().is_none();
        let known = |set: &Mutex<HashSet<PathBuf>>| set.lock().unwrap_or_else(PoisonError::into_inner).contains(&file);
        // Without a build-id the plan is that of one very file: its stamp must be the one it was made from.
        let stamp = if by_path { stamp(object) } else { None };
        let stamp_file = file.with_extension("stamp");
        let same = || stamp.is_some() && fs::read_to_string(&stamp_file).ok() == stamp;
        let trusted = !by_path || known(&self.fresh) || same();
        if trusted && fs::read(&file).is_ok_and(|bytes| Plan::from_bytes(&bytes).is_ok()) {
            return Ok(file);
        }
        self.write(&file, &plan::analyze(object).to_bytes())
            .map_err(|source| BinaryError::WriteCache { path: file.clone(), source })?;
        if by_path {
            match &stamp {
                Some(text) => _ = self.write(&stamp_file, text.as_bytes()),
                None => _ = fs::remove_file(&stamp_file),
            }
            self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(file.clone());
        }
        Ok(file)
    }

    /// Puts `bytes` at `file` in one step, so that a reader (an agent that starts meanwhile) never sees half a plan.
    fn write(&self, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let draft = self.folder.join(format!(".draft-{}-{serial}", std::process::id()));
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

/// What tells one version of a file from the next: device, inode, size, change time.
fn stamp(object: &Object) -> Option<String> {
    let of = object.version()?;
    Some(format!("{} {} {} {}.{:09}", of.device, of.inode, of.size, of.changed.0, of.changed.1))
}
