use std::collections::BTreeMap;
use std::path::Path;

use transect_profile_model::{Profile, SCHEMA_VERSION};

use crate::column::encode;
use crate::folder::Target;
use crate::metadata::{META_FILE, MetaFile, TableEntry};
use crate::tables::{columns, dangling};
use crate::{StoreError, TABLES};

/// Writes `profile` as the folder `dir` (mode 0700, files 0600), creating missing parents.
///
/// The folder appears as a whole: it is written beside `dir` and then put in its place in one step. A
/// profile that stands there is replaced, so snapshots of a running recording may go to one path while others read
/// it. Nothing is left behind on failure.
///
/// # Errors
///
/// [`StoreError::WouldOverwrite`] if `dir` holds anything but a profile or an empty folder;
/// [`StoreError::DiskFull`], [`StoreError::ReadOnly`], [`StoreError::PermissionDenied`] and [`StoreError::Io`] from
/// the system; [`StoreError::Inconsistent`] if a row points to a row that does not exist.
pub fn write(dir: &Path, profile: &Profile) -> Result<(), StoreError> {
    let inconsistent = |why: String| StoreError::Inconsistent { path: dir.to_owned(), why };
    if let Some(why) = dangling(profile) {
        return Err(inconsistent(why));
    }
    let target = Target::prepare(dir)?;
    let folder = target.temporary()?;
    let mut entries = BTreeMap::new();
    for table in TABLES {
        let columns = columns(table, profile);
        let content = encode(table, SCHEMA_VERSION, &columns).map_err(|error| inconsistent(error.to_string()))?;
        folder.write_file(&format!("{table}.parquet"), &content)?;
        let rows = columns.first().map_or(0, |column| column.values.len());
        entries.insert(table.to_owned(), TableEntry::of(rows, &content));
    }
    let meta = MetaFile::new(&profile.meta, &profile.loss, entries);
    let content = meta.encode().map_err(|error| inconsistent(error.to_string()))?;
    folder.write_file(META_FILE, &content)?;
    target.replace_by(&folder)
}

/// Finds out before a recording starts whether [`write()`] to `dir` will be able to: checks what stands there and
/// makes and removes a folder beside it.
///
/// # Errors
///
/// As [`write()`].
pub fn check_writable(dir: &Path) -> Result<(), StoreError> {
    let folder = Target::prepare(dir)?.temporary()?;
    folder.write_file(META_FILE, b"{}")
}
