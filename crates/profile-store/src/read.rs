use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use parquet::file::reader::ChunkReader;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use transect_profile_model::{FeatureTables, Profile, SchedTables, Slice, WalkTables};

use crate::StoreError;
use crate::column::TableReader;
use crate::folder::{being_replaced, open_plain};
use crate::metadata::{META_FILE, MetaFile, TableEntry};
use crate::tables;
use crate::tables::stack_addresses::Relocation;

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
    again_if_replaced(dir, || read_once(dir, true))
}

/// The same without the timeline and without instructions: `sched.slices` and `sched.instructions` are empty, of their files only the
/// length and the number of rows are checked.
///
/// # Errors
///
/// As [`read()`].
pub fn read_without_slices(dir: &Path) -> Result<Profile, StoreError> {
    again_if_replaced(dir, || read_once(dir, false))
}

/// Calls `block` with the timeline of the profile in folder `dir`, some hundred thousand slices at a time, in order of
/// their end. For timelines that are too long for memory; the row numbers that slices hold are those of the tables
/// that [`read_without_slices()`] returns.
///
/// # Errors
///
/// As [`read()`]; `block` may have been called then.
pub fn for_each_slices(dir: &Path, block: &mut dyn FnMut(&[Slice])) -> Result<(), StoreError> {
    let slices = again_if_replaced(dir, || {
        let folder = Opened::open(dir)?;
        let rows = |table: &str| folder.meta.tables.get(table).map_or(0, |entry| entry.rows as usize);
        let (tasks, waits) = (rows("tasks"), rows(tables::SCHED_WAITS));
        Ok(folder.long_table(tables::SLICES)?.map(|table| (table, tasks, waits)))
    })?;
    let Some((table, tasks, waits)) = slices else { return Ok(()) };
    for rows in table.blocks() {
        block(&tables::slices::read(&rows, tasks, waits)?);
    }
    Ok(())
}

pub(crate) fn again_if_replaced<T>(dir: &Path, once: impl Fn() -> Result<T, Interrupted>) -> Result<T, StoreError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match once() {
            Err(Interrupted::Replaced) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
            Err(Interrupted::Replaced) => {
                return Err(StoreError::corrupt(dir, "it is replaced faster than it can be read"));
            }
            Err(Interrupted::Failed(error)) => return Err(error),
            Ok(read) => return Ok(read),
        }
    }
}

pub(crate) enum Interrupted {
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
        let Some(mut file) = self.file(name)? else { return Ok(None) };
        let mut content = Vec::new();
        let read = file.read_to_end(&mut content);
        read.map_err(|error| StoreError::from_io(&self.path.join(name), error))?;
        Ok(Some(content))
    }

    /// A file, opened; `None` if there is none.
    fn file(&self, name: &str) -> Result<Option<File>, Interrupted> {
        let failed = |error: io::Error| StoreError::from_io(&self.path.join(name), error);
        match open_plain(self.handle.as_fd(), Path::new(name)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error).into()),
            Err(_) if self.was_replaced() => Err(Interrupted::Replaced),
            Err(_) => Ok(None),
        }
    }

    fn was_replaced(&self) -> bool {
        match (fstat(&self.handle), stat(self.path)) {
            (Ok(opened), Ok(named)) => (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino),
            _ => being_replaced(self.path),
        }
    }
}

/// A profile folder with its `meta.json`.
pub(crate) struct Opened<'a> {
    folder: Folder<'a>,
    meta_path: PathBuf,
    meta: MetaFile,
}

impl<'a> Opened<'a> {
    pub(crate) fn open(dir: &'a Path) -> Result<Self, Interrupted> {
        let folder = Folder::open(dir)?;
        let meta_path = dir.join(META_FILE);
        let Some(content) = folder.content(META_FILE)? else {
            let why = "a folder without meta.json".to_owned();
            return Err(StoreError::Foreign { path: dir.to_owned(), why }.into());
        };
        let meta = MetaFile::decode(dir, &meta_path, &content)?;
        Ok(Self { folder, meta_path, meta })
    }

    /// Device and inode of the folder.
    pub(crate) fn number(&self) -> Result<(u64, u64), Interrupted> {
        let found = fstat(&self.folder.handle).map_err(|error| StoreError::from_io(self.folder.path, error.into()))?;
        Ok((found.st_dev, found.st_ino))
    }

    /// The file of a table, checked and not read, with what `meta.json` says of it; `None` in older profiles.
    pub(crate) fn checked_file(&self, table: &str) -> Result<Option<(File, TableEntry)>, Interrupted> {
        let Some((path, entry)) = self.entry(table) else { return Ok(None) };
        let file = self.folder.file(&file_name(table))?;
        let file = file.ok_or_else(|| StoreError::corrupt(&path, "the file is missing"))?;
        if let Some(why) = entry.mismatch_of(&file).map_err(|error| StoreError::from_io(&path, error))? {
            return Err(StoreError::corrupt(&path, why).into());
        }
        Ok(Some((file, entry.clone())))
    }

    /// A table that every profile has.
    fn table(&self, table: &str) -> Result<TableReader, Interrupted> {
        debug_assert!(!tables::ADDED_LATER.contains(&table));
        let missing = || StoreError::corrupt(&self.meta_path, format!("table {table} is not listed")).into();
        self.later_table(table)?.ok_or_else(missing)
    }

    /// A table that older profiles lack.
    fn later_table(&self, table: &str) -> Result<Option<TableReader>, Interrupted> {
        let Some((path, entry)) = self.entry(table) else { return Ok(None) };
        let content = self.folder.content(&file_name(table))?;
        let content = content.ok_or_else(|| StoreError::corrupt(&path, "the file is missing"))?;
        if let Some(why) = entry.mismatch(&content) {
            return Err(StoreError::corrupt(&path, why).into());
        }
        Ok(Some(counted(TableReader::open(path.clone(), Bytes::from(content))?, &path, entry)?))
    }

    /// Makes sure that a table that is not read is there with all of its rows; the rows themselves are not looked at.
    fn check_length(&self, table: &str) -> Result<(), Interrupted> {
        let Some((path, entry)) = self.entry(table) else { return Ok(()) };
        let file = self.folder.file(&file_name(table))?;
        let file = file.ok_or_else(|| StoreError::corrupt(&path, "the file is missing"))?;
        let bytes = file.metadata().map_err(|error| StoreError::from_io(&path, error))?.len();
        if bytes != entry.bytes {
            return Err(StoreError::corrupt(&path, format!("{bytes} bytes instead of {}", entry.bytes)).into());
        }
        counted(TableReader::open(path.clone(), file)?, &path, entry).map(drop)
    }

    /// A table that older profiles lack, of which only what is asked for is held in memory.
    fn long_table(&self, table: &str) -> Result<Option<TableReader<File>>, Interrupted> {
        let Some((file, entry)) = self.checked_file(table)? else { return Ok(None) };
        let path = self.folder.path.join(file_name(table));
        Ok(Some(counted(TableReader::open(path.clone(), file)?, &path, &entry)?))
    }

    fn entry(&self, table: &str) -> Option<(PathBuf, &TableEntry)> {
        Some((self.folder.path.join(file_name(table)), self.meta.tables.get(table)?))
    }
}

fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}

fn counted<F: ChunkReader + 'static>(
    table: TableReader<F>,
    path: &Path,
    entry: &TableEntry,
) -> Result<TableReader<F>, Interrupted> {
    if table.rows() as u64 != entry.rows {
        return Err(StoreError::corrupt(path, format!("{} rows instead of {}", table.rows(), entry.rows)).into());
    }
    Ok(table)
}

fn read_once(dir: &Path, whole: bool) -> Result<Profile, Interrupted> {
    let folder = Opened::open(dir)?;
    let mut profile = read_opened(&folder, whole)?;
    // Of stacks that differed in addresses there are several rows.
    if folder.later_table(tables::STACK_ADDRESSES)?.is_some_and(|table| table.rows() > 0) {
        profile.sched.merge_samples();
    }
    Ok(profile)
}

/// All tables of an open folder.
pub(crate) fn read_opened(folder: &Opened<'_>, whole: bool) -> Result<Profile, Interrupted> {
    let components = tables::read_components(&folder.table("components")?)?;
    let processes = tables::read_processes(&folder.table("processes")?)?;
    let threads = tables::read_threads(&folder.table("threads")?, processes.len())?;
    let meta = &folder.meta.meta;
    let mut latency = match folder.later_table("latency")? {
        Some(table) => tables::read_latency(&table, meta, processes.len(), components.len())?,
        None => Vec::new(),
    };
    if let Some(table) = folder.later_table("latency_histogram")? {
        tables::read_latency_histogram(&table, meta, &mut latency)?;
    }
    let latency_slices = match folder.later_table("latency_slices")? {
        Some(table) => tables::read_latency_slices(&table, meta, latency.len())?,
        None => Vec::new(),
    };
    Ok(Profile {
        flows: tables::read_flows(&folder.table("flows")?, threads.len(), components.len())?,
        waits: tables::read_waits(&folder.table("waits")?, threads.len(), components.len())?,
        locks: tables::read_locks(&folder.table("locks")?, processes.len())?,
        trace: tables::read_events(&folder.table("events")?, threads.len(), components.len())?,
        latency,
        latency_slices,
        sched: read_sched(folder, processes.len(), components.len(), whole)?,
        walk: read_walk(folder, processes.len(), components.len())?,
        feature: read_feature(folder, threads.len(), components.len())?,
        loss: folder.meta.losses(&folder.meta_path)?,
        meta: meta.clone(),
        components,
        processes,
        threads,
    })
}

/// Tables of the scheduler collector; those that an older profile lacks are empty.
fn read_sched(
    folder: &Opened<'_>,
    processes: usize,
    components: usize,
    whole: bool,
) -> Result<SchedTables, Interrupted> {
    let mut sched = SchedTables::default();
    if let Some(table) = folder.later_table("tasks")? {
        sched.tasks = tables::tasks::read(&table, processes)?;
    }
    if let Some(table) = folder.later_table("parallelism")? {
        sched.parallelism = tables::parallelism::read(&table, processes)?;
    }
    if let Some(table) = folder.later_table("frames")? {
        sched.frames = tables::frames::read(&table, components)?;
    }
    if let Some(table) = folder.later_table("stacks")? {
        sched.stacks = tables::stacks::read(&table, sched.frames.len())?;
    }
    if !whole {
        folder.check_length(tables::STACK_INSTRUCTIONS)?;
    } else if let Some(table) = folder.later_table(tables::STACK_INSTRUCTIONS)? {
        let depths: Vec<usize> = sched.stacks.iter().map(|stack| stack.frames.len()).collect();
        sched.instructions = tables::instructions::read(&table, &depths)?;
    }
    let (tasks, stacks) = (sched.tasks.len(), sched.stacks.len());
    if let Some(table) = folder.later_table("sched_samples")? {
        sched.samples = tables::sched_samples::read(&table, tasks, stacks)?;
    }
    if let Some(table) = folder.later_table("sched_moments")? {
        sched.moments = tables::sched_moments::read(&table, tasks, stacks)?;
    }
    if let Some(table) = folder.later_table(tables::SCHED_WAITS)? {
        sched.waits = tables::sched_waits::read(&table, tasks, stacks)?;
    }
    if !whole {
        folder.check_length(tables::SLICES)?;
    } else if let Some(table) = folder.later_table(tables::SLICES)? {
        sched.slices = tables::slices::read(&table, tasks, sched.waits.len())?;
    }
    Ok(sched)
}

/// Puts the addresses back that stacks had where they were recorded.
pub(crate) fn relocate(folder: &Opened<'_>, sched: &mut SchedTables) -> Result<(), Interrupted> {
    let instructions = folder.later_table(tables::STACK_INSTRUCTIONS)?;
    if let Some(table) = &instructions {
        let depths: Vec<usize> = sched.stacks.iter().map(|stack| stack.frames.len()).collect();
        sched.instructions = tables::instructions::read(table, &depths)?;
    }
    let Some(table) = folder.later_table(tables::STACK_ADDRESSES)? else { return Ok(()) };
    let addresses = tables::stack_addresses::read(&table)?;
    if addresses.is_empty() {
        return Ok(());
    }
    let mut relocation = Relocation::new(&addresses, &mut sched.stacks, &mut sched.addresses);
    if let Some(table) = &instructions {
        relocation.apply(sched.instructions.iter_mut().map(|at| Some(&mut at.stack)), table, "located_id")?;
    }
    if let Some(table) = folder.later_table("sched_samples")? {
        relocation.apply(sched.samples.iter_mut().map(|s| Some(&mut s.stack)), &table, "located_id")?;
    }
    if let Some(table) = folder.later_table("sched_moments")? {
        relocation.apply(sched.moments.iter_mut().map(|m| Some(&mut m.stack)), &table, "located_id")?;
    }
    if let Some(table) = folder.later_table(tables::SCHED_WAITS)? {
        tables::sched_waits::relocate(&mut sched.waits, &table, &mut relocation)?;
    }
    sched.drop_unused_stacks();
    Ok(())
}

/// Tables of a walk; those that an older profile lacks are empty.
fn read_walk(folder: &Opened<'_>, processes: usize, components: usize) -> Result<WalkTables, Interrupted> {
    let mut walk = WalkTables::default();
    if let Some(table) = folder.later_table(tables::walk::GROUPS)? {
        walk.groups = tables::walk::groups::read(&table, processes)?;
    }
    if let Some(table) = folder.later_table(tables::walk::NODES)? {
        walk.nodes = tables::walk::nodes::read(&table, walk.groups.len(), components)?;
    }
    if let Some(table) = folder.later_table(tables::walk::CHAINS)? {
        walk.chains = tables::walk::chains::read(&table, walk.groups.len())?;
    }
    if let Some(table) = folder.later_table(tables::walk::FRAMES)? {
        tables::walk::frames::read(&table, &walk.nodes, &mut walk.chains)?;
    }
    if let Some(table) = folder.later_table(tables::walk::STEPS)? {
        walk.steps = tables::walk::steps::read(&table, walk.groups.len(), walk.nodes.len())?;
    }
    if let Some(table) = folder.later_table(tables::walk::SYSTEM_CALLS)? {
        walk.system_calls = tables::walk::system_calls::read(&table, walk.groups.len())?;
    }
    Ok(walk)
}

/// Tables of features; those that an older profile lacks are empty.
fn read_feature(folder: &Opened<'_>, threads: usize, components: usize) -> Result<FeatureTables, Interrupted> {
    let mut feature = FeatureTables::default();
    if let Some(table) = folder.later_table(tables::feature::FEATURES)? {
        feature.features = tables::feature::features::read(&table)?;
    }
    if let Some(table) = folder.later_table(tables::feature::REGIONS)? {
        feature.regions = tables::feature::regions::read(&table, components)?;
    }
    if let Some(table) = folder.later_table(tables::feature::REGION_FEATURES)? {
        tables::feature::region_features::read(&table, feature.features.len(), &mut feature.regions)?;
    }
    let regions = feature.regions.len();
    if let Some(table) = folder.later_table(tables::feature::NODES)? {
        feature.nodes = tables::feature::nodes::read(&table, regions, threads)?;
    }
    if let Some(table) = folder.later_table(tables::feature::SLICES)? {
        feature.slices = tables::feature::slices::read(&table, feature.nodes.len())?;
    }
    if let Some(table) = folder.later_table(tables::feature::CONTEXTS)? {
        feature.contexts = tables::feature::contexts::read(&table, regions)?;
    }
    if let Some(table) = folder.later_table(tables::feature::VARIABLES)? {
        feature.variables = tables::feature::variables::read(&table, components, feature.features.len())?;
    }
    Ok(feature)
}
