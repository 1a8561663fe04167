use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parquet::errors::ParquetError;
use transect_profile_model::{Meta, Profile, SCHEMA_VERSION, SchedWait, Slice};

use crate::column::Column;
use crate::folder::{Target, Temporary};
use crate::metadata::{META_FILE, MetaFile, TableEntry};
use crate::table_writer::TableWriter;
use crate::tables::{SCHED_WAITS, SLICES, StackNumbers, columns, dangling, sched_waits, slices};
use crate::{StoreError, TABLES};

/// Rows of a block of waits that come from elsewhere than memory.
const WAITS_AT_ONCE: usize = 1 << 15;
/// The same of slices.
const SLICES_AT_ONCE: usize = 1 << 16;

/// Tables that are too long for memory: rows from elsewhere, for instance from files of the recorder.
pub struct LongTables<'a> {
    /// Rows of `sched_waits`.
    pub waits: Box<dyn Iterator<Item = io::Result<SchedWait>> + 'a>,
    /// Rows of `slices`.
    pub slices: Box<dyn Iterator<Item = io::Result<Slice>> + 'a>,
}

/// Writes `profile` as the folder `dir` (mode 0700, files 0600), creating missing parents.
///
/// The folder appears as a whole: it is written beside `dir` and then put in its place in one step. A profile that this
/// process has put there is replaced, so snapshots of a running recording may go to one path while others read it; any other
/// is kept as by [`keep_aside()`]. Nothing is left behind on failure. What writing takes is part of the recording's end, if that
/// is noted ([`Overhead::end_ns`](transect_profile_model::Overhead)).
///
/// # Errors
///
/// [`StoreError::WouldOverwrite`] if `dir` holds anything but a profile or an empty folder;
/// [`StoreError::DiskFull`], [`StoreError::ReadOnly`], [`StoreError::PermissionDenied`] and [`StoreError::Io`] from
/// the system; [`StoreError::Inconsistent`] if a row points to a row that does not exist.
pub fn write(dir: &Path, profile: &Profile) -> Result<(), StoreError> {
    write_from(dir, profile, None)
}

/// The same with waits and slices of the scheduler from `long`, which are read to their end; those in `profile` are
/// left out. Memory does not grow with their number.
///
/// # Errors
///
/// As [`write()`], and [`StoreError::Io`] if `long` fails.
pub fn write_streamed(dir: &Path, profile: &Profile, long: LongTables<'_>) -> Result<(), StoreError> {
    write_from(dir, profile, Some(long))
}

fn write_from(dir: &Path, profile: &Profile, long: Option<LongTables<'_>>) -> Result<(), StoreError> {
    let began = Instant::now();
    let target = Target::resolve(dir)?;
    let folder = target.temporary()?;
    let entries = write_tables(dir, profile, &folder, long, None)?;
    let mut facts = profile.meta.clone();
    // What tells how long the end took has not seen this.
    if let Some(overhead) = facts.overhead.as_mut().filter(|overhead| overhead.end_ns > 0) {
        overhead.end_ns = overhead.end_ns.saturating_add(began.elapsed().as_nanos() as i64);
        overhead.over(facts.wall_ns, facts.overhead_estimate);
    }
    write_meta(dir, profile, &folder, &facts, entries)?;
    target.replace_by(&folder)
}

/// Writes all tables of `profile` into `folder`; `slices`: the finished file of that table, if it is to be copied.
pub(crate) fn write_tables(
    dir: &Path,
    profile: &Profile,
    folder: &Temporary,
    mut long: Option<LongTables<'_>>,
    slices: Option<(&File, &TableEntry)>,
) -> Result<BTreeMap<String, TableEntry>, StoreError> {
    let writer = Writer { dir, profile, numbers: StackNumbers::of(profile) };
    if let Some(why) = dangling(profile) {
        return Err(writer.inconsistent(why));
    }
    let mut entries: BTreeMap<String, TableEntry> = BTreeMap::new();
    // Most time goes to making files, so two threads do.
    let plain: Vec<&str> = TABLES.iter().copied().filter(|table| ![SCHED_WAITS, SLICES].contains(table)).collect();
    let next = AtomicUsize::new(0);
    let write_plain = || {
        let mut written = Vec::new();
        while let Some(&table) = plain.get(next.fetch_add(1, Ordering::Relaxed)) {
            written.push((table.to_owned(), writer.plain(folder, table)?));
        }
        Ok(written)
    };
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, write_plain);
        let waits = writer.waits(folder, long.as_mut())?;
        let slices = match slices {
            Some((file, entry)) => copy_table(folder, SLICES, file, entry)?,
            None => writer.slices(folder, long.as_mut(), waits.rows as usize)?,
        };
        entries.extend([(SCHED_WAITS.to_owned(), waits), (SLICES.to_owned(), slices)]);
        entries.extend(write_plain()?);
        if let Ok(other) = other {
            entries.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(entries)
}

/// Writes `meta.json`, which makes the folder a profile.
pub(crate) fn write_meta(
    dir: &Path,
    profile: &Profile,
    folder: &Temporary,
    facts: &Meta,
    entries: BTreeMap<String, TableEntry>,
) -> Result<(), StoreError> {
    let meta = MetaFile::new(facts, &profile.loss, entries);
    let inconsistent = |why| StoreError::Inconsistent { path: dir.to_owned(), why };
    let content = meta.encode().map_err(|error| inconsistent(error.to_string()))?;
    folder.write_file(META_FILE, &content)
}

fn copy_table(folder: &Temporary, table: &str, mut file: &File, entry: &TableEntry) -> Result<TableEntry, StoreError> {
    let name = format!("{table}.parquet");
    let mut copy = folder.create(&name)?;
    let copied = file.rewind().and_then(|()| io::copy(&mut file, &mut copy));
    copied.map_err(|error| StoreError::from_io(&folder.file(&name), error))?;
    Ok(entry.clone())
}

/// Writes tables of one profile.
struct Writer<'a> {
    dir: &'a Path,
    profile: &'a Profile,
    numbers: StackNumbers,
}

impl Writer<'_> {
    fn inconsistent(&self, why: String) -> StoreError {
        StoreError::Inconsistent { path: self.dir.to_owned(), why }
    }

    /// Writes a table whose rows are in memory.
    fn plain(&self, folder: &Temporary, table: &str) -> Result<TableEntry, StoreError> {
        let columns = columns(table, self.profile, &self.numbers);
        let mut out = self.begin(folder, table, &columns)?;
        out.push(&columns)?;
        out.finish()
    }

    fn begin(&self, folder: &Temporary, table: &str, columns: &[Column<'_>]) -> Result<Out<'_>, StoreError> {
        let name = format!("{table}.parquet");
        let file = folder.create(&name)?;
        let path = folder.file(&name);
        let writer =
            TableWriter::new(file, table, SCHEMA_VERSION, columns).map_err(|error| failure(self.dir, &path, error))?;
        Ok(Out { dir: self.dir, path, writer })
    }

    fn waits(&self, folder: &Temporary, long: Option<&mut LongTables<'_>>) -> Result<TableEntry, StoreError> {
        let profile = self.profile;
        let mut out = self.begin(folder, SCHED_WAITS, &sched_waits::columns(profile, &[], 0, &self.numbers))?;
        let mut first = 0;
        let mut block = |rows: &[SchedWait]| {
            if let Some(row) = sched_waits::dangling(profile, rows) {
                let why = format!("{SCHED_WAITS} row {} points to a missing row", first + row);
                return Err(self.inconsistent(why));
            }
            out.push(&sched_waits::columns(profile, rows, first, &self.numbers))?;
            first += rows.len();
            Ok(())
        };
        match long {
            Some(long) => self.blocks(folder, &mut long.waits, WAITS_AT_ONCE, block)?,
            None => block(&profile.sched.waits)?,
        }
        out.finish()
    }

    fn slices(
        &self,
        folder: &Temporary,
        long: Option<&mut LongTables<'_>>,
        waits: usize,
    ) -> Result<TableEntry, StoreError> {
        let profile = self.profile;
        let mut out = self.begin(folder, SLICES, &slices::columns(profile, &[]))?;
        let mut first = 0;
        let block = |rows: &[Slice]| {
            if let Some(row) = slices::dangling(profile, rows, waits) {
                return Err(self.inconsistent(format!("{SLICES} row {} points to a missing row", first + row)));
            }
            out.push(&slices::columns(profile, rows))?;
            first += rows.len();
            Ok(())
        };
        match long {
            Some(long) => self.blocks(folder, &mut long.slices, SLICES_AT_ONCE, block)?,
            None => profile.sched.slices.chunks(SLICES_AT_ONCE).try_for_each(block)?,
        }
        out.finish()
    }

    /// Collects rows into blocks.
    fn blocks<R>(
        &self,
        folder: &Temporary,
        rows: &mut dyn Iterator<Item = io::Result<R>>,
        at_once: usize,
        mut block: impl FnMut(&[R]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut held = Vec::new();
        for row in rows {
            held.push(row.map_err(|error| StoreError::from_io(&folder.file(""), error))?);
            if held.len() == at_once {
                block(&held)?;
                held.clear();
            }
        }
        block(&held)
    }
}

/// A table's file being written, with what its errors name.
struct Out<'a> {
    dir: &'a Path,
    path: std::path::PathBuf,
    writer: TableWriter<File>,
}

impl Out<'_> {
    fn push(&mut self, columns: &[Column<'_>]) -> Result<(), StoreError> {
        self.writer.push(columns).map_err(|error| failure(self.dir, &self.path, error))
    }

    fn finish(self) -> Result<TableEntry, StoreError> {
        let (_, entry) = self.writer.finish().map_err(|error| failure(self.dir, &self.path, error))?;
        Ok(entry)
    }
}

/// A failure of the system is named for what it is; any other means that the rows could not be encoded.
fn failure(dir: &Path, path: &Path, error: ParquetError) -> StoreError {
    let why = error.to_string();
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => StoreError::from_io(path, *source),
            Err(_) => StoreError::Inconsistent { path: dir.to_owned(), why },
        },
        _ => StoreError::Inconsistent { path: dir.to_owned(), why },
    }
}

/// Finds out before a recording starts whether [`write()`] to `dir` will be able to: checks what stands there and
/// makes and removes a folder beside it.
///
/// # Errors
///
/// As [`write()`]; [`StoreError::NoParent`] if the folder around it is missing: a slip in a path is not to be made true.
pub fn check_writable(dir: &Path) -> Result<(), StoreError> {
    let folder = Target::prepare(dir)?.temporary()?;
    folder.write_file(META_FILE, b"{}")
}

/// Moves the profile that stands at `dir`, if one does, to `dir` with `.old` behind its name, as `perf record` does, in the
/// place of an older one; gives where it is now. Profiles that other recordings have made since this process began are all kept:
/// the next one as `DIR.old.2`.
///
/// # Errors
///
/// As [`write()`]; nothing is moved if something else stands at either place.
pub fn keep_aside(dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    Target::prepare(dir)?.keep_aside()
}
