use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{BinaryError, Object, Plan, plan};

/// The folder in which linkage plans are kept from run to run.
///
/// An object with a build-id has `<build-id>.plan`, good for every later run; one without has
/// `path-<hash of its path>.plan` and beside it a stamp of the file, good until the file at that path changes.
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
    /// [`BinaryError::NoCacheFolder`] or [`BinaryError::WriteCache`].
    pub fn open_default() -> Result<Self, BinaryError> {
        Self::new(Self::default_folder().ok_or(BinaryError::NoCacheFolder)?)
    }

    /// Where the user's cache lies; `None` if neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    pub fn default_folder() -> Option<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
        Some(base.join("transect").join("linkage"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file in which the plan of `object` belongs.
    pub fn plan_path(&self, object: &Object) -> PathBuf {
        self.folder.join(match object.build_id() {
            Some(id) => format!("{id}.plan"),
            None => format!("path-{:016x}.plan", fnv1a(object.path().as_os_str().as_bytes())),
        })
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
        let stamp = if by_path { stamp(object.path()) } else { None };
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
        let result = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
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
fn stamp(path: &Path) -> Option<String> {
    let m = fs::metadata(path).ok()?;
    Some(format!("{} {} {} {}.{:09}", m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec()))
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
