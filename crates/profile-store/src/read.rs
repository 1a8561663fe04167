use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use transect_profile_model::Profile;

use crate::StoreError;
use crate::column::TableReader;
use crate::folder::being_replaced;
use crate::metadata::{META_FILE, MetaFile};
use crate::tables;

/// How often a read starts again because the folder was replaced meanwhile. A replacement takes longer than a read,
/// so that more than a few in a row means that something else is wrong.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(4);

/// Reads the profile in folder `dir`.
///
/// All files are read through one handle of the folder; if a snapshot replaces it meanwhile, reading starts again.
///
/// # Errors
///
/// [`StoreError::NotFound`], [`StoreError::Foreign`] (not a profile), [`StoreError::UnknownSchema`] (from a newer
/// version), [`StoreError::Corrupt`] (a file is missing, shortened or altered, or its rows contradict each other),
/// [`StoreError::PermissionDenied`], [`StoreError::Io`].
pub fn read(dir: &Path) -> Result<Profile, StoreError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match read_once(dir) {
            Err(Interrupted::Replaced) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
            Err(Interrupted::Replaced) => {
                return Err(StoreError::corrupt(dir, "it is replaced faster than it can be read"));
            }
            Err(Interrupted::Failed(error)) => return Err(error),
            Ok(profile) => return Ok(profile),
        }
    }
}

enum Interrupted {
    /// The folder is no longer the one that was opened.
    Replaced,
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// An open profile folder.
struct Folder<'a> {
    path: &'a Path,
    handle: OwnedFd,
}

impl Folder<'_> {
    fn open(path: &Path) -> Result<Folder<'_>, Interrupted> {
        match openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(handle) => Ok(Folder { path, handle }),
            Err(Errno::NOENT) if being_replaced(path) => Err(Interrupted::Replaced),
            Err(Errno::NOENT) => Err(StoreError::NotFound { path: path.to_owned() }.into()),
            Err(Errno::NOTDIR) => Err(StoreError::Foreign { path: path.to_owned(), why: "a file".to_owned() }.into()),
            Err(error) => Err(StoreError::from_io(path, error.into()).into()),
        }
    }

    /// Content of a file; `None` if there is none.
    fn content(&self, name: &str) -> Result<Option<Vec<u8>>, Interrupted> {
        let failed = |error: io::Error| StoreError::from_io(&self.path.join(name), error);
        match openat(self.handle.as_fd(), name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => {
                let mut content = Vec::new();
                File::from(file).read_to_end(&mut content).map_err(failed)?;
                Ok(Some(content))
            }
            Err(Errno::NOENT) if self.was_replaced() => Err(Interrupted::Replaced),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(error.into()).into()),
        }
    }

    fn was_replaced(&self) -> bool {
        match (fstat(&self.handle), stat(self.path)) {
            (Ok(opened), Ok(named)) => (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino),
            _ => being_replaced(self.path),
        }
    }
}

fn read_once(dir: &Path) -> Result<Profile, Interrupted> {
    let folder = Folder::open(dir)?;
    let meta_path = dir.join(META_FILE);
    let Some(content) = folder.content(META_FILE)? else {
        let why = "a folder without meta.json".to_owned();
        return Err(StoreError::Foreign { path: dir.to_owned(), why }.into());
    };
    let meta = MetaFile::decode(dir, &meta_path, &content)?;
    let open_if_listed = |table: &str| -> Result<Option<TableReader>, Interrupted> {
        let name = format!("{table}.parquet");
        let path = dir.join(&name);
        let Some(entry) = meta.tables.get(table) else { return Ok(None) };
        let content = folder.content(&name)?.ok_or_else(|| StoreError::corrupt(&path, "the file is missing"))?;
        if let Some(why) = entry.mismatch(&content) {
            return Err(StoreError::corrupt(&path, why).into());
        }
        let table = TableReader::open(path.clone(), Bytes::from(content))?;
        if table.rows() as u64 != entry.rows {
            return Err(StoreError::corrupt(&path, format!("{} rows instead of {}", table.rows(), entry.rows)).into());
        }
        Ok(Some(table))
    };
    let open = |table: &str| -> Result<TableReader, Interrupted> {
        debug_assert!(!tables::ADDED_LATER.contains(&table));
        let missing = || StoreError::corrupt(&meta_path, format!("table {table} is not listed")).into();
        open_if_listed(table)?.ok_or_else(missing)
    };
    let components = tables::read_components(&open("components")?)?;
    let processes = tables::read_processes(&open("processes")?)?;
    let threads = tables::read_threads(&open("threads")?, processes.len())?;
    let mut latency = match open_if_listed("latency")? {
        Some(table) => tables::read_latency(&table, processes.len(), components.len())?,
        None => Vec::new(),
    };
    if let Some(table) = open_if_listed("latency_histogram")? {
        tables::read_latency_histogram(&table, &mut latency)?;
    }
    let latency_slices = match open_if_listed("latency_slices")? {
        Some(table) => tables::read_latency_slices(&table, latency.len())?,
        None => Vec::new(),
    };
    Ok(Profile {
        flows: tables::read_flows(&open("flows")?, threads.len(), components.len())?,
        waits: tables::read_waits(&open("waits")?, threads.len(), components.len())?,
        locks: tables::read_locks(&open("locks")?, processes.len())?,
        trace: tables::read_events(&open("events")?, threads.len(), components.len())?,
        latency,
        latency_slices,
        sched: Default::default(),
        loss: meta.losses(&meta_path)?,
        meta: meta.meta,
        components,
        processes,
        threads,
    })
}
