use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{BinaryError, CacheFolder, Object, Plan, plan};

/// The folder in which linkage plans are kept from run to run.
///
/// An object with a build-id has `<build-id>-<hash of inode, size and change time>.plan`, good for every later run: two
/// files may have one build-id. One without has `path-<hash of its path>.plan` and beside it a stamp of the file, good until
/// the file at that path changes.
#[derive(Debug)]
pub struct PlanCache {
    folder: CacheFolder,
    /// Plans by path that this cache wrote.
    fresh: Mutex<HashSet<PathBuf>>,
}

impl PlanCache {
    /// Opens the cache in `folder`, which is made, readable by its user only, if it does not exist.
    ///
    /// # Errors
    /// [`BinaryError::WriteCache`].
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, BinaryError> {
        CacheFolder::make(folder.into()).map(Self::at)
    }

    /// Opens the user's cache.
    ///
    /// # Errors
    /// Those of [`CacheFolder::of_user`].
    pub fn open_default() -> Result<Self, BinaryError> {
        CacheFolder::of_user("linkage").map(Self::at)
    }

    fn at(folder: CacheFolder) -> Self {
        Self { folder, fresh: Mutex::default() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file in which the plan of `object` belongs.
    pub fn plan_path(&self, object: &Object) -> PathBuf {
        self.folder().join(object.kept_name() + ".plan")
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
        if trusted && CacheFolder::read(&file).is_ok_and(|bytes| Plan::from_bytes(&bytes).is_ok()) {
            return Ok(file);
        }
        self.folder
            .write(&file, &plan::analyze(object).to_bytes())
            .map_err(|source| BinaryError::WriteCache { path: file.clone(), source })?;
        if by_path {
            match &stamp {
                Some(text) => _ = self.folder.write(&stamp_file, text.as_bytes()),
                None => _ = fs::remove_file(&stamp_file),
            }
            self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(file.clone());
        }
        Ok(file)
    }
}

/// What tells one version of a file from the next: device, inode, size, change time.
fn stamp(object: &Object) -> Option<String> {
    let of = object.version()?;
    Some(format!("{} {} {} {}.{:09}", of.device, of.inode, of.size, of.changed.0, of.changed.1))
}
